//! `policy check`: mistakes in profiles and in the ceiling, and rules that do not do what they seem to. Runs as the caller.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::arguments::Check;
use super::command;
use super::list;
use super::place::Here;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::policy::lint::{self, Finding, Machine, Severity};
use crate::policy::{Ceiling, ProfileSelector, ceiling, layers, load};

pub fn check(output: &Output, here: &Here, arguments: &Check) -> Result<(), Failure> {
    let mut found = Vec::new();
    let mut looked_at = 0_usize;
    let selectors = if arguments.profiles.is_empty() {
        found.extend(ceiling_of(here));
        looked_at = here.ceilings().len();
        all(here, &mut found)
    } else {
        arguments.profiles.clone()
    };
    for selector in selectors {
        looked_at = looked_at.saturating_add(1);
        found.extend(of_file(here, &selector));
    }
    found.retain(|finding| arguments.verbose || finding.severity < Severity::Note);
    found.sort();
    found.dedup();
    let count = |severity: Severity| found.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if output.json {
        output.json(&found)?;
    } else {
        found.iter().try_for_each(|finding| output.line(&finding.to_string()))?;
        let files = if looked_at == 1 { "1 file".to_owned() } else { format!("{looked_at} files") };
        output.line(&format!("{files}: {}, {}.", counted(errors, "error"), counted(warnings, "warning")))?;
    }
    if errors > 0 || arguments.strict && warnings > 0 { Err(Failure::Unhealthy) } else { Ok(()) }
}

fn counted(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Every profile that can be named; what can be none is found already.
fn all(here: &Here, found: &mut Vec<Finding>) -> Vec<ProfileSelector> {
    let mut names = BTreeSet::new();
    for row in list::listed(here.candidates()) {
        match row.state {
            // The loader says where.
            "in-force" | "broken" => {
                names.insert(row.name);
            }
            "hidden" => found.push(Finding {
                message: format!("this file is hidden by {}, and has no effect", row.by.unwrap_or_default()),
                file: row.file,
                line: 0,
                column: 0,
                severity: Severity::Note,
                check: "hidden".to_owned(),
                remedy: None,
            }),
            _ => {}
        }
    }
    names.into_iter().map(ProfileSelector::Name).collect()
}

/// Everything about one profile.
pub fn of_file(here: &Here, selector: &ProfileSelector) -> Vec<Finding> {
    let read = |path: &Path| here.read(path);
    let (mut found, file) = linted(here, selector, &read);
    found.extend(file.and_then(|file| writable(here, &file)));
    found
}

/// Everything about a profile as if its file had this text.
pub fn of_text(here: &Here, name: &str, file: &Path, text: &str) -> Vec<Finding> {
    let read = |path: &Path| if path == file { Ok(text.to_owned()) } else { here.read(path) };
    let mut found = linted(here, &ProfileSelector::Name(name.to_owned()), &read).0;
    found.retain(|finding| finding.severity < Severity::Note);
    found
}

/// What there is to say, and the profile's own file.
fn linted(
    here: &Here,
    selector: &ProfileSelector,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> (Vec<Finding>, Option<String>) {
    let loaded = load(selector.clone(), &here.context, read).and_then(|mut profile| {
        // A ceiling that is broken is told by itself.
        let _limits = here.cover(&mut profile);
        Ok((profile, layers::of(selector, &here.context, read)?))
    });
    let (profile, layers) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return (vec![lint::of_error(&error)], None),
    };
    let own: Vec<&str> = layers.last().map(|layer| layer.file.as_str()).into_iter().collect();
    let has_group = |name: &str| nix::unistd::Group::from_name(name).is_ok_and(|group| group.is_some());
    let machine = Machine { follow: &command::follow, has_group: &has_group };
    (lint::check(&profile, &layers, &own, &machine), own.first().map(|file| (*file).to_owned()))
}

fn ceiling_of(here: &Here) -> Vec<Finding> {
    let floors = Ceiling::load(&|path| here.read(path)).and_then(|ceiling| ceiling.alone(&here.context, None));
    floors.map_or_else(|error| vec![lint::of_error(&error)], |alone| lint::floors(&alone.rules))
}

/// A file that others than its owner may write is refused where it counts.
fn writable(here: &Here, file: &str) -> Option<Finding> {
    use std::os::unix::fs::MetadataExt;
    let path = here.real(Path::new(file));
    let found = std::fs::metadata(&path).ok()?;
    let is_machines = ceiling::FOLDERS.iter().any(|folder| Path::new(file).starts_with(folder));
    let is_named = is_machines || path.starts_with(here.user_folder());
    (is_named && found.mode() & 0o022 != 0).then(|| Finding {
        file: file.to_owned(),
        line: 0,
        column: 0,
        severity: Severity::Error,
        check: "writable".to_owned(),
        message: format!("others than its owner may write it (mode {:o}); it is refused", found.mode() & 0o7777),
        remedy: Some("chmod go-w it.".to_owned()),
    })
}
