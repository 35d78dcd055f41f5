//! The short form of `make fidelity`: some of CPython's own tests, bare and inside, with every program judged.
//!
//! As root: the harness, scripts/fidelity/, starts real sessions of an ordinary user.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What the harness says of CPython's tests of files: its row of the table, and all of it.
fn short_form(gated_run: &Path, option: &str) -> (String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("/usr/bin/python3")
        .arg(root.join("scripts/fidelity/fidelity.py"))
        .args(["--short", "--profile", "judged", option, "--gated-run"])
        .arg(gated_run)
        .arg("--cache")
        .arg(root.join("target/fidelity-short"))
        .arg("cpython")
        .output()
        .expect("python3: apt-get install python3 (make test does it)");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{errors}");
    let row = out.lines().find(|line| line.starts_with("| cpython | judged |")).expect("the table");
    (row.to_owned(), out.to_string())
}

#[test]
fn cpythons_tests_of_files_come_to_the_same_inside_and_are_kept_for_these_binaries() {
    let gated_run = Path::new(env!("CARGO_BIN_EXE_gated-run"));
    let (row, out) = short_form(gated_run, "--afresh");
    // Two sides that run nothing would be equal too.
    let passed = row.split('|').nth(5).and_then(|both| both.split(',').nth(1)).map(str::trim);
    let passed: u32 = passed.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count: {row}"));
    assert!(passed > 900, "{passed} tests passed inside: {out}");

    // The next run finds what this one kept, and a run of other binaries does not.
    assert_eq!(short_form(gated_run, "--report").0, row);
    let others = tempfile::tempdir().unwrap();
    for name in ["gated-run", "gated-session"] {
        fs::write(others.path().join(name), name).unwrap();
    }
    let (row, out) = short_form(&others.path().join("gated-run"), "--report");
    assert!(row.starts_with("| cpython | judged | 0 of 5 | 0 |"), "{out}");
}
