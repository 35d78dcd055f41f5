//! The drop-in that has a unit's command run under gated, and the units for which there can be none. Pure.

use super::settings::{Command, Settings, commands};
use crate::policy::ProfileSelector;
use crate::policy::load::is_profile_name;

/// The first words of a file that is ours to replace and to remove.
pub const MARK: &str = "# Written by `gatedctl unit harden`";

/// Why a unit cannot run under gated. One line, for the person who wanted it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it has no ExecStart=")]
    NoCommand,
    #[error(
        "Type={0}: systemd would wait for the command itself to say that it is up, and what it says does not come out of a \
         session; Type=simple, exec, idle and oneshot will do"
    )]
    Type(String),
    #[error(
        "PIDFile={0}: the main process is gated-run, and the command's own number means nothing outside of its session"
    )]
    PidFile(String),
    #[error("DynamicUser=yes: a session needs a user who is there before and after it; set User= instead")]
    DynamicUser,
    #[error(
        "{0} hands it sockets, which carry the number of the process that they are for; a session's processes have others"
    )]
    Sockets(String),
    #[error("{0}: the command would not run below that root, but in a session of the system's own tree")]
    Root(String),
    #[error("StandardInput={0}: a service under gated has no terminal and no socket for its input")]
    Input(String),
    #[error("`{0}` in front of {1}: {2}")]
    Prefix(char, String, &'static str),
    #[error("{0} is neither the name of a profile nor a plain absolute path")]
    Profile(String),
    #[error("the unit's commands run under gated already, by {0}")]
    Already(String),
}

/// A drop-in, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIn {
    pub text: String,
    /// One line each.
    pub notes: Vec<String>,
}

/// Settings that hold for the process that systemd starts, and so for gated-run: the command is a child of a session's.
const NOT_THE_COMMANDS: [&str; 25] = [
    "AmbientCapabilities",
    "AppArmorProfile",
    "CPUQuota",
    "CPUSchedulingPolicy",
    "CapabilityBoundingSet",
    "IOWeight",
    "IPAddressDeny",
    "LimitNOFILE",
    "LimitNPROC",
    "MemoryHigh",
    "MemoryMax",
    "NetworkNamespacePath",
    "Nice",
    "OOMScoreAdjust",
    "PrivateDevices",
    "PrivateNetwork",
    "PrivateTmp",
    "ProtectHome",
    "ProtectSystem",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "RestrictAddressFamilies",
    "SELinuxContext",
    "SystemCallFilter",
    "TasksMax",
];

