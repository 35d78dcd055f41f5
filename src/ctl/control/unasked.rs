//! `trust`, `block`: answers before anything asked. Runs as the caller, who says which of their files and programs is meant;
//! what is granted and refused is the daemon's to say.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use zbus::Variant;

use super::daemon::{Daemon, Grant, Reader};
use super::failure::Failure;
use super::ids::Prefix;
use super::output::{Output, user_name};
use super::polkit::TextAgent;
use crate::common::access::Access;
use crate::common::path::RawPath;
use crate::common::scope::Pattern;
use crate::common::text;
use crate::ctl::arguments::profile;
use crate::ctl::caller::{Caller, Environment};
use crate::ctl::ownprofiles::{named_profile, own_profiles};
use crate::ctl::proxies::{GrantsProxy, Options};
use crate::policy::ProfileSelector;

/// Programs that a script's `#!` lines may lead through (BINPRM limit of execve(2)).
const MOST_INTERPRETERS: usize = 4;

#[derive(Debug, Args)]
pub struct Unasked {
    /// read, write, exec, connect, bind or unix
    #[arg(value_name = "ACCESS", value_parser = access)]
    pub access: Access,

    /// For read and write: a path, DIRECTORY/* for what is directly in it, DIRECTORY/** for all below; quote it. For exec: a
    /// program, and the words that its command line begins with (after `--`, if one has a `-`). For connect and bind:
    /// HOST:PORT or *.DOMAIN:PORT. For unix: a path, or @ssh_agent and the like
    #[arg(value_name = "PATTERN", required = true, num_args = 1..)]
    pub pattern: Vec<String>,

    /// For this long: 90s, 30m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "always")]
    pub time: Option<Duration>,

    /// Until it is revoked (this is the default, but with --session)
    #[arg(long)]
    pub always: bool,

    /// In every session under this profile
    #[arg(long, value_name = "NAME|FILE", value_parser = profile)]
    pub profile: Option<ProfileSelector>,

    /// In this session, and under its profile; alone: until the session ends
    #[arg(long, value_name = "SESSION", conflicts_with = "profile")]
    pub session: Option<Prefix>,
}

fn access(text: &str) -> Result<Access, String> {
    let known = Access::ALL.into_iter().find(|access| access.as_str() == text);
    known.ok_or_else(|| format!("one of {} was expected", Access::ALL.map(Access::as_str).join(", ")))
}

fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a number with s, m, h or d was expected, such as 2h".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let factor: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 =
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok()).flatten().ok_or_else(wrong)?;
    let seconds = number.checked_mul(factor).filter(|seconds| *seconds > 0 && *seconds <= 3660 * 24 * 3600);
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// One pattern, in the words of the bus.
fn pattern(arguments: &Unasked, home: &RawPath) -> Result<Options<'static>, Failure> {
    let usage = |text: &str| Failure::Usage(text.to_owned());
    let Some((first, rest)) = arguments.pattern.split_first() else { return Err(usage("a pattern was expected")) };
    if arguments.access != Access::Exec && !rest.is_empty() {
        return Err(usage("one pattern was expected; quote it, so that the shell leaves it alone"));
    }
    Ok(match arguments.access {
        Access::Read | Access::Write => HashMap::from([("paths", paths(first, home)?.into())]),
        Access::Unix if first.starts_with('@') => HashMap::from([("socket", first.clone().into())]),
        Access::Unix => HashMap::from([("socket", paths(first, home)?.into())]),
        Access::Connect | Access::Bind => HashMap::from([("host", first.clone().into())]),
        Access::Exec => {
            let program = program(first)?;
            let words: Vec<Vec<u8>> = rest.iter().map(|word| word.as_bytes().to_vec()).collect();
            let interpreters: Vec<Vec<u8>> =
                interpreters(&program).into_iter().map(|path| path.into_os_string().into_vec()).collect();
            HashMap::from([
                ("program", program.into_os_string().into_vec().into()),
                ("words", words.into()),
                ("interpreters", interpreters.into()),
            ])
        }
    })
}

/// An absolute pattern, with links followed as far as it is without stars: grants are on what paths lead to.
fn paths(text: &str, home: &RawPath) -> Result<String, Failure> {
    let own = |path: &RawPath| Pattern::literal(path).to_string();
    let below = |place: String, rest: &str| format!("{}/{rest}", place.trim_end_matches('/'));
    let text = text.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(text);
    let full = match text {
        "~" => own(home),
        _ if text.starts_with('/') || text.starts_with("**/") => text.to_owned(),
        _ => match text.strip_prefix("~/") {
            Some(rest) => below(own(home), rest),
            None => {
                let here = own(&RawPath::from(std::env::current_dir()?));
                let rest = text.strip_prefix("./").unwrap_or(text);
                if rest == "." { here } else { below(here, rest) }
            }
        },
    };
    let pattern = Pattern::parse(&full).map_err(|error| Failure::Usage(error.to_string()))?;
    let start = pattern.literal_prefix();
    Ok(pattern.moved_to(&canonical(&start)).to_string())
}

/// What a path leads to; what of it does not exist stays.
fn canonical(path: &RawPath) -> RawPath {
    match (fs::canonicalize(path.as_path()), path.parent()) {
        (Ok(found), _) => RawPath::from(found),
        (Err(_), Some(parent)) => canonical(&parent).join(path.file_name()),
        (Err(_), None) => path.clone(),
    }
}

