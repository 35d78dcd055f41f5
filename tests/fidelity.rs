//! The short form of `make fidelity`: some of CPython's own tests, bare and inside, with every program judged.
//!
//! As root: the harness, scripts/fidelity/, starts real sessions of an ordinary user.

use std::path::Path;
use std::process::Command;

#[test]
fn cpythons_tests_of_files_come_to_the_same_inside() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("/usr/bin/python3")
        .arg(root.join("scripts/fidelity/fidelity.py"))
        .args(["--short", "--profile", "judged", "--afresh", "--gated-run", env!("CARGO_BIN_EXE_gated-run"), "--cache"])
        .arg(root.join("target/fidelity-short"))
        .arg("cpython")
        .output()
        .expect("python3: apt-get install python3 (make test does it)");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{errors}");
    // Two sides that run nothing would be equal too.
    let row = out.lines().find(|line| line.starts_with("| cpython | judged |")).expect("the table");
    let passed = row.split('|').nth(5).and_then(|both| both.split(',').nth(1)).map(str::trim);
    let passed: u32 = passed.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count: {row}"));
    assert!(passed > 900, "{passed} tests passed inside: {out}");
}
