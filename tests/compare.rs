//! The comparison with bare runs and other sandboxes, in a short form: that it measures, and that its page says what was
//! measured. Run as root, as the comparison is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn compare(args: &[&str]) -> Output {
    Command::new("/usr/bin/python3")
        .arg("-B")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/compare"))
        .args(args)
        .output()
        .expect("python3 starts: apt-get install python3")
}

fn succeeded(args: &[&str]) -> String {
    let output = compare(args);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {out}{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// With what the reports are written into: the real page, and text of a person's in it.
fn documents() -> (tempfile::TempDir, PathBuf, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let page = directory.path().join("performance.md");
    let real = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md")).expect("the page");
    fs::write(&page, format!("{real}\nwritten by hand, at the end\n")).expect("write the page");
    let place = directory.path().display().to_string();
    (directory, page, place)
}

/// One row as it is kept: each mode's seconds beside bare ones of one second.
fn kept(modes: &[(&str, &[f64])]) -> String {
    let entries = modes.iter().map(|(mode, seconds)| {
        let bare = vec!["1.0"; seconds.len()].join(", ");
        format!(r#""{mode}": {{"seconds": {seconds:?}, "bare": [{bare}], "whole": {seconds:?}, "date": "2030-01-01"}}"#)
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

fn line_of<'a>(page: &'a str, row: &str) -> &'a str {
    page.lines()
        .find(|line| line.starts_with('|') && line.contains(row))
        .unwrap_or_else(|| panic!("no row {row} in:\n{page}"))
}

#[test]
fn workloads_run_bare_and_under_gated_and_reach_the_page() {
    let (_directory, page, place) = documents();
    let binaries = Path::new(env!("CARGO_BIN_EXE_gated-run")).parent().expect("a directory").display().to_string();
    let common = ["--results", &place, "--docs", &place, "--binaries", &binaries];
    let run = ["--only", "start,served,files", "--modes", "bare,gated,scratch", "--rounds", "1"];
    let out = succeeded(&[&run[..], &common].concat());
    assert!(!out.contains("gated: "), "a reason instead of a figure: {out}");
    for (row, modes) in [
        ("start", &["bare", "gated", "scratch"][..]),
        ("served", &["bare", "gated"]),
        ("files", &["bare", "gated", "scratch"]),
    ] {
        let text = fs::read_to_string(Path::new(&place).join(format!("{row}.json"))).expect("figures are kept");
        let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        for mode in modes {
            let seconds = figures[*mode]["seconds"][0].as_f64().unwrap_or_else(|| panic!("{row} under {mode}: {text}"));
            assert!(seconds > 0.0, "{row} under {mode}: {text}");
        }
    }
    succeeded(&[&["--report"][..], &common].concat());
    let page = fs::read_to_string(page).expect("the page");
    assert!(line_of(&page, "3,000 files |").matches('|').count() >= 6, "{page}");
    let chart = fs::read_to_string(Path::new(&place).join("performance.svg")).expect("a chart");
    assert!(chart.starts_with("<svg") && !chart.contains("<script"), "{chart}");
}

#[test]
fn growth_is_measured_and_nothing_of_a_session_is_left() {
    let (_directory, page, place) = documents();
    let binaries = Path::new(env!("CARGO_BIN_EXE_gated-run")).parent().expect("a directory").display().to_string();
    let common = ["--results", &place, "--docs", &place, "--binaries", &binaries];
    succeeded(&[&["--growth", "--only", "sessions", "--rounds", "1", "--most", "2"][..], &common].concat());
    succeeded(&[&["--report"][..], &common].concat());
    let page = fs::read_to_string(page).expect("the page");
    let row = line_of(&page, "| 1 | ");
    assert!(row.ends_with("| 0 |"), "processes are left: {row}");
}

#[test]
fn the_page_judges_medians_of_ratios_and_gives_reasons_instead_of_figures() {
    let (_directory, page, place) = documents();
    let slow = kept(&[("bare", &[1.0, 1.0, 1.0]), ("gated", &[1.0, 1.3, 9.0]), ("sandlock", &[1.1, 1.1, 1.1])]);
    fs::write(Path::new(&place).join("git.json"), slow).expect("write");
    let fast = kept(&[("bare", &[1.0]), ("gated", &[1.4]), ("scratch", &[1.3]), ("sandlock", &[1.5])]);
    let reason = r#", "firejail": {"reason": "it `fell` | down", "date": "2030-01-02"}}"#;
    fs::write(Path::new(&place).join("tar.json"), format!("{}{reason}", fast.strip_suffix('}').expect("an object")))
        .expect("write");
    succeeded(&["--report", "--results", &place, "--docs", &place]);
    let page = fs::read_to_string(page).expect("the page");
    let git = line_of(&page, "`git clone`");
    assert!(git.contains("| 1.30 |") && git.contains("1.2 **FAIL**") && git.ends_with("| **no** |"), "{git}");
    let tar = line_of(&page, "by tar");
    assert!(
        tar.contains("1.5 pass, scratch 1.25 **FAIL**") && tar.contains("| cannot |") && tar.ends_with("| yes |"),
        "{tar}"
    );
    assert!(
        page.contains("* firejail cannot do *extraction of 3,000 files by tar* here: `it 'fell' \\| down`"),
        "{page}"
    );
    assert!(page.contains("2030-01-01 to 2030-01-02") && page.ends_with("written by hand, at the end\n"), "{page}");
}

#[test]
fn a_sandbox_that_is_not_there_is_told_with_what_to_install() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = directory.path().display().to_string();
    let output = compare(&[
        "--only",
        "start",
        "--rounds",
        "1",
        "--modes",
        "bare,gated",
        "--results",
        &place,
        "--binaries",
        &place,
    ]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains(&format!("not compared: gated: no gated-run in {place}: make build")), "{out}");
    assert!(!compare(&["--only", "nonsense"]).status.success());
}
