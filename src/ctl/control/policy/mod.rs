//! `gatedctl policy`: profiles and the ceiling, as who writes them sees them. Runs as the caller, for the caller, on files that
//! the caller can read; what is the machine's is changed by the daemon alone.

pub mod arguments;
mod cat;
mod check;
mod command;
mod diff;
mod edit;
mod explain;
mod list;
mod place;
mod test;

use super::failure::Failure;
use super::learn;
use super::output::Output;
use arguments::{PolicyArguments, PolicyVerb};

pub async fn run(output: &Output, arguments: &PolicyArguments) -> Result<(), Failure> {
    let here = arguments.place.here()?;
    match &arguments.verb {
        PolicyVerb::List => list::list(output, &here),
        PolicyVerb::Cat(cat) => cat::cat(output, &here, cat),
        PolicyVerb::Check(check) => check::check(output, &here, check),
        PolicyVerb::Diff(diff) => diff::diff(output, &here, diff),
        PolicyVerb::Test(test) => test::test(output, &here, test),
        PolicyVerb::Edit(edit) => edit::edit(output, &here, edit).await,
        PolicyVerb::Explain(explain) => explain::explain(output, &here, explain).await,
        PolicyVerb::Learn(arguments) => learn::learn(output, arguments),
    }
}