/// Other commands of a unit, which stay as they are.
const OTHER_COMMANDS: [&str; 6] =
    ["ExecCondition", "ExecStartPre", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost"];

/// The drop-in for a unit. `triggers` are the units that start it; `program` is gated-run.
pub fn drop_in(settings: &Settings, triggers: &[&str], profile: &str, program: &str) -> Result<DropIn, Unfit> {
    check(settings, triggers)?;
    let profile = argument(profile).ok_or_else(|| Unfit::Profile(profile.escape_default().to_string()))?;
    let all: Vec<Command> = settings.exec_start.iter().flat_map(|value| commands(value)).collect();
    if all.is_empty() {
        return Err(Unfit::NoCommand);
    }
    let mut lines = Vec::new();
    for command in &all {
        if command.line.split_whitespace().next().is_some_and(|first| first.trim_matches('"').ends_with("/gated-run")) {
            return Err(Unfit::Already(settings.set_by.join(", ")));
        }
        for prefix in command.prefixes.chars() {
            let why = match prefix {
                '-' | ':' => continue,
                '@' => "the command would be called by another name than its own, which gated-run cannot do",
                '|' => "a shell would read the line; name the shell in it instead",
                _ => "the command would have more rights than the unit's user, and in a session it has no more",
            };
            return Err(Unfit::Prefix(prefix, command.line.clone(), why));
        }
        lines
            .push(format!("ExecStart={}{program} --service --profile {profile} -- {}", command.prefixes, command.line));
    }
    let text = format!(
        "{MARK}; `gatedctl unit unharden` removes it.\n\n[Unit]\nRequires=dbus.socket\nWants=gatedd.service\n\
         After=dbus.socket gatedd.service\n\n[Service]\nExecStart=\n{}\n\
         # Its policy, not a passing fault: trying again is of no use.\nRestartPreventExitStatus=78\n",
        lines.join("\n")
    );
    Ok(DropIn { text, notes: notes(settings) })
}

fn check(settings: &Settings, triggers: &[&str]) -> Result<(), Unfit> {
    let by_default = if settings.get("BusName").is_some() { "dbus" } else { "simple" };
    let kind = settings.get("Type").unwrap_or(by_default);
    if !["simple", "exec", "idle", "oneshot"].contains(&kind) {
        return Err(Unfit::Type(kind.to_owned()));
    }
    if settings.is_on("DynamicUser") {
        return Err(Unfit::DynamicUser);
    }
    if let Some(file) = settings.get("PIDFile") {
        return Err(Unfit::PidFile(file.to_owned()));
    }
    if let Some(socket) = triggers.iter().copied().find(|unit| unit.ends_with(".socket")).or(settings.get("Sockets")) {
        return Err(Unfit::Sockets(socket.to_owned()));
    }
    for name in ["RootDirectory", "RootImage"] {
        if let Some(value) = settings.get(name) {
            return Err(Unfit::Root(format!("{name}={value}")));
        }
    }
    match settings.get("StandardInput") {
        Some(input) if input.starts_with("tty") || input == "socket" => Err(Unfit::Input(input.to_owned())),
        _ => Ok(()),
    }
}

/// The profile as a word of a unit: no character in it means anything to systemd.
fn argument(profile: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./+".contains(&byte);
    match crate::ctl::arguments::profile(profile).ok()? {
        ProfileSelector::Name(name) => is_profile_name(&name).then_some(name),
        ProfileSelector::File(_) => {
            (profile.starts_with('/') && profile.bytes().all(plain)).then(|| profile.to_owned())
        }
    }
}

fn notes(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    let others: Vec<&str> = OTHER_COMMANDS.into_iter().filter(|name| settings.get(name).is_some()).collect();
    if !others.is_empty() {
        notes.push(format!("{} stay as they are, outside of gated", others.join(", ")));
    }
    let not_its: Vec<&str> = settings.names().filter(|name| NOT_THE_COMMANDS.contains(name)).collect();
    if !not_its.is_empty() {
        notes.push(format!(
            "{} hold for gated-run and not for the command, which runs in a gated-session@.service; limit that by a drop-in \
             of its own",
            not_its.join(", ")
        ));
    }
    if settings.get("User").is_none_or(|user| user == "root") {
        notes.push(
            "it runs as root: files are root's inside a session, too, and a User= would hold it better".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(service: &str) -> Settings {
        Settings::parse(&format!("# /etc/systemd/system/x.service\n[Service]\n{service}"), "")
    }

    fn dropped(service: &str) -> Result<DropIn, Unfit> {
        drop_in(&of(service), &[], "worker", "/usr/bin/gated-run")
    }

    #[test]
    fn commands_are_wrapped_as_they_are_written() {
        let it = dropped(
            "User=me\nExecStartPre=/bin/pre\nMemoryMax=1G\nType=oneshot\nExecStart=-/bin/a \"$X y\" %i\nExecStart=:/bin/b ; /bin/c",
        )
        .unwrap();
        let starts: Vec<&str> = it.text.lines().filter(|line| line.starts_with("ExecStart=")).collect();
        assert_eq!(
            starts,
            [
                "ExecStart=",
                "ExecStart=-/usr/bin/gated-run --service --profile worker -- /bin/a \"$X y\" %i",
                "ExecStart=:/usr/bin/gated-run --service --profile worker -- /bin/b",
                "ExecStart=/usr/bin/gated-run --service --profile worker -- /bin/c",
            ]
        );
        assert!(it.text.starts_with(MARK));
        assert_eq!(it.notes.len(), 2, "{:?}", it.notes);
        assert!(
            it.notes[0].starts_with("ExecStartPre stay") && it.notes[1].starts_with("MemoryMax hold"),
            "{:?}",
            it.notes
        );
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        for (service, expected) in [
            ("", "it has no ExecStart="),
            ("Type=notify\nExecStart=/a", "Type=notify:"),
            ("BusName=org.x\nExecStart=/a", "Type=dbus:"),
            ("Type=forking\nExecStart=/a", "Type=forking:"),
            ("PIDFile=/run/a.pid\nExecStart=/a", "PIDFile=/run/a.pid:"),
            ("DynamicUser=true\nExecStart=/a", "DynamicUser=yes:"),
            ("Sockets=a.socket\nExecStart=/a", "a.socket hands it sockets"),
            ("RootDirectory=/srv\nExecStart=/a", "RootDirectory=/srv:"),
            ("StandardInput=tty-force\nExecStart=/a", "StandardInput=tty-force:"),
            ("ExecStart=@/a b", "`@` in front of /a b"),
            ("ExecStart=!!/a", "`!` in front of /a"),
            ("ExecStart=/usr/bin/gated-run -- /a", "the unit's commands run under gated already"),
        ] {
            let error = dropped(service).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{service}: {error}");
        }
        let by_socket = drop_in(&of("ExecStart=/a"), &["a.socket", "b.timer"], "worker", "/usr/bin/gated-run");
        assert_eq!(by_socket, Err(Unfit::Sockets("a.socket".to_owned())));
        assert!(drop_in(&of("ExecStart=/a"), &["b.timer"], "worker", "/usr/bin/gated-run").is_ok());
        for profile in ["", "a b", "$x", "../x.toml", "/etc/%i.toml", "/a b.toml", "--x"] {
            assert!(drop_in(&of("ExecStart=/a"), &[], profile, "/usr/bin/gated-run").is_err(), "{profile}");
        }
    }
}
