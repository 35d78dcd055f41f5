//! `why`: how requests ended, and what a policy denied without a question, in the words that the tool was told. Runs as the
//! caller, for the caller's own sessions.

use super::daemon::Daemon;
use super::failure::Failure;
use super::ids::{Kind, Prefix};
use super::output::Output;
use crate::common::text::{self, Untrusted};
use crate::ctl::control::watch::words;
use crate::ctl::proxies::Options;
use crate::daemon::endings::Ending;

/// Endings that are told where no request is named.
const MOST: usize = 20;

pub async fn why(output: &Output, what: Option<&Prefix>) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let told = daemon.policy().await?.why(Options::new()).await?;
    let read = |line: &String| serde_json::from_str(line).map_err(|error| Failure::Nonsense(error.to_string()));
    let all: Vec<Ending> = told.iter().map(read).collect::<Result<_, Failure>>()?;
    let chosen = match what {
        None => last(all.into_iter().filter(|ending| !ending.permitted).collect()),
        Some(prefix) => {
            let of_session = |ending: &&Ending| prefix.begins(&ending.session) && !ending.permitted;
            let of_request = |ending: &&Ending| ending.request.as_ref().is_some_and(|request| prefix.begins(request));
            let requests: Vec<&Ending> = all.iter().filter(of_request).collect();
            match requests.is_empty() {
                false => vec![
                    prefix.pick(Kind::Request, requests, |ending| ending.request.clone().unwrap_or_default())?.clone(),
                ],
                true if all.iter().any(|ending| prefix.begins(&ending.session)) => {
                    last(all.iter().filter(of_session).cloned().collect())
                }
                true => return not_yet(&daemon, prefix).await,
            }
        }
    };
    if output.json {
        return output.json(&chosen);
    }
    if chosen.is_empty() {
        return output.line("Nothing was denied.");
    }
    chosen.iter().flat_map(lines).try_for_each(|line| output.line(&line))
}

fn last(mut endings: Vec<Ending>) -> Vec<Ending> {
    endings.split_off(endings.len().saturating_sub(MOST))
}

/// A request that waits, or none that is remembered.
async fn not_yet(daemon: &Daemon, prefix: &Prefix) -> Result<(), Failure> {
    match daemon.pending(prefix).await {
        Ok(_) => Err(Failure::TooLate(format!("it is not decided yet; gatedctl show {prefix} says all about it"))),
        Err(Failure::NotFound { .. }) => Err(Failure::NotFound { kind: Kind::Request, prefix: prefix.clone() }),
        Err(error) => Err(error),
    }
}

/// One ending for a person; what a tool chose is escaped already, and what is not in that notation loses its teeth.
fn lines(ending: &Ending) -> Vec<String> {
    let shown = |escaped: &str| match text::unescaped(escaped) {
        Some(bytes) => text::escaped(&bytes),
        None => text::escaped(escaped.as_bytes()),
    };
    let object = shown(&ending.object);
    let what = match ending.argv.is_empty() {
        true => format!("{} {object}", shown(&ending.access)),
        false => {
            let argv = text::quoted_argv(words(&ending.argv).iter().map(Untrusted::as_bytes));
            format!("{} {argv} ({object})", shown(&ending.access))
        }
    };
    let by = ending.by.as_ref().map_or_else(String::new, |by| format!(" by {}", shown(by)));
    let end = match &ending.hint {
        Some(hint) => format!("{}: {}", shown(&ending.result), shown(hint)),
        None => format!("{}{by}", shown(&ending.result)),
    };
    let reason = ending.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", shown(reason)));
    let request = ending.request.as_ref().map_or_else(String::new, |request| format!("request {}, ", shown(request)));
    vec![
        what,
        format!("    {end}"),
        format!("    rule {}{reason}", shown(&ending.rule)),
        format!("    {request}session {}, call {}, {}", shown(&ending.session), ending.call, shown(&ending.time)),
    ]
}
