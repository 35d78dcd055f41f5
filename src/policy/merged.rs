//! A profile with everything merged in, as the policy language writes it: names, `~` and variables substituted, each rule with
//! the place that it comes from. Pure; for people, and to load again.

use std::fmt::Write;

use crate::common::access::Access;
use crate::common::argv::{ArgvPattern, Place, WordGlob};
use crate::common::decision::{Lifetime, Width, Widths};
use crate::common::net::Transport;
use crate::common::scope::Pattern;
use crate::common::wire::Network;

use super::model::{ExecTerms, NetworkTerms, Profile, ProgramPattern, Rule};
use super::question::notation;

/// Columns of a list on one line.
const LINE: usize = 110;

/// The profile's text.
pub fn written(profile: &Profile) -> String {
    let mut text = format!("# {} and what it extends, as it is in force\nschema = 1\n\n[profile]\n", profile.file);
    line(&mut text, "name", &quoted(&profile.name));
    if !profile.description.is_empty() {
        line(&mut text, "description", &quoted(&profile.description));
    }
    if profile.network == Network::Host {
        line(&mut text, "network", "\"host\"");
    }
    if profile.debug {
        line(&mut text, "debug", "true");
    }
    matches(&mut text, profile);
    if let Some(workspace) = &profile.workspace {
        text.push_str("\n[vars]\n");
        line(&mut text, "workspace", &quoted(&Pattern::literal(workspace).to_string()));
    }
    text.push_str("\n[defaults]\n");
    for access in Access::ALL {
        line(&mut text, access.as_str(), &quoted(profile.defaults.level(access).as_str()));
    }
    let roots = profile.scratch.iter().map(|root| Pattern::tree_of(root).to_string()).collect();
    table(&mut text, "scratch", &[("path", roots)]);
    table(&mut text, "env", &[("deny", profile.env_deny.iter().map(|glob| String::from(glob.clone())).collect())]);
    let names = &profile.bus_names;
    table(&mut text, "dbus", &[("session", names.session.clone()), ("system", names.system.clone())]);
    text.push_str("\n[prompt]\n");
    line(&mut text, "timeout", &quoted(&notation(profile.prompt.timeout)));
    line(&mut text, "max_per_minute", &profile.prompt.max_per_minute.to_string());
    let nobody = match profile.prompt.no_consent_agent {
        super::model::NoConsentAgent::Deny => "deny",
        super::model::NoConsentAgent::Queue => "queue",
    };
    line(&mut text, "no_consent_agent", &quoted(nobody));
    text.push_str("\n[grants]\n");
    line(&mut text, "persistent", if profile.grants.persistent { "true" } else { "false" });
    if let Some(longest) = profile.grants.max_for {
        line(&mut text, "max_for", &quoted(&notation(longest)));
    }
    if profile.grants.widths != Widths::ALL {
        let widths = Width::ALL.into_iter().filter(|width| profile.grants.widths.has(*width));
        list(&mut text, "widths", widths.map(|width| width.to_string()).collect());
    }
    for rule in &profile.rules {
        let own = self::rule(rule);
        // The ceiling is no part of a profile.
        let line = |line: &str| {
            if line.is_empty() || line.starts_with('#') { format!("{line}\n") } else { format!("# {line}\n") }
        };
        text.push_str(&if rule.is_ceiling { own.lines().map(line).collect() } else { own });
    }
    text
}

/// One rule with the place that it comes from.
fn rule(rule: &Rule) -> String {
    let mut text = format!("\n# {}:{}\n", rule.file, rule.line);
    if rule.is_ceiling {
        text.push_str("# the ceiling's: it makes a verdict stricter, whatever else matches\n");
    }
    text.push_str("[[rule]]\n");
    line(&mut text, "id", &quoted(&rule.id));
    list(&mut text, "access", rule.access.iter().map(|access| access.as_str().to_owned()).collect());
    let paths = rule.path.iter().map(Pattern::to_string);
    let holes = rule.except.iter().map(Pattern::to_string).collect::<Vec<_>>();
    match (&rule.exec, &rule.network) {
        (Some(terms), _) => exec(&mut text, terms),
        (None, Some(terms)) => network(&mut text, terms),
        (None, None) if rule.access.contains(&Access::Unix) => {
            let services = rule.services.iter().map(|service| service.as_str().to_owned());
            let sockets: Vec<String> = services.chain(paths).collect();
            // A rule on abstract sockets alone has nothing left: they are never reached.
            list(&mut text, "socket", if sockets.is_empty() { vec!["@abstract/*".to_owned()] } else { sockets });
            list(&mut text, "except", holes);
        }
        (None, None) => {
            list(&mut text, "path", paths.collect());
            list(&mut text, "except", holes);
        }
    }
    line(&mut text, "level", &quoted(rule.level.as_str()));
    let remember = match (rule.remember, rule.remember_for) {
        (_, Some(time)) => notation(time),
        // Only the daemon's own answers are that long, and no rule says so.
        (Lifetime::Until, None) => Lifetime::Persistent.as_str().to_owned(),
        (lifetime, None) => lifetime.as_str().to_owned(),
    };
    line(&mut text, "remember", &quoted(&remember));
    if let Some(group) = &rule.group {
        line(&mut text, "ask", &format!("{{ group = {} }}", quoted(group)));
    }
    if let Some(reason) = &rule.reason {
        line(&mut text, "reason", &quoted(reason));
    }
    text
}

