//! The terms of a rule on unix sockets, and `[dbus]`: from their text to patterns, services and names of a bus. Runs as
//! whoever starts a session, on an admin's or user's files.

use toml::Spanned;

use crate::common::access::Level;
use crate::common::bus;
use crate::common::net::Service;
use crate::common::scope::Pattern;

use super::file::{BusTable, ExceptTerm, RuleTable, Text};
use super::load::PolicyError;
use super::merge::Names;
use super::model::{BusNames, Rule};
use super::sockets::is_never_reached;

/// Names that start programs outside of the session, or answer its questions.
const NEVER_TALKED_TO: [&str; 5] = [
    "org.freedesktop.systemd1",
    "org.freedesktop.Flatpak",
    "org.freedesktop.portal.Flatpak",
    "org.freedesktop.DBus",
    bus::BUS_NAME,
];

/// What a rule on sockets speaks of.
#[derive(Default)]
pub(super) struct SocketTerms {
    pub paths: Vec<Pattern>,
    pub services: Vec<Service>,
    pub except: Vec<Pattern>,
}

/// The terms of a rule that is known to be one on sockets.
pub(super) fn terms(names: &Names<'_>, text: &Text, table: &RuleTable) -> Result<SocketTerms, PolicyError> {
    let mut terms = SocketTerms::default();
    for value in &table.socket {
        let written = value.get_ref();
        if let Some(name) = written.strip_prefix("@abstract/") {
            check_abstract(text, table, value, name)?;
        } else if written.starts_with('@') {
            terms.services.push(service(text, table, value)?);
        } else {
            terms.paths.push(names.pattern(text, value)?);
        }
    }
    let hole = |value: &Spanned<ExceptTerm>| match value.get_ref() {
        ExceptTerm::Text(path) => names.pattern(text, &Spanned::new(value.span(), path.clone())),
        ExceptTerm::Argv(_) => Err(text.error_at(value, "a list of words in a rule for sockets; a path was expected")),
    };
    terms.except = table.except.iter().map(hole).collect::<Result<_, _>>()?;
    Ok(terms)
}

fn service(text: &Text, table: &RuleTable, value: &Spanned<String>) -> Result<Service, PolicyError> {
    let written = value.get_ref();
    let Ok(service) = written.parse::<Service>() else {
        let known: Vec<String> = Service::ALL.iter().map(|service| format!("`{service}`")).collect();
        let message =
            format!("`{written}` is not known; a path, `@abstract/NAME` or one of {} was expected", known.join(", "));
        return Err(text.error_at(value, message));
    };
    if is_never_reached(service) && table.level != Level::Deny {
        let message = format!("`{written}` is denied whatever a rule says: {}", service.meaning());
        return Err(text.error_at(value, message));
    }
    Ok(service)
}

/// Abstract sockets of the host are in another network namespace; the session's own are its own.
fn check_abstract(text: &Text, table: &RuleTable, value: &Spanned<String>, name: &str) -> Result<(), PolicyError> {
    if name.is_empty() {
        return Err(text.error_at(value, "`@abstract/NAME` was expected"));
    }
    if table.level != Level::Deny {
        let message =
            "abstract sockets of the host are never reached from a session's own network; only `deny` can be said";
        return Err(text.error_at(value, message));
    }
    Ok(())
}

/// Holds the examples against their rule: paths, and services by name.
pub(super) fn check_examples(
    names: &Names<'_>,
    text: &Text,
    table: &RuleTable,
    rule: &Rule,
) -> Result<(), PolicyError> {
    let examples = &table.examples;
    let matching = examples.matching.iter().map(|value| (value, true));
    for (value, expected) in matching.chain(examples.not_match.iter().map(|value| (value, false))) {
        let written = value.get_ref();
        let does_match = match written.parse::<Service>() {
            Ok(service) => rule.services.contains(&service),
            Err(()) => {
                let example = names.pattern(text, value)?;
                let path = example.literal_prefix();
                if Pattern::literal(&path) != example {
                    let message = format!("the example `{written}` has a wildcard; one path was expected");
                    return Err(text.error_at(value, message));
                }
                rule.matches(&path)
            }
        };
        if does_match != expected {
            let does = if expected { "does not match, but is in `match`" } else { "matches, but is in `not_match`" };
            return Err(text.error_at(value, format!("rule `{}`: the example `{written}` {does}", rule.id)));
        }
    }
    Ok(())
}

/// Adds the names of a `[dbus]` table.
pub(super) fn lay_bus_names(names: &mut BusNames, text: &Text, table: &BusTable) -> Result<(), PolicyError> {
    for (own, values) in [(&mut names.session, &table.session), (&mut names.system, &table.system)] {
        for value in values {
            let name = bus_name(text, value)?;
            if !own.contains(&name) {
                own.push(name);
            }
        }
    }
    Ok(())
}

/// A well-known name (D-Bus specification, "Bus names"), or all below one: `org.example.*`.
fn bus_name(text: &Text, value: &Spanned<String>) -> Result<String, PolicyError> {
    let written = value.get_ref();
    let (name, is_tree) = written.strip_suffix(".*").map_or((written.as_str(), false), |name| (name, true));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_element = |element: &str| {
        element.bytes().all(plain) && element.bytes().next().is_some_and(|first| !first.is_ascii_digit())
    };
    if name.len() > 255 || name.split('.').count() < 2 || !name.split('.').all(is_element) {
        let message = format!("`{written}` is no name on a bus; `org.example.Name` or `org.example.*` was expected");
        return Err(text.error_at(value, message));
    }
    // The proxy takes `name.*` for the name itself and all below it.
    let covers =
        |own: &&&str| **own == name || is_tree && own.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    match NEVER_TALKED_TO.iter().find(covers) {
        Some(own) => Err(text.error_at(value, format!("`{written}`: `{own}` is never talked to from a session"))),
        None => Ok(written.clone()),
    }
}
