//! `policy diff`: what becomes wider or narrower from one profile to another, in words. Runs as the caller.

use super::arguments::Diff;
use super::command;
use super::place::Here;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::policy::ProfileSelector;
use crate::policy::compare::{Difference, compare};

pub fn diff(output: &Output, here: &Here, arguments: &Diff) -> Result<(), Failure> {
    let new = match (&arguments.to, &arguments.installed) {
        (Some(to), _) => to.clone(),
        (None, Some(file)) => ProfileSelector::File(file.clone()),
        (None, None) => return Err(Failure::Usage("a second profile was expected".to_owned())),
    };
    let (old, new) = (here.in_force(arguments.from.clone())?, here.in_force(new)?);
    let differences = compare(&old, &new, &command::follow);
    show(output, &differences)?;
    if differences.is_empty() { Ok(()) } else { Err(Failure::Unhealthy) }
}

pub fn show(output: &Output, differences: &[Difference]) -> Result<(), Failure> {
    if output.json {
        return output.json(&differences);
    }
    if differences.is_empty() {
        return output.line("No difference.");
    }
    differences.iter().try_for_each(|difference| output.line(&difference.to_string()))
}
