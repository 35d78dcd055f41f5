//! `policy check`: mistakes in profiles and in the ceiling, and rules that do not do what they seem to. Runs as the caller.

use std::collections::BTreeSet;
use std::path::Path;

use super::arguments::Check;
use super::command;
use super::list;
use super::place::Here;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::policy::lint::{self, Finding, Machine, Severity};
use crate::policy::{Ceiling, PolicyError, ProfileSelector, ceiling, layers};

pub fn check(output: &Output, here: &Here, arguments: &Check) -> Result<(), Failure> {
    let mut found = Vec::new();
    let mut looked_at = 0_usize;
    let selectors = if arguments.profiles.is_empty() {
        found.extend(ceiling_of(here).err().map(|error| lint::of_error(&error)));
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
    let loaded = here.load(selector.clone()).and_then(|profile| {
        let layers = layers::of(selector, &here.context, &|path: &Path| here.read(path))?;
        Ok((profile, layers))
    });
    let (profile, layers) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return vec![lint::of_error(&error)],
    };
    let own: Vec<&str> = layers.last().map(|layer| layer.file.as_str()).into_iter().collect();
    let has_group = |name: &str| nix::unistd::Group::from_name(name).is_ok_and(|group| group.is_some());
    let machine = Machine { follow: &command::follow, has_group: &has_group };
    let mut found = lint::check(&profile, &layers, &own, &machine);
    if let Some(file) = own.first() {
        found.extend(writable(here, file));
    }
    found
}

fn ceiling_of(here: &Here) -> Result<Ceiling, PolicyError> {
    Ceiling::load(&|path| here.read(path))
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
