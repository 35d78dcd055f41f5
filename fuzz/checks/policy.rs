//! Profiles: whatever a file says, it is read or refused, the same each time, and what was read keeps the laws of the language.

use std::io;
use std::path::{Path, PathBuf};

use gated::common::access::Level;
use gated::policy::lint::{self, Machine};
use gated::policy::question::Question;
use gated::policy::{Context, Grants, Policy, PolicyError, Profile, ProfileSelector, compare, layers, load, merged};

use super::attempts::{all, context, levels};
use super::script::is_there;

/// What stands between the profile and the attempts.
const BETWEEN: &str = "\n====\n";
/// Rules of which each is tried in another way, and every so many-th attempt that is explained: each takes a policy for each rule.
const TRIED: usize = 3;
const EXPLAINED: usize = 5;
/// Rules of a profile of which everything is tried: with more of them an input takes seconds.
const SMALL: usize = 24;

/// A profile's file, [`BETWEEN`], and attempts, a line each.
pub fn check(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (text, attempts) = input.split_once(BETWEEN).unwrap_or((input, ""));
    let context = context();
    match read(text, &context) {
        Err(PolicyError::Invalid { file, line, column, message }) => {
            if file == "p.toml" {
                is_there(text, line as usize, column as usize);
            }
            assert!(!message.contains('\n'), "{message}");
        }
        Err(_) => {}
        Ok(profile) => {
            let again = read(text, &context).expect("what was read once");
            assert_eq!(profile.encode(), again.encode());
            let attempts = all(attempts.as_bytes().split(|&byte| byte == b'\n'));
            decides(&profile, &attempts);
            written(&profile, &attempts, &context);
            if profile.rules.len() <= SMALL {
                explained(&profile, &attempts);
                told(&profile, text, &context);
            }
        }
    }
}

fn read(text: &str, context: &Context) -> Result<Profile, PolicyError> {
    read_as(&PathBuf::from("p.toml"), text, context)
}

fn read_as(name: &Path, text: &str, context: &Context) -> Result<Profile, PolicyError> {
    load(ProfileSelector::File(name.to_owned()), context, &|file| only(file, name, text))
}

/// A machine that has this file and the built-in profiles.
fn only(file: &Path, name: &Path, text: &str) -> io::Result<String> {
    if file == name { Ok(text.to_owned()) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn decides(profile: &Profile, attempts: &[Question]) {
    let policy = Policy::new(profile);
    let before = levels(&policy, attempts);
    let sent = Profile::decode(&profile.encode()).expect("what was encoded can be decoded");
    assert_eq!(levels(&Policy::new(&sent), attempts), before);
    let mut reversed = profile.clone();
    reversed.rules.reverse();
    assert_eq!(levels(&Policy::new(&reversed), attempts), before, "the order of rules");
    for at in 0..profile.rules.len().min(TRIED) {
        let mut denied = profile.clone();
        denied.rules[at].level = Level::Deny;
        let after = levels(&Policy::new(&denied), attempts);
        for ((question, was), is) in attempts.iter().zip(&before).zip(&after) {
            assert!(is >= was, "{question:?}: {was:?} became {is:?} when rule {at} was made to deny");
        }
    }
}

fn explained(profile: &Profile, attempts: &[Question]) {
    let policy = Policy::new(profile);
    assert_eq!(compare::compare(profile, profile, &|_| None), []);
    for question in attempts.iter().step_by(EXPLAINED) {
        let grants = Grants::new();
        let verdict = question.verdict(&policy, &grants);
        assert!(!policy.rule(&verdict).id.is_empty());
        let explanation = question.explain(&policy, &grants, &|_| None);
        assert_eq!(explanation.decided.level, question.level(&policy, &grants));
        assert!(!explanation.lines().is_empty());
    }
}

/// What is written out in whole means the same.
fn written(profile: &Profile, attempts: &[Question], context: &Context) {
    let text = merged::written(profile);
    let again = match read(&text, context) {
        Ok(again) => again,
        Err(error) => panic!("{error}:\n{text}"),
    };
    assert_eq!(levels(&Policy::new(&again), attempts), levels(&Policy::new(profile), attempts), "{text}");
}

fn told(profile: &Profile, text: &str, context: &Context) {
    let name = PathBuf::from("p.toml");
    let selector = ProfileSelector::File(name.clone());
    let own = layers::of(&selector, context, &|file| only(file, &name, text)).expect("what was read once");
    let files: Vec<&str> = own.iter().map(|layer| layer.file.as_str()).collect();
    let machine = Machine { follow: &|_| None, has_group: &|_| true };
    for finding in lint::check(profile, &own, &files[files.len() - 1..], &machine) {
        assert!(!finding.to_string().is_empty());
    }
}
