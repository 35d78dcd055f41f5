//! The admin's limit: where it is found, whom it lets start sessions, and what is said about a broken one.

use std::io;
use std::path::Path;

use gated::policy::{Ceiling, PolicyError};

use super::sample::Files;

fn load(files: &Files) -> Result<Ceiling, PolicyError> {
    Ceiling::load(&|file: &Path| files.read(file))
}

fn of(text: &str) -> Result<Ceiling, String> {
    load(&Files::default().with("/etc/gated/ceiling.toml", text)).map_err(|error| error.to_string())
}

fn may(ceiling: &Ceiling, name: &str, groups: &[&str]) -> bool {
    ceiling.may_run(name, &groups.iter().map(|&group| group.to_owned()).collect())
}

#[test]
fn without_a_list_every_user_may_and_with_an_empty_one_nobody() {
    for open in ["schema = 1\n", "schema = 1\n[users]\n"] {
        assert!(may(&of(open).unwrap(), "alice", &[]), "{open}");
    }
    assert!(may(&load(&Files::default()).unwrap(), "alice", &[]));
    let nobody = of("schema = 1\n[users]\nmay_run = []\n").unwrap();
    assert!(!may(&nobody, "alice", &["users"]) && !may(&nobody, "", &[""]));
}

#[test]
fn a_list_names_users_and_groups() {
    let some = of("schema = 1\n[users]\nmay_run = [\"@developers\", \"ci\", \"@CORP\\\\domain users\"]\n").unwrap();
    assert!(may(&some, "alice", &["users", "developers"]) && may(&some, "ci", &[]));
    assert!(may(&some, "CORP\\bob", &["CORP\\domain users"]));
    // A name is no group and a group no name, whatever they are called.
    assert!(!may(&some, "developers", &["ci"]) && !may(&some, "@developers", &["@developers"]));
    assert!(!may(&some, "Ci", &["developer"]));
}

#[test]
fn the_highest_file_decides_alone() {
    let folders = ["/etc/gated", "/run/gated", "/usr/lib/gated"];
    let mut files = Files::default();
    for (number, folder) in folders.iter().rev().enumerate() {
        files = files
            .with(&format!("{folder}/ceiling.toml"), &format!("schema = 1\n[users]\nmay_run = [\"user{number}\"]\n"));
        let ceiling = load(&files).unwrap();
        assert!(may(&ceiling, &format!("user{number}"), &[]) && !may(&ceiling, "other", &[]));
    }
    let masked = load(&files.with("/etc/gated/ceiling.toml", "")).unwrap();
    assert_eq!(masked, Ceiling::default());
    let unreadable = Ceiling::load(&|_| Err(io::ErrorKind::PermissionDenied.into()));
    assert!(matches!(unreadable, Err(PolicyError::Unreadable { file, .. }) if file == "/etc/gated/ceiling.toml"));
}

#[test]
fn what_nothing_would_hold_is_refused_with_its_place() {
    let cases = [
        ("", "accepted"),
        ("schema = 1", "accepted"),
        ("[users]\nmay_run = []", "1:1: `schema = 1` is missing"),
        ("schema = 2", "1:10: schema 2 is not known; this version reads schema 1"),
        (
            "schema = 1\n[[floor]]\naccess = [\"write\"]\npath = [\"/etc/**\"]\nlevel = \"deny\"",
            "2:1: `[[floor]]` of a ceiling is not supported by this version",
        ),
        (
            "schema = 1\n[users]\nmay_write_profiles = true",
            "3:22: `may_write_profiles` of a ceiling is not supported by this version",
        ),
        (
            "schema = 1\n[users]\nlifetimes = [\"call\"]",
            "3:13: `lifetimes` of a ceiling is not supported by this version",
        ),
        ("schema = 1\n[users]\nmax_for = \"8h\"", "3:11: `max_for` of a ceiling is not supported by this version"),
        (
            "schema = 1\n[users]\nmay_runn = []",
            "3:1: unknown key `may_runn`, expected one of `may_run`, `may_write_profiles`, `lifetimes`, `max_for`",
        ),
        ("schema = 1\n[colour]", "2:2: unknown key `colour`, expected one of `schema`, `users`, `floor`"),
        (
            "schema = 1\n[users]\nmay_run = \"alice\"",
            "3:11: invalid type: string \"alice\", expected a list in brackets",
        ),
        ("schema = 1\n[users]\nmay_run = [\"a\",\n  \"\"]", "4:3: `` is neither a user's name nor `@` and a group's"),
        ("schema = 1\n[users]\nmay_run = [\"@\"]", "3:12: `@` is neither a user's name nor `@` and a group's"),
        (
            "schema = 1\n[users]\nmay_run = [\"a\\u202eb\"]",
            "3:12: `a\\u{202e}b` is neither a user's name nor `@` and a group's",
        ),
        ("schema = 1\n[users]\nmay_run = [\"*\"]", "3:12: `*` is neither a user's name nor `@` and a group's"),
    ];
    for (text, expected) in cases {
        let said = of(text).map_or_else(|error| error, |_| "accepted".to_owned());
        assert_eq!(said.trim_start_matches("/etc/gated/ceiling.toml:"), expected, "{text}");
    }
}