fn exec(text: &mut String, terms: &ExecTerms) {
    list(text, "program", terms.program.iter().map(program).collect());
    let name = terms.program.first().map_or_else(|| "program".to_owned(), program_name);
    if let Some(own) = &terms.argv {
        line(text, "argv", &argv(&name, own));
    }
    if !terms.except.is_empty() {
        let holes: Vec<String> = terms.except.iter().map(|hole| argv(&name, hole)).collect();
        line(text, "except", &bracketed("except", &holes));
    }
    let variables = terms.env.iter().map(|variable| match &variable.value {
        Some(value) => format!("{}={}", String::from(variable.name.clone()), word(value)),
        None => String::from(variable.name.clone()),
    });
    list(text, "env", variables.collect());
}

/// A pattern on programs as it is written.
pub(super) fn program(pattern: &ProgramPattern) -> String {
    match pattern {
        ProgramPattern::Path(path) => path.to_string(),
        ProgramPattern::System => "@path".to_owned(),
        ProgramPattern::SystemName(name) => format!("@path/{}", String::from(name.clone())),
    }
}

/// What stands for the program in an argv: held against nothing.
fn program_name(pattern: &ProgramPattern) -> String {
    let written = program(pattern);
    let name = written.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || name.starts_with('@') || name == "**" { "*".to_owned() } else { name.to_owned() }
}

/// The list of words of a pattern, the program's name in front.
pub(super) fn argv(name: &str, pattern: &ArgvPattern) -> String {
    let place = |place: &Place| match place {
        Place::Any => quoted("**"),
        Place::One(words) => match words.as_slice() {
            [one] => quoted(&word(one)),
            several => bracketed("", &several.iter().map(|one| quoted(&word(one))).collect::<Vec<_>>()),
        },
        Place::Many(words) => {
            let words = words.iter().map(|one| quoted(&word(one)));
            bracketed("", &std::iter::once(quoted("**")).chain(words).collect::<Vec<_>>())
        }
    };
    let places: Vec<Place> = pattern.clone().into();
    let words: Vec<String> = std::iter::once(quoted(name)).chain(places.iter().map(place)).collect();
    format!("[{}]", words.join(", "))
}

/// The words of a pattern as one would type them, without the program's name.
pub(super) fn argv_words(pattern: &ArgvPattern) -> String {
    let alternatives = |words: &[WordGlob]| words.iter().map(word).collect::<Vec<_>>().join("|");
    let place = |place: &Place| match place {
        Place::Any => "**".to_owned(),
        Place::One(words) => alternatives(words),
        Place::Many(words) => format!("[{}]**", alternatives(words)),
    };
    let places: Vec<Place> = pattern.clone().into();
    places.iter().map(place).collect::<Vec<_>>().join(" ")
}

fn word(glob: &WordGlob) -> String {
    match glob {
        WordGlob::Empty => String::new(),
        WordGlob::Glob(glob) => String::from(glob.clone()),
    }
}

fn network(text: &mut String, terms: &NetworkTerms) {
    list(text, "host", terms.hosts.iter().map(|term| term.to_string()).collect());
    list(text, "cidr", terms.networks.iter().map(|network| network.to_string()).collect());
    if let Some(ports) = terms.ports.first() {
        line(text, "port", &quoted(&ports.to_string()));
    }
    if terms.transports != [Transport::Tcp] {
        list(text, "protocol", terms.transports.iter().map(|transport| transport.as_str().to_owned()).collect());
    }
    list(text, "except", terms.except.iter().map(|term| term.to_string()).collect());
}

fn matches(text: &mut String, profile: &Profile) {
    let globs =
        |globs: &[crate::common::scope::NameGlob]| globs.iter().map(|glob| String::from(glob.clone())).collect();
    let patterns = |patterns: &[Pattern]| patterns.iter().map(Pattern::to_string).collect();
    let own: [(&str, Vec<String>); 5] = [
        ("program", patterns(&profile.match_program)),
        ("unit", globs(&profile.match_unit)),
        ("user", profile.match_user.clone()),
        ("group", profile.match_group.clone()),
        ("cwd", patterns(&profile.match_cwd)),
    ];
    if own.iter().any(|(_, values)| !values.is_empty()) {
        text.push_str("\n[profile.match]\n");
        own.into_iter().for_each(|(key, values)| list(text, key, values));
    }
}

fn table(text: &mut String, name: &str, keys: &[(&str, Vec<String>)]) {
    if keys.iter().any(|(_, values)| !values.is_empty()) {
        let _ = write!(text, "\n[{name}]\n");
        keys.iter().for_each(|(key, values)| list(text, key, values.clone()));
    }
}

fn line(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

fn list(text: &mut String, key: &str, values: Vec<String>) {
    if !values.is_empty() {
        line(text, key, &bracketed(key, &values.iter().map(|value| quoted(value)).collect::<Vec<_>>()));
    }
}

/// A list on one line, or with a line for each.
fn bracketed(key: &str, values: &[String]) -> String {
    let one = format!("[{}]", values.join(", "));
    match one.len().saturating_add(key.len()) <= LINE {
        true => one,
        false => format!("[\n{}]", values.iter().map(|value| format!("    {value},\n")).collect::<String>()),
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if super::file::is_unseen(character) => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
