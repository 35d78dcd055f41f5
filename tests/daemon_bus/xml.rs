//! Introspection data, D-Bus Specification "Introspection Data Format", as lines that can be compared.

use std::collections::{BTreeMap, BTreeSet};

/// What an interface has: a line for each method, signal and property.
pub type Interfaces = BTreeMap<String, BTreeSet<String>>;

/// The interfaces of the node that a text describes; those of nodes within are left out.
pub fn interfaces(text: &str) -> Interfaces {
    let mut found = Interfaces::new();
    let (mut interface, mut member, mut depth) = (None::<String>, None::<String>, 0);
    let mut rest = text;
    while let Some((_, tag)) = rest.split_once('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").expect("a comment ends").1;
            continue;
        }
        let (tag, behind) = tag.split_once('>').expect("a tag ends");
        rest = behind;
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let attributes = attributes_of(attributes);
        let get = |key: &str| attributes.get(key).cloned().unwrap_or_default();
        match name {
            "node" if !is_empty => depth += 1,
            "/node" => depth -= 1,
            _ if depth > 1 => {}
            "interface" => {
                found.insert(get("name"), BTreeSet::new());
                interface = Some(get("name"));
            }
            "/interface" => interface = None,
            "method" | "signal" | "property" => {
                let line = format!("{name} {} {} {}", get("name"), get("type"), get("access"));
                if is_empty {
                    found.get_mut(interface.as_ref().unwrap()).unwrap().insert(line);
                } else {
                    member = Some(line);
                }
            }
            "arg" => {
                let member = member.as_mut().expect("an argument of something");
                let usual = if member.starts_with("signal") { "out" } else { "in" };
                let direction = attributes.get("direction").map_or(usual, String::as_str);
                *member += &format!("; {direction} {} {}", get("name"), get("type"));
            }
            "annotation" => *member.as_mut().unwrap() += &format!("; @{}={}", get("name"), get("value")),
            "/method" | "/signal" | "/property" => {
                found.get_mut(interface.as_ref().unwrap()).unwrap().insert(member.take().unwrap());
            }
            _ => {}
        }
    }
    found
}

fn attributes_of(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim();
    while let Some((name, behind)) = rest.split_once("=\"") {
        let (value, behind) = behind.split_once('"').expect("a value ends");
        found.insert(name.trim().to_owned(), value.to_owned());
        rest = behind;
    }
    found
}
