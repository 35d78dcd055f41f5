//! `policy explain`: what a profile, or a session that runs, says of an attempt, which line of which file says so, what else
//! matches, and what an answer could change. Runs as the caller; asks nobody and resolves no name.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::arguments::{Exec, Explain, Explained};
use super::command;
use super::place::Here;
use crate::common::access::Access;
use crate::common::exec::Command;
use crate::common::net::{HostTerm, Knowledge, Transport};
use crate::common::path::RawPath;
use crate::common::text;
use crate::ctl::control::daemon::Daemon;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::ids::Prefix;
use crate::ctl::control::output::Output;
use crate::ctl::proxies::Options;
use crate::policy::explain::{self, Assumed};
use crate::policy::question::{Asked, Explanation, Question};
use crate::policy::sockets::Services;
use crate::policy::{Grants, Policy, ProfileSelector};

pub async fn explain(output: &Output, here: &Here, arguments: &Explain) -> Result<(), Failure> {
    if let Some(session) = &arguments.session {
        return show(output, &of_session(here, session, &arguments.what).await?);
    }
    let questions = questions(here, &arguments.what)?;
    let selector = arguments.profile.clone().unwrap_or_else(|| ProfileSelector::Name("coder".to_owned()));
    let profile = here.in_force(selector)?;
    let policy = Policy::following(&profile, &command::follow);
    let explained: Vec<Explanation> =
        questions.iter().map(|question| question.explain(&policy, &Grants::new(), &command::follow)).collect();
    show(output, &explained)
}

/// What the daemon says of a session that runs, with the answers that hold there.
async fn of_session(here: &Here, session: &Prefix, what: &Explained) -> Result<Vec<Explanation>, Failure> {
    let mut question = Options::new();
    question.insert("access", access_of(what).as_str().into());
    match what {
        Explained::Read { path } | Explained::Write { path } => {
            let path = canonical(here, path)?;
            question.insert("directory", fs::metadata(path.as_path()).is_ok_and(|found| found.is_dir()).into());
            question.insert("object", path.as_bytes().to_vec().into());
        }
        Explained::Unix { path } => {
            question.insert("object", canonical(here, path)?.as_bytes().to_vec().into());
        }
        Explained::Exec(exec) => {
            let command = command_of(here, exec)?;
            let program = &command.asked.program;
            question.insert("object", program.path.as_bytes().to_vec().into());
            question.insert("of-system", program.is_of_system.into());
            question.insert("argv", command.asked.argv.clone().into());
            question.insert("environment", command.variables.clone().into());
            question.insert("directory", command.cwd.as_bytes().to_vec().into());
            let interpreters = command.interpreters.iter().map(|step| step.program.path.as_bytes().to_vec());
            question.insert("interpreters", interpreters.collect::<Vec<_>>().into());
            if let Some(operand) = &command.operand {
                question.insert("operand", operand.path.as_bytes().to_vec().into());
            }
        }
        Explained::Connect { host, at, hosts_file, udp } => {
            // The same words for the same mistakes as without a daemon.
            questions(here, what)?;
            question.insert("host", host.as_str().into());
            if let Some(at) = at {
                question.insert("at", at.to_string().into());
            }
            question.insert("hosts-file", (*hosts_file).into());
            question.insert("udp", (*udp).into());
        }
        Explained::Bind { address } => {
            question.insert("host", address.to_string().into());
        }
    }
    let daemon = Daemon::connect().await?;
    let session = daemon.session(session).await?.id;
    let told = daemon.policy().await?.explain(&session, question).await?;
    let read = |line: &String| serde_json::from_str(line).map_err(|error| Failure::Nonsense(error.to_string()));
    told.iter().map(read).collect()
}

fn access_of(what: &Explained) -> Access {
    match what {
        Explained::Read { .. } => Access::Read,
        Explained::Write { .. } => Access::Write,
        Explained::Exec(_) => Access::Exec,
        Explained::Connect { .. } => Access::Connect,
        Explained::Bind { .. } => Access::Bind,
        Explained::Unix { .. } => Access::Unix,
    }
}

