//! `policy learn`: a profile that is proposed for what a session did, from the audit log. Runs with the caller's rights, and
//! asks no daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::auditlog::AuditReader;
use super::failure::Failure;
use super::ids::{Kind, Prefix};
use super::output::Output;
use crate::common::path::RawPath;
use crate::common::text;
use crate::ctl::learning::{self, Draft, Learner, Source};
use crate::daemon::audit::DEFAULT_PATH;
use crate::policy::{Context, ProfileSelector};

#[derive(Debug, Args)]
pub struct LearnArguments {
    /// The session; it need not run any more
    #[arg(long, value_name = "SESSION")]
    pub session: Prefix,

    /// The profile to propose additions to, by default the one that the session had
    #[arg(long, value_name = "NAME|FILE", value_parser = crate::ctl::arguments::profile)]
    pub profile: Option<ProfileSelector>,

    /// The directory that the session was opened in, by default the one in which most was done
    #[arg(long, value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,

    /// What the proposed profile is called
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Write it to this file, which must not be there yet, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,

    /// Another log than the system's
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub file: PathBuf,
}

/// Whose record it is, and where the tool stood.
#[derive(Deserialize)]
struct Record {
    session: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    tool: Tool,
}

#[derive(Default, Deserialize)]
struct Tool {
    #[serde(default)]
    cwd: String,
}

pub fn learn(output: &Output, arguments: &LearnArguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let cannot = |error| super::audit::cannot_read(path, error);
    let mut found = BTreeSet::new();
    AuditReader::open(path)
        .and_then(|mut reader| {
            reader.read(&mut |line| {
                if let Ok(record) = serde_json::from_slice::<Record>(line)
                    && arguments.session.begins(&record.session)
                {
                    found.insert(record.session);
                }
            })
        })
        .map_err(cannot)?;
    let session = arguments.session.pick(Kind::Session, found, Clone::clone)?;
    let mut learner = Learner::default();
    let mut user = String::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    AuditReader::open(path)
        .and_then(|mut reader| {
            reader.read(&mut |line| {
                let Ok(record) = serde_json::from_slice::<Record>(line) else { return };
                if record.session == session {
                    learner.take(line, Source::AuditLog);
                    user = record.user;
                    let times = places.entry(record.tool.cwd).or_default();
                    *times = times.saturating_add(1);
                }
            })
        })
        .map_err(cannot)?;
    let context = context(&user, &places, arguments.directory.as_deref())?;
    let base = arguments.profile.clone().or_else(|| learner.profile.clone().map(ProfileSelector::Name));
    let base = base.unwrap_or_else(|| ProfileSelector::Name("coder".to_owned()));
    let name = arguments.name.clone().unwrap_or_else(|| learning::name_for(&context));
    if !crate::policy::load::is_profile_name(&name) {
        return Err(Failure::Usage(format!("{} is no profile name", text::escaped(name.as_bytes()))));
    }
    let failed = |error: learning::LearnError| Failure::Usage(error.to_string());
    let draft = Draft::new(&learner, &base, &name, context).map_err(failed)?;
    let proposal = draft.text();
    let summary = draft.check(&proposal, &learner).map_err(failed)?;
    match &arguments.to {
        Some(to) => learning::put_new(to, &proposal).map_err(|error| Failure::Usage(error.to_string()))?,
        None => output.line(proposal.trim_end())?,
    }
    eprintln!("gatedctl: {} rules are proposed: {summary}", draft.proposal.rules.len());
    Ok(())
}

/// For whom, and where: as the records have it.
fn context(user: &str, places: &BTreeMap<String, usize>, chosen: Option<&Path>) -> Result<Context, Failure> {
    let home = match nix::unistd::User::from_name(user).ok().flatten() {
        Some(user) => user.dir,
        None => env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from),
    };
    let home = RawPath::from(fs::canonicalize(&home).unwrap_or(home));
    // A home, or what holds one, is nobody's workspace; a tool may have stood there all the same.
    let may_be = |path: &RawPath| path.as_bytes().starts_with(b"/") && !home.is_within(path);
    let most = places
        .iter()
        .filter_map(|(place, times)| Some((RawPath::new(text::unescaped(place)?), times)))
        .filter(|(place, _)| may_be(place))
        .max_by_key(|(_, times)| **times);
    let cwd = match (chosen, most) {
        (Some(chosen), _) => RawPath::from(fs::canonicalize(chosen).map_err(|source| Failure::File {
            what: "find",
            path: chosen.to_owned(),
            source,
        })?),
        (None, Some((place, _))) => place,
        (None, None) => RawPath::from(env::current_dir().map_err(Failure::Output)?),
    };
    Ok(Context { home, user: user.to_owned(), cwd })
}
