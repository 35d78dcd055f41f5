//! Package managers: pip in an environment of its own, npm. Neither has a network here, bare or inside.

use crate::Test;
use crate::case::{Case, Policy, nothing};

pub const TESTS: &[Test] =
    &[("pip_installs_a_wheel_in_a_venv", python), ("npm_installs_tarballs_and_runs_their_scripts", npm)];

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