fn show(output: &Output, explained: &[Explanation]) -> Result<(), Failure> {
    if output.json {
        return output.json(&explained);
    }
    explained.iter().flat_map(Explanation::lines).try_for_each(|line| output.line(&line))
}

/// What is asked, one after the other.
pub fn questions(here: &Here, what: &Explained) -> Result<Vec<Question>, Failure> {
    match what {
        Explained::Read { path } => Ok(vec![file(here, Access::Read, path)?]),
        Explained::Write { path } => Ok(vec![file(here, Access::Write, path)?]),
        Explained::Exec(exec) => Ok(vec![execution(here, exec)?]),
        Explained::Connect { host, at, hosts_file, udp } => {
            let by = if *hosts_file { Knowledge::HostsFile } else { Knowledge::Resolved };
            let transport = if *udp { Transport::Udp } else { Transport::Tcp };
            let asked = match host.parse::<HostTerm>() {
                Ok(term) => explain::connection(&term, &Assumed { at: *at, by }, transport),
                Err(error) => match host.parse() {
                    Ok(name) => Some(vec![explain::look_up(name)]),
                    Err(_) => return Err(Failure::Usage(format!("{}: {error}", text::escaped(host.as_bytes())))),
                },
            };
            asked
                .ok_or_else(|| Failure::Usage("one host and one port were expected, without `*` and ranges".to_owned()))
        }
        Explained::Bind { address } => Ok(vec![explain::listening(*address)]),
        Explained::Unix { path } => {
            let agent = env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
            let agent = agent.and_then(|agent| fs::canonicalize(agent).ok()).map(RawPath::from);
            let services = Services::new(&here.context.home, here.uid, agent);
            Ok(vec![explain::socket(&services, &canonical(here, path)?)])
        }
    }
}

fn file(here: &Here, access: Access, path: &Path) -> Result<Question, Failure> {
    let path = canonical(here, path)?;
    let is_directory = fs::metadata(path.as_path()).is_ok_and(|found| found.is_dir());
    Ok(Question::of(Asked::Path { access, path, is_directory }))
}

fn execution(here: &Here, exec: &Exec) -> Result<Question, Failure> {
    Ok(Question::of(Asked::Exec(Box::new(command_of(here, exec)?))))
}

fn command_of(here: &Here, exec: &Exec) -> Result<Command, Failure> {
    let mut argv: Vec<Vec<u8>> = exec.argv.iter().map(|word| word.clone().into_bytes()).collect();
    if argv.is_empty() && !exec.words.is_empty() {
        argv.push(exec.program.as_os_str().as_encoded_bytes().to_vec());
        argv.extend(exec.words.iter().map(|word| word.clone().into_bytes()));
    }
    let variables = exec.env.iter().map(|variable| variable.clone().into_bytes()).collect();
    command::command(&exec.program, argv, variables, &here.context.cwd)
}

/// The path that a system call would lead to: of what is not there yet, where it would be made.
fn canonical(here: &Here, path: &Path) -> Result<RawPath, Failure> {
    let path = here.context.cwd.as_path().join(path);
    let failed =
        |error: io::Error| Failure::Usage(format!("{}: {error}", text::escaped(path.as_os_str().as_encoded_bytes())));
    let mut missing = Vec::new();
    let mut there = path.as_path();
    loop {
        match fs::canonicalize(there) {
            Ok(canonical) => {
                let canonical = missing.iter().rev().fold(canonical, |path, name| path.join(name));
                return Ok(RawPath::from(canonical));
            }
            Err(error) if is_missing(&error) => match (there.parent(), there.file_name()) {
                (Some(parent), Some(name)) => {
                    missing.push(name.to_owned());
                    there = parent;
                }
                _ => return Err(failed(error)),
            },
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Whether a path ends at something that is not there, or is no directory yet.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
