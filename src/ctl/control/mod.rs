//! `gatedctl`: what people and programs do with the daemon. Runs as its caller, without any privilege of its own, outside of
//! sessions; what it shows are the words of tools, escaped.

pub mod arguments;
mod ask;
mod audit;
mod auditlog;
mod completion;
mod daemon;
mod doctor;
pub mod failure;
mod generate;
mod grants;
pub mod ids;
mod output;
mod policy;
mod polkit;
mod requests;
mod sessions;
pub mod since;
pub mod table;
pub mod tui;
mod watch;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, HiddenArguments, HiddenVerb, PolicyVerb, SessionVerb, Verb};
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
        Verb::Deny { request } => requests::deny(output, &request).await,
        Verb::Grants { session } => grants::grants(output, session.as_ref()).await,
        Verb::Revoke { grant, .. } => grants::revoke(output, grant.as_ref()).await,
        Verb::Watch { session } => watch::watch(output, session.as_ref()).await,
        Verb::Policy(PolicyVerb::Explain(arguments)) => policy::explain(output, &arguments),
        Verb::Audit(arguments) => audit::audit(output, &arguments).await,
    }
}

async fn run_hidden(verb: HiddenVerb) -> Result<(), Failure> {
    match verb {
        HiddenVerb::Generate { directory } => generate::generate(&directory),
        HiddenVerb::Ids { kind } => completion::ids(kind).await,
    }
}
