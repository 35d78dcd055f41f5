//! What compiles: cargo, make, go, javac.

use crate::Test;
use crate::case::{Case, Policy, nothing, rust_sysroot};
use crate::support::Sandbox;

pub const TESTS: &[Test] = &[
    ("cargo_builds_rebuilds_and_tests_a_crate", cargo),
    ("make_runs_twenty_pipelines_four_at_a_time_twenty_times", make),
    ("make_compiles_a_project_with_more_than_500_execs", c_project),
    ("javac_jar_and_a_program_that_starts_programs", java),
    ("a_go_program_writes_from_many_goroutines_under_a_storm_of_signals", go),
];

/// The toolchain may lie where only its owner gets; the test user gets to it here.
/// Where the toolchain is in root's home, another user is asked before it is read, by whatever mount it comes.
const TOOLCHAIN_OF_ROOTS: &str =
    "[[answer]]\naccess = \"read\"\nobject = \"/root/.rustup/**\"\nanswer = \"session\"\nscope = \"tree\"\n";

fn with_toolchain(sandbox: &mut Sandbox) {
    let at = sandbox.home().join("toolchain");
    sandbox.bind(&rust_sysroot(), &at);
}

fn cargo() {
    let results = Case {
        name: "cargo",
        script: include_str!("scripts/cargo.sh"),
        needs: &[("cc", "gcc")],
        prepare: with_toolchain,
        policy: Policy::Coder { answers: TOOLCHAIN_OF_ROOTS },
        compare: &["app"],
    }
    .run();
    assert_eq!(results.bare.values("says"), ["made first", "made second"]);
    results.assert_value("passing", "2");
}

fn make() {
    let results = Case {
        name: "make",
        script: include_str!("scripts/make.sh"),
        needs: &[("make", "make"), ("dash", "dash")],
        prepare: nothing,
        policy: Policy::Coder { answers: "[[answer]]\naccess = \"exec\"\nobject = \"**/rm\"\nanswer = \"session\"\n" },
        compare: &["out"],
    }
    .run();
    let rounds = results.gated.values("all");
    assert_eq!(rounds.len(), 20);
    assert!(rounds.iter().all(|round| round == &rounds[0] && round.ends_with(" 20 0")), "{rounds:?}");
}

fn c_project() {
    let results = Case {
        name: "cproject",
        script: include_str!("scripts/cproject.sh"),
        needs: &[("make", "make"), ("cc", "gcc")],
        prepare: nothing,
        policy: Policy::Recorded,
        compare: &["project"],
    }
    .run();
    results.assert_value("sum", "7260");
    results.assert_value("objects", "121");
    results.assert_value("again", "./part007.o ");
    results.assert_value("current", "yes");
    let executed = results.gated.events_of("notified").filter(|event| event["access"] == "exec").count();
    assert!(executed > 500, "{executed} programs were judged");
}

fn java() {
    let results = Case {
        name: "java",
        script: include_str!("scripts/java.sh"),
        needs: &[("javac", "default-jdk-headless"), ("java", "default-jdk-headless")],
        prepare: nothing,
        policy: Policy::Judged,
        compare: &["java/src"],
    }
    .run();
    results.assert_value("sum", "1770");
    results.assert_value("none", "true");
    results.assert_value("status", "5");
}

fn go() {
    let results = Case {
        name: "go",
        script: include_str!("scripts/go.sh"),
        needs: &[("go", "golang-go")],
        prepare: nothing,
        policy: Policy::Judged,
        compare: &["program/data"],
    }
    .run();
    results.assert_value("failures", "0");
    results.assert_value("children", "780 <nil>");
    results.assert_value("files", "1488");
    results.assert_value("lines", "1920");
    results.assert_value("right", "1440");
}
