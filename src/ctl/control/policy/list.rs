//! `policy list`: the profiles that can be named, and the files behind them. Runs as the caller.

use serde::Serialize;

use super::place::{Candidate, Here};
use crate::common::text;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::ctl::control::table::{Cell, Column, Table};

/// A file, in JSON.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub name: String,
    pub file: String,
    /// `in-force`, `masks`, `masked`, `hidden` or `broken`.
    pub state: &'static str,
    /// The file because of which it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub extends: Vec<String>,
    /// `KEY VALUE`, such as `program /usr/bin/codex`.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    /// What is wrong with a broken one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

pub fn list(output: &Output, here: &Here) -> Result<(), Failure> {
    let listed = listed(here.candidates());
    if output.json {
        return output.json(&listed);
    }
    let columns = [
        Column::whole("NAME"),
        Column::whole("STATE"),
        Column::cut("FILE"),
        Column::cut("EXTENDS"),
        Column::cut("MATCHES"),
        Column::cut("DESCRIPTION").if_wide(),
    ];
    let mut table = Table::new(output.width, &columns);
    for row in &listed {
        let matches = match row.matches.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [one, rest @ ..] => format!("{one} and {} more", rest.len()),
        };
        let words = row.error.clone().or(row.description.clone()).unwrap_or_default();
        table.push(vec![
            Cell::own(row.name.clone()),
            Cell::own(row.state),
            Cell::own(from_home(here, &row.file)),
            Cell::own(row.extends.join(" ")),
            Cell::own(matches),
            Cell::own(words),
        ]);
    }
    output.table(&table, "No profiles.")
}

/// A path as a person writes it.
fn from_home(here: &Here, file: &str) -> String {
    let home = here.context.home.as_path().to_string_lossy().escape_default().to_string();
    let below = file.strip_prefix(&home).filter(|rest| rest.starts_with('/'));
    below.map_or_else(|| file.to_owned(), |rest| format!("~{rest}"))
}

/// The files with what becomes of each; they come in the order in which they are looked for.
pub fn listed(candidates: Vec<Candidate>) -> Vec<Listed> {
    let mut listed: Vec<Listed> = Vec::new();
    for candidate in candidates {
        // The first of a name decides.
        let first = listed.iter().find(|row| row.name == candidate.name);
        let (state, by) = match (first.map(|first| first.state), &candidate.text) {
            (Some("masks"), _) => ("masked", first.map(|first| first.file.clone())),
            (Some(_), _) => ("hidden", first.map(|first| first.file.clone())),
            (None, Ok(text)) if text.is_empty() => ("masks", None),
            (None, Ok(_)) => ("in-force", None),
            (None, Err(_)) => ("broken", None),
        };
        let parsed = candidate.text.as_ref().ok().and_then(|text| text.parse::<toml::Table>().ok());
        let header = parsed.as_ref().and_then(|table| table.get("profile")?.as_table());
        let is_broken = state == "in-force" && header.is_none();
        let error = match &candidate.text {
            Err(error) => Some(text::escaped(error.as_bytes())),
            Ok(_) if is_broken => Some("it cannot be read as a profile; gatedctl policy check says where".to_owned()),
            Ok(_) => None,
        };
        let matching = header.and_then(|header| header.get("match")?.as_table());
        let matches = matching.into_iter().flatten().flat_map(|(key, values)| {
            let key = text::escaped(key.as_bytes());
            strings(Some(values)).into_iter().map(move |value| format!("{key} {value}"))
        });
        listed.push(Listed {
            state: if is_broken { "broken" } else { state },
            by,
            description: header.and_then(|header| Some(text::escaped(header.get("description")?.as_str()?.as_bytes()))),
            extends: strings(header.and_then(|header| header.get("extends"))),
            matches: matches.collect(),
            error,
            name: candidate.name,
            file: candidate.file,
        });
    }
    listed
}

fn strings(value: Option<&toml::Value>) -> Vec<String> {
    let list = value.and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(toml::Value::as_str).map(|text| text::escaped(text.as_bytes())).collect()
}
