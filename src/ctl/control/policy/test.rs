//! `policy test`: profiles against their examples and against files of expectations. Runs as the caller.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::arguments::Test;
use super::command;
use super::list;
use super::place::Here;
use crate::common::text;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::policy::expect::{self, Expectation};
use crate::policy::load::FOLDERS;
use crate::policy::{Context, Grants, Policy, PolicyError, ProfileSelector, load};

/// Beside a folder of profiles.
const TESTS: &str = "tests";

/// What came of a run, in JSON.
#[derive(Debug, Default, Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
}

impl Report {
    fn failed(&mut self, words: String) {
        self.failed = self.failed.saturating_add(1);
        self.failures.push(words);
    }

    fn count(&mut self, failure: Option<String>) {
        match failure {
            None => self.passed = self.passed.saturating_add(1),
            Some(words) => self.failed(words),
        }
    }
}

pub fn test(output: &Output, here: &Here, arguments: &Test) -> Result<(), Failure> {
    let mut report = Report::default();
    let files = if arguments.files.is_empty() {
        for row in list::listed(here.candidates()) {
            if matches!(row.state, "in-force" | "broken") {
                let loaded = here.load(ProfileSelector::Name(row.name));
                // Loading a profile holds its examples against it.
                report.count(loaded.err().map(|error| error.to_string()));
            }
        }
        beside_profiles(here)
    } else {
        arguments.files.clone()
    };
    for file in &files {
        run(here, file, &mut report)?;
    }
    if output.json {
        output.json(&report)?;
    } else {
        report.failures.iter().try_for_each(|failure| output.line(failure))?;
        output.line(&format!("{} passed, {} failed.", report.passed, report.failed))?;
    }
    if report.failed > 0 { Err(Failure::Unhealthy) } else { Ok(()) }
}

/// `tests/*.toml` in the folders of profiles.
fn beside_profiles(here: &Here) -> Vec<PathBuf> {
    let folders = FOLDERS.iter().map(PathBuf::from).chain([here.user_folder()]);
    let mut files: Vec<PathBuf> = folders
        .flat_map(|folder| fs::read_dir(here.real(&folder).join(TESTS)).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

fn run(here: &Here, file: &Path, report: &mut Report) -> Result<(), Failure> {
    let failed = |source| Failure::File { what: "read", path: file.to_owned(), source };
    let written = fs::read_to_string(file).map_err(failed)?;
    let name = text::escaped(file.as_os_str().as_encoded_bytes());
    // A profile is tested by its own examples.
    if written.parse::<toml::Table>().is_ok_and(|table| table.contains_key("profile")) {
        report.count(here.load(ProfileSelector::File(file.to_owned())).err().map(|error| error.to_string()));
        return Ok(());
    }
    let expectations = match expect::parse(&name, &written, &here.context) {
        Ok(expectations) => expectations,
        Err(error) => {
            report.failed(error.to_string());
            return Ok(());
        }
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    for expectation in &expectations.all {
        report.count(failure(here, folder, &expectations.context, expectation));
    }
    Ok(())
}

/// What a profile says otherwise than was expected.
fn failure(here: &Here, folder: &Path, context: &Context, expected: &Expectation) -> Option<String> {
    let (file, line, column) = &expected.place;
    let place = format!("{file}:{line}:{column}");
    let policy = match policy(here, folder, context, &expected.profile) {
        Ok(policy) => policy,
        Err(error) => return Some(format!("{place}: {error}")),
    };
    let said = expected.question.explain(&policy, &Grants::new(), &command::follow);
    let other_rule = expected.rule.as_ref().is_some_and(|rule| *rule != said.decided.rule);
    if said.decided.level == expected.level && !other_rule {
        return None;
    }
    let by = expected.rule.as_ref().map_or_else(String::new, |rule| format!(" by rule {rule}"));
    let lines = said.lines();
    let decided = lines.get(1).map(|line| line.trim()).unwrap_or_default();
    Some(format!("{place}: {} {}: expected {}{by}, but {decided}", said.access, said.object, expected.level))
}

fn policy(here: &Here, folder: &Path, context: &Context, profile: &str) -> Result<Policy, PolicyError> {
    let selector = match profile.contains('/') || profile.ends_with(".toml") {
        true => ProfileSelector::File(folder.join(profile)),
        false => ProfileSelector::Name(profile.to_owned()),
    };
    let profile = load(selector, context, &|path| here.read(path))?;
    Ok(Policy::following(&profile, &command::follow))
}
