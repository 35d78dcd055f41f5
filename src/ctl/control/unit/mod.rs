//! `unit`: a service of systemd's put under gated by a drop-in, and taken out of it again. Runs as root for root; what is
//! written is shown before. systemctl(1) says what the unit is.

mod dropin;
mod settings;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::failure::Failure;
use super::output::Output;
use crate::common::path::RawPath;
use crate::common::text;
use crate::ctl::learning::put_over;
use crate::policy::{self, Context};
use dropin::MARK;
use settings::Settings;

const UNITS: &str = "/etc/systemd/system";
const FILE: &str = "50-gated.conf";

#[derive(Debug, Subcommand)]
pub enum UnitVerb {
    /// Have a service's command run under a profile, by a drop-in that is shown before it is installed
    Harden(Harden),

    /// Say whether and how a service runs under gated
    Show {
        /// The service; templates are `NAME@.service`
        #[arg(value_name = "UNIT")]
        unit: String,
    },

    /// Remove the drop-in again
    Unharden {
        /// The service
        #[arg(value_name = "UNIT")]
        unit: String,
    },
}

#[derive(Debug, Args)]
pub struct Harden {
    /// The service; templates are `NAME@.service`
    #[arg(value_name = "UNIT")]
    pub unit: String,

    /// The name of the profile, or its absolute path
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: String,

    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

pub fn unit(output: &Output, verb: &UnitVerb) -> Result<(), Failure> {
    match verb {
        UnitVerb::Harden(arguments) => harden(output, arguments),
        UnitVerb::Show { unit } => show(output, &Unit::named(unit)?),
        UnitVerb::Unharden { unit } => unharden(output, &Unit::named(unit)?),
    }
}

/// A service by its full name.
struct Unit {
    name: String,
}

impl Unit {
    fn named(name: &str) -> Result<Unit, Failure> {
        let name = if name.ends_with(".service") { name.to_owned() } else { format!("{name}.service") };
        // systemd.unit(5)
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
        let is_name = name.len() <= 255 && !name.starts_with(['.', '-', '@']) && name.bytes().all(plain);
        match is_name {
            true => Ok(Unit { name }),
            false => Err(Failure::Usage(format!("{} is no name of a service", text::escaped(name.as_bytes())))),
        }
    }

    fn drop_in(&self) -> PathBuf {
        Path::new(UNITS).join(format!("{}.d", self.name)).join(FILE)
    }

