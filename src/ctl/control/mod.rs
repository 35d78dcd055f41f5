//! `gatedctl`: what people and programs do with the daemon. Runs as its caller, without any privilege of its own, outside of
//! sessions; what it shows are the words of tools, escaped.

pub mod arguments;
mod ask;
pub mod audit;
mod auditlog;
mod completion;
mod daemon;
mod doctor;
pub mod failure;
mod generate;
mod grants;
pub mod ids;
mod lasting;
mod learn;
pub mod output;
mod policy;
mod polkit;
mod requests;
mod sessions;
pub mod since;
mod stats;
pub mod table;
pub mod tui;
mod unasked;
mod unit;
mod watch;
mod why;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, HiddenArguments, HiddenVerb, SessionVerb, Verb};
use failure::Failure;
use output::Output;

/// The process `gatedctl`.
pub fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return told(&Failure::Output(error)),
    };
    let result = if arguments::is_hidden(std::env::args_os().nth(1).as_deref()) {
        runtime.block_on(run_hidden(HiddenArguments::parse().verb))
    } else {
        let arguments = Arguments::parse();
        runtime.block_on(run(Output::new(arguments.json), arguments.verb))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => told(&failure),
    }
}

fn told(failure: &Failure) -> ExitCode {
    if !matches!(failure, Failure::Unhealthy) {
        eprintln!("gatedctl: {failure}");
    }
    ExitCode::from(failure.status())
}

async fn run(own: Output, verb: Verb) -> Result<(), Failure> {
    let output = &own;
    match verb {
        Verb::Ask(arguments) => ask::ask(output, &arguments).await,
        Verb::Tui(arguments) => tui::tui(own, arguments).await,
        Verb::Status => sessions::status(output).await,
        Verb::Doctor => doctor::doctor(output).await,
        Verb::Sessions => sessions::sessions(output).await,
        Verb::Session(SessionVerb::Show { session }) => sessions::show(output, &session).await,
        Verb::Session(SessionVerb::Stop { session }) => sessions::stop(output, &session).await,
        Verb::Pending => requests::pending(output).await,
        Verb::Show { request } => requests::show(output, &request).await,
        Verb::Approve(arguments) => requests::approve(output, &arguments).await,
        Verb::Deny(arguments) => requests::deny(output, &arguments).await,
        Verb::Grants(which) => grants::grants(output, &which).await,
        Verb::Grant(verb) => lasting::grant(output, &verb).await,
        Verb::Trust(arguments) => unasked::add(output, "allow", &arguments).await,
        Verb::Block(arguments) => unasked::add(output, "deny", &arguments).await,
        Verb::History(arguments) => lasting::history(output, &arguments).await,
        Verb::Revoke { grant, .. } => grants::revoke(output, grant.as_ref()).await,
        Verb::Watch { session } => watch::watch(output, session.as_ref()).await,
        Verb::Unit(verb) => unit::unit(output, &verb),
        Verb::Stats(arguments) => stats::stats(output, &arguments).await,
        Verb::Why { what } => why::why(output, what.as_ref()).await,
        Verb::Policy(arguments) => policy::run(output, &arguments).await,
        Verb::Audit(arguments) => audit::audit(output, &arguments).await,
    }
}

async fn run_hidden(verb: HiddenVerb) -> Result<(), Failure> {
    match verb {
        HiddenVerb::Generate { directory } => generate::generate(&directory),
        HiddenVerb::Ids { kind } => completion::ids(kind).await,
    }
}
