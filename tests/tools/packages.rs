//! Package managers: pip in an environment of its own, npm; and what they install: pytest. Neither has a network here, bare or inside.

use crate::Test;
use crate::case::{Case, Policy, nothing};

pub const TESTS: &[Test] = &[
    ("pip_installs_a_wheel_in_a_venv", python),
    ("npm_installs_tarballs_and_runs_their_scripts", npm),
    ("npm_runs_the_scripts_of_a_packages_life", lifecycle),
    ("pytest_starts_programs_in_every_way", pytest),
];

fn python() {
    let results = Case {
        name: "python",
        script: include_str!("scripts/python.sh"),
        needs: &[("python3", "python3-venv")],
        prepare: nothing,
        policy: Policy::Coder { answers: "" },
        compare: &[],
    }
    .run();
    results.assert_value("says", "hello");
    results.assert_value("installed", "hello==1.0");
    results.assert_value("mode", "755");
    results.assert_value("left", "0");
}

fn npm() {
    let results = Case {
        name: "npm",
        script: include_str!("scripts/npm.sh"),
        needs: &[("node", "nodejs"), ("npm", "npm")],
        prepare: nothing,
        policy: Policy::Coder { answers: "" },
        compare: &["app"],
    }
    .run();
    assert_eq!(results.bare.values("says"), ["hello", "hello"]);
    results.assert_value("script", "made");
    results.assert_value("mode", "755");
    results.assert_value("left", "0");
}

fn lifecycle() {
    let results = Case {
        name: "lifecycle",
        script: include_str!("scripts/lifecycle.sh"),
        needs: &[("node", "nodejs"), ("npm", "npm")],
        prepare: nothing,
        policy: Policy::Judged,
        compare: &["app"],
    }
    .run();
    let lines = results.bare.out();
    for line in ["pre env file shell node POST", "prepared before after "] {
        results.bare.assert(lines.lines().any(|told| told == line), &format!("the steps `{line}`"));
    }
    results.assert_value("tool", "one two three");
    results.assert_value("children", "780");
    results.assert_value("status", "3");
}

fn pytest() {
    let results = Case {
        name: "pytest",
        script: include_str!("scripts/pytest.sh"),
        needs: &[("python3", "python3"), ("py.test-3", "python3-pytest")],
        prepare: nothing,
        policy: Policy::Judged,
        compare: &[],
    }
    .run();
    results.assert_value("41", "passed");
}