/// A program as a shell finds it, with links followed.
fn program(name: &str) -> Result<PathBuf, Failure> {
    let is_program =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    let found = match name.contains('/') {
        true => Some(PathBuf::from(name)),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
        }
    };
    let found = found.filter(|path| is_program(path)).and_then(|path| fs::canonicalize(path).ok());
    found.ok_or_else(|| Failure::Usage(format!("there is no program {}", text::escaped(name.as_bytes()))))
}

/// The programs that the kernel runs for a script, execve(2).
fn interpreters(program: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut current = program.to_owned();
    while found.len() < MOST_INTERPRETERS {
        let mut head = [0; 256];
        let read = fs::File::open(&current).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
        let line = head.get(..read).unwrap_or_default().strip_prefix(b"#!");
        let Some(line) = line.and_then(|rest| rest.split(|&byte| byte == b'\n').next()) else { break };
        let words = line.split(|byte| matches!(byte, b' ' | b'\t'));
        let Some(name) = words.into_iter().find(|word| !word.is_empty()) else { break };
        let Ok(next) = fs::canonicalize(std::ffi::OsStr::from_bytes(name)) else { break };
        found.push(next.clone());
        current = next;
    }
    found
}

/// `allow` or `deny`.
pub async fn add(output: &Output, effect: &'static str, arguments: &Unasked) -> Result<(), Failure> {
    let usage = |error: String| Failure::Usage(error);
    let caller = Caller::find(&Environment::own(), None).map_err(|error| usage(error.to_string()))?;
    let home = caller.home();
    let pattern = pattern(arguments, &home)?;
    let daemon = Daemon::connect().await?;
    let mut options: Options<'_> = HashMap::new();
    match (&arguments.session, arguments.time, arguments.always) {
        (_, Some(time), _) => {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            options.extend([("term", "for".into()), ("time", micros.into())]);
        }
        (Some(_), None, false) => drop(options.insert("term", "session".into())),
        _ => drop(options.insert("term", "always".into())),
    }
    match (&arguments.session, &arguments.profile) {
        (Some(prefix), _) => drop(options.insert("session", daemon.session(prefix).await?.id.into())),
        (None, selector) => {
            let failed = |error: crate::ctl::ownprofiles::OwnProfileError| usage(error.to_string());
            let mut profiles = own_profiles(&home, caller.tool.uid).map_err(failed)?;
            match selector {
                None => {}
                Some(ProfileSelector::Name(name)) => drop(options.insert("profile", name.clone().into())),
                Some(ProfileSelector::File(path)) => {
                    let (path, text) = named_profile(path).map_err(failed)?;
                    profiles.insert(path.clone(), text);
                    options.insert("profile", path.into());
                }
            }
            let profiles: HashMap<String, Vec<u8>> =
                profiles.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
            // Where nobody can work, such as home itself, the profile is asked as in a project of its own.
            let here = RawPath::from(std::env::current_dir()?);
            let directory = if home.is_within(&here) { home.join(b"project") } else { here };
            options.insert("profiles", Variant::from(profiles));
            options.insert("directory", directory.as_bytes().to_vec().into());
            options.insert("home", home.as_bytes().to_vec().into());
        }
    }
    let grants = GrantsProxy::builder(&daemon.connection).cache_properties(zbus::proxy::CacheProperties::No);
    let grants = grants.build().await?;
    // What asks for a proof of who allows it.
    let _agent = TextAgent::start_if(effect == "allow");
    let fields = grants.add_grant(effect, arguments.access.as_str(), pattern, options).await?;
    let mut fields = Reader { what: "a grant", fields };
    let not_in: u32 = fields.may("not-in-sessions")?.unwrap_or_default();
    let grant = fields.grant()?;
    if output.json {
        return output.json(&grant.shown());
    }
    output.line(&said(&grant))?;
    if effect == "deny" && names_anywhere(arguments) {
        output.line(
            "Names at any depth are looked for in the home and the workspace; elsewhere, name a directory: /srv/**/NAME.",
        )?;
    }
    if not_in > 0 {
        let sessions =
            if not_in == 1 { "A session that runs lets".into() } else { format!("{not_in} sessions that run let") };
        output.line(&format!("{sessions} this happen without a question until it is started anew."))?;
    }
    Ok(())
}

/// Whether it is about reads of a name that may be in any directory of the machine.
fn names_anywhere(arguments: &Unasked) -> bool {
    let given = arguments.pattern.first().and_then(|text| Pattern::parse(text).ok());
    arguments.access == Access::Read
        && given.is_some_and(|pattern| pattern.is_floating() && pattern.literal_prefix().parent().is_none())
}

fn said(grant: &Grant) -> String {
    let done = if grant.effect == "deny" { "Denied" } else { "Allowed" };
    let (user, profile) = (user_name(grant.user), grant.profile.clone());
    let place = match grant.session.as_str() {
        "" => format!("in every session of {user} under profile {profile}"),
        session => format!("in session {session}"),
    };
    let term = match grant.until {
        Some(_) => grant.holds(),
        None if grant.session.is_empty() => "until it is revoked".to_owned(),
        None => "until it ends".to_owned(),
    };
    let covers = grant.covers().shown(None);
    format!("{done} {place}, {term}: {} {covers}\nTo take it back: gatedctl revoke {}", grant.access, grant.id)
}
