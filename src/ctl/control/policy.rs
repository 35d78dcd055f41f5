//! `policy explain`: what a profile says of a connection, a listening socket or a unix socket, and which line of which file
//! says so. Runs as the caller, for the caller; asks nobody and resolves nothing.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::arguments::{Explain, Explained};
use super::failure::Failure;
use super::output::Output;
use crate::common::net::{HostTerm, Knowledge, Transport};
use crate::common::path::RawPath;
use crate::common::text;
use crate::policy::explain::{self, Assumed, Said};
use crate::policy::sockets::Services;
use crate::policy::{self, Context, Policy};

/// A verdict in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    access: &'a str,
    object: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed: Option<&'a str>,
    level: &'a str,
    rule: &'a str,
    file: String,
    line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

pub fn explain(output: &Output, arguments: &Explain) -> Result<(), Failure> {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    let me = me.ok_or_else(|| Failure::Nonsense("this user is in no database".to_owned()))?;
    let cwd = env::current_dir().map_err(|source| Failure::File { what: "find", path: PathBuf::from("."), source })?;
    let home = RawPath::from(fs::canonicalize(&me.dir).unwrap_or(me.dir));
    let context = Context { home: home.clone(), user: me.name, cwd: RawPath::from(cwd) };
    let profile = policy::load(arguments.profile.clone(), &context, &|path| fs::read_to_string(path))?;
    let policy = Policy::new(&profile);
    let said = match &arguments.what {
        Explained::Connect { host, at, hosts_file, udp } => {
            let by = if *hosts_file { Knowledge::HostsFile } else { Knowledge::Resolved };
            let transport = if *udp { Transport::Udp } else { Transport::Tcp };
            match host.parse::<HostTerm>() {
                Ok(term) => explain::connection(&policy, &term, &Assumed { at: *at, by }, transport),
                Err(error) => match host.parse() {
                    Ok(name) => Some(vec![explain::look_up(&policy, name)]),
                    Err(_) => return Err(Failure::Usage(format!("{}: {error}", text::escaped(host.as_bytes())))),
                },
            }
            .ok_or_else(|| Failure::Usage("one host and one port were expected, without `*` and ranges".to_owned()))?
        }
        Explained::Bind { address } => vec![explain::listening(&policy, *address)],
        Explained::Unix { path } => {
            let shown = || text::escaped(path.as_os_str().as_encoded_bytes());
            let canonical = match fs::canonicalize(path) {
                Ok(canonical) => canonical,
                // What is not there yet is judged by its path, too.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_absolute() => path.clone(),
                Err(error) => return Err(Failure::Usage(format!("{}: {error}", shown()))),
            };
            let agent = env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
            let agent = agent.and_then(|agent| fs::canonicalize(agent).ok()).map(RawPath::from);
            let services = Services::new(&home, me.uid.as_raw(), agent);
            vec![explain::socket(&policy, &services, &RawPath::from(canonical))]
        }
    };
    if output.json {
        return output.json(&said.iter().map(shown).collect::<Vec<_>>());
    }
    said.iter().try_for_each(|said| output.line(&line(said)))
}

fn line(said: &Said) -> String {
    let object = text::escaped(said.object.as_bytes());
    let assumed = said.assumed.as_ref().map_or_else(String::new, |assumed| format!(" ({assumed})"));
    format!("{} {object}{assumed}\n    {}: {}", said.access, said.level, explain::rule(&said.rule))
}

fn shown(said: &Said) -> Shown<'_> {
    Shown {
        access: said.access.as_str(),
        object: text::escaped(said.object.as_bytes()),
        assumed: said.assumed.as_deref(),
        level: said.level.as_str(),
        rule: &said.rule.id,
        file: text::escaped(said.rule.file.as_bytes()),
        line: said.rule.line,
        reason: said.rule.reason.as_deref(),
    }
}
