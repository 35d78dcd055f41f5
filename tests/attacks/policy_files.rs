//! Attack 43: broken policy. An error with file, line and column, exit code 125, and nothing is run.

use crate::Test;
use crate::engine;
use crate::support::{Sandbox, Side};

pub const TESTS: &[Test] = &[
    ("a_broken_profile_is_refused_with_its_place", broken_profiles),
    ("a_broken_script_of_answers_is_refused", broken_script),
    ("an_unknown_profile_is_refused", unknown_profile),
    ("an_unknown_command_gives_127", unknown_command),
];

/// A profile, and the line and column of its error; the column is 0 where only the line is promised.
const BROKEN: &[(&str, &str, u32, u32)] = &[
    ("no toml", "schema = 1\n[profile\n", 2, 0),
    ("unknown key", "schema = 1\n[profile]\nname = \"x\"\n\n[defaults]\nwrite = \"ask\"\nwriet = \"allow\"\n", 7, 1),
    ("unknown table", "schema = 1\n[profile]\nname = \"x\"\n[defautls]\nwrite = \"allow\"\n", 4, 0),
    ("unknown level", "schema = 1\n[profile]\nname = \"x\"\n[defaults]\nwrite = \"sometimes\"\n", 5, 9),
    ("another schema", "schema = 2\n[profile]\nname = \"x\"\n", 1, 0),
    (
        "a number for a path",
        "schema = 1\n[profile]\nname = \"x\"\n[[rule]]\nid = \"r\"\naccess = [\"write\"]\npath = 7\nlevel = \"allow\"\n",
        7,
        8,
    ),
    (
        "an unknown variable",
        "schema = 1\n[profile]\nname = \"x\"\n[[rule]]\nid = \"r\"\naccess = [\"write\"]\npath = [\"{nowhere}/x\"]\nlevel = \"allow\"\n",
        7,
        0,
    ),
    (
        "an unknown access",
        "schema = 1\n[profile]\nname = \"x\"\n[[rule]]\nid = \"r\"\naccess = [\"wirte\"]\npath = [\"/x\"]\nlevel = \"allow\"\n",
        6,
        0,
    ),
];

/// A command that leaves a mark if it is run.
fn refused(sandbox: &Sandbox) -> crate::support::Outcome {
    let outcome = sandbox.on(Side::Gated, &["touch", "mark"]);
    outcome.assert(outcome.code() == 125, "exit code 125");
    outcome.assert(!sandbox.workspace().join("mark").exists(), "nothing was run");
    outcome.assert(outcome.err().trim_end().lines().count() == 1, "one line on stderr");
    outcome
}

fn broken_profiles() {
    if !engine::gated_too() {
        return;
    }
    for (what, text, line, column) in BROKEN {
        let sandbox = Sandbox::new();
        sandbox.profile(text);
        let outcome = refused(&sandbox);
        let place = format!("profile.toml:{line}:");
        let err = outcome.err();
        let rest = err.split_once(&place).map(|(_, rest)| rest.to_owned());
        outcome.assert(rest.is_some(), &format!("{what}: the error names {place}"));
        let digits: String = rest.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
        let found: u32 = digits.parse().unwrap_or(0);
        outcome.assert(found > 0 && (*column == 0 || found == *column), &format!("{what}: the column, {column}"));
    }
}

fn broken_script() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.answers("[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"perhaps\"\n");
    let outcome = refused(&sandbox);
    outcome.assert(outcome.err().contains("answers.toml:4:"), "the error names the place");
}

fn unknown_profile() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.profile_named("no-such-profile");
    let outcome = refused(&sandbox);
    outcome.assert(outcome.err().contains("no-such-profile"), "the error names it");
}

fn unknown_command() {
    if !engine::gated_too() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.on(Side::Gated, &["no-such-command"]).assert_code(127);
    sandbox.on(Side::Gated, &["/etc/passwd"]).assert_code(126);
}