    /// The text of our drop-in; `None` if there is none.
    fn ours(&self) -> Result<Option<String>, Failure> {
        let path = self.drop_in();
        match fs::read_to_string(&path) {
            Ok(text) if text.starts_with(MARK) => Ok(Some(text)),
            Ok(_) => Err(Failure::Usage(format!("{} is not gatedctl's, and stays as it is", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Failure::File { what: "read", path, source }),
        }
    }

    fn is_template(&self) -> bool {
        self.name.ends_with("@.service")
    }
}

fn systemctl(arguments: &[&str]) -> Result<String, Failure> {
    let failed = |source| Failure::File { what: "run", path: PathBuf::from("systemctl"), source };
    let output = Command::new("systemctl").args(arguments).env("SYSTEMD_COLORS", "0").env("SYSTEMD_PAGER", "").output();
    let output = output.map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(Failure::Refused(format!("systemctl {}: {}", arguments.join(" "), text::shown_within(&said, 300))))
}

/// gated-run, beside this program.
fn gated_run() -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(Failure::Output)?;
    let beside = own.with_file_name("gated-run");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./+".contains(&byte);
    match beside.to_str() {
        Some(path) if beside.is_file() && path.bytes().all(plain) => Ok(path.to_owned()),
        _ => Err(Failure::Usage(format!("{} is not there", beside.display()))),
    }
}

fn harden(output: &Output, arguments: &Harden) -> Result<(), Failure> {
    let unit = Unit::named(&arguments.unit)?;
    unit.ours()?;
    let path = unit.drop_in();
    let cat = systemctl(&["cat", &unit.name])?;
    let settings = Settings::parse(&cat, &path.to_string_lossy());
    // A template has no state of its own, and each of its instances may be started by a socket.
    let socket = unit.name.replace(".service", ".socket");
    let triggers = match unit.is_template() {
        true => systemctl(&["cat", &socket]).map_or_else(|_| String::new(), |_| socket),
        false => systemctl(&["show", "--property=TriggeredBy", "--value", &unit.name])?,
    };
    let triggers: Vec<&str> = triggers.split_whitespace().collect();
    let made = dropin::drop_in(&settings, &triggers, &arguments.profile, &gated_run()?)
        .map_err(|error| Failure::Usage(format!("{} cannot run under gated: {error}", unit.name)))?;
    check_profile(&settings, &arguments.profile)?;
    if let Some(later) =
        settings.set_by.iter().find(|file| Path::new(file).file_name() > path.file_name() && file.contains(".d/"))
    {
        return Err(Failure::Usage(format!("{later} sets ExecStart= after {FILE} would, and so would undo it")));
    }
    let mut shown = io::stdout().lock();
    writeln!(shown, "{}:\n", path.display())?;
    for line in made.text.lines() {
        writeln!(shown, "    {}", text::shown_within(line, 4096))?;
    }
    writeln!(shown)?;
    for note in &made.notes {
        writeln!(shown, "note: {note}")?;
    }
    shown.flush()?;
    if !arguments.yes && !is_wanted()? {
        return Err(Failure::TooLate("nothing is installed".to_owned()));
    }
    put_over(&path, &made.text).map_err(|error| Failure::Refused(error.to_string()))?;
    readable(&path)?;
    systemctl(&["daemon-reload"])?;
    if !unit.is_template() {
        let start = systemctl(&["show", "--property=ExecStart", "--value", &unit.name])?;
        if !start.contains("/gated-run") {
            return Err(Failure::Refused(format!(
                "{} is installed, and something else decides on ExecStart=",
                path.display()
            )));
        }
    }
    output.line(&format!("installed; it holds from the next start on: systemctl restart {}", unit.name))
}

/// systemd reads it as root, and everybody may see what a unit is; the folder was made for its owner alone.
fn readable(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    let Some(folder) = path.parent() else { return Ok(()) };
    let failed = |source| Failure::File { what: "open to readers", path: folder.to_path_buf(), source };
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(failed)
}

/// Whether the profile loads for the unit's user, in its directory: better now than at the next boot.
fn check_profile(settings: &Settings, profile: &str) -> Result<(), Failure> {
    let selector = crate::ctl::arguments::profile(profile).map_err(Failure::Usage)?;
    let plain = |value: &&str| !value.contains('%');
    let user = settings.get("User").filter(plain).unwrap_or("root");
    let found = nix::unistd::User::from_name(user).ok().flatten();
    let home = found.map_or_else(|| PathBuf::from("/root"), |user| user.dir);
    let cwd =
        settings.get("WorkingDirectory").map(|cwd| cwd.trim_start_matches('-')).filter(|cwd| cwd.starts_with('/'));
    let home = RawPath::from(fs::canonicalize(&home).unwrap_or(home));
    let context = Context { home, user: user.to_owned(), cwd: cwd.map_or_else(|| RawPath::from("/"), RawPath::from) };
    policy::load(selector, &context, &|path| fs::read_to_string(path)).map(drop).map_err(Failure::from)
}

fn is_wanted() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage("there is no terminal to ask at; --yes installs it without".to_owned()));
    }
    print!("Install it? [y]es, [n]o: ");
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "yes"))
}

#[derive(Serialize)]
struct Shown<'a> {
    unit: &'a str,
    hardened: bool,
    file: String,
    commands: Vec<&'a str>,
}

fn show(output: &Output, unit: &Unit) -> Result<(), Failure> {
    let ours = unit.ours()?;
    let commands = ours.as_deref().unwrap_or_default().lines();
    let commands: Vec<&str> =
        commands.filter_map(|line| line.strip_prefix("ExecStart=")).filter(|line| !line.is_empty()).collect();
    let file = unit.drop_in().display().to_string();
    if output.json {
        return output.json(&Shown { unit: &unit.name, hardened: ours.is_some(), file, commands });
    }
    if ours.is_none() {
        return output.line(&format!("{} does not run under gated by a drop-in of gatedctl's", unit.name));
    }
    output.line(&format!("{} runs under gated, by {file}:", unit.name))?;
    commands.iter().try_for_each(|command| output.line(&format!("    {}", text::shown_within(command, 4096))))
}

fn unharden(output: &Output, unit: &Unit) -> Result<(), Failure> {
    let path = unit.drop_in();
    if unit.ours()?.is_none() {
        return Err(Failure::Usage(format!("there is no {}", path.display())));
    }
    fs::remove_file(&path).map_err(|source| Failure::File { what: "remove", path: path.clone(), source })?;
    if let Some(folder) = path.parent() {
        // Others may have drop-ins there.
        let _not_empty = fs::remove_dir(folder);
    }
    systemctl(&["daemon-reload"])?;
    output.line(&format!("removed; it holds from the next start on: systemctl restart {}", unit.name))
}
