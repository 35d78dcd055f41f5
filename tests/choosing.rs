//! Which profile `gated-run --embedded` takes where its command line names none, and whose files count.

#[path = "support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use support::{Outcome, Sandbox, Side, user};

/// In the workspace of which nothing can be written, for the program `~/tool`.
const CLOSED: &str = "schema = 1\n[profile]\nname = \"closed\"\nextends = [\"coder\"]\nmatch = { program = [\"~/tool\"] }\n\
                      [[rule]]\nid = \"closed\"\naccess = [\"write\"]\npath = [\"{workspace}/**\"]\nlevel = \"deny\"\n";

/// With a profile of the user's own that matches a program of the user's own.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(&sandbox.home().join(".config/gated/profiles/closed.toml"), CLOSED);
    symlink("/bin/sh", sandbox.home().join("tool")).expect("symlink");
    sandbox
}

/// Runs this without `--profile`, as a person does with sudo.
fn by_sudo(sandbox: &Sandbox, options: &[&str], argv: &[&str]) -> Outcome {
    let mut line = sandbox.gated_argv(argv);
    let at = line.iter().position(|word| word == "--profile").expect("--profile");
    line.splice(at..at + 2, options.iter().map(OsString::from));
    // The records are the caller's own then, who cannot write where the test keeps its files.
    let at = line.iter().position(|word| word == "--events").expect("--events");
    line.drain(at..at + 2);
    let at = line.iter().position(|word| word == "--audit").expect("--audit");
    line[at + 1] = sandbox.home().join("audit.jsonl").into();
    let sudo = [("SUDO_UID", user::UID.to_string()), ("SUDO_GID", user::GID.to_string())];
    let mut words: Vec<OsString> = vec!["env".into(), format!("SUDO_USER={}", user::NAME).into()];
    words.extend(sudo.map(|(name, value)| format!("{name}={value}").into()));
    words.extend(line);
    sandbox.start_line(Side::Gated, &words, None).finish()
}

#[test]
fn a_profile_that_matches_the_program_holds() {
    let sandbox = prepared();
    let tool = sandbox.home().join("tool").display().to_string();
    by_sudo(&sandbox, &[], &["/bin/sh", "-c", "echo x >free"]).assert_code(0);
    let closed = by_sudo(&sandbox, &[], &[&tool, "-c", "echo x >closed"]);
    closed.assert(closed.code() != 0 && closed.code() != 125, "its rule denies");
    assert!(!sandbox.workspace().join("closed").exists());
    by_sudo(&sandbox, &["--profile", "coder"], &[&tool, "-c", "echo x >named"]).assert_code(0);
}

#[test]
fn a_file_of_the_users_that_others_may_write_is_an_error() {
    let sandbox = prepared();
    let file = sandbox.home().join(".config/gated/profiles/closed.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).expect("chmod");
    for options in [&["--profile", "closed"][..], &[]] {
        let outcome = by_sudo(&sandbox, options, &["true"]);
        outcome.assert_code(125);
        outcome.assert(outcome.err().contains("closed.toml"), "the error names it");
    }
}

#[test]
fn where_the_ceiling_lets_nobody_write_profiles_they_do_not_count() {
    let mut sandbox = prepared();
    let gated = sandbox.control().join("run/gated");
    fs::create_dir_all(&gated).expect("mkdir");
    fs::write(gated.join("ceiling.toml"), "schema = 1\n[users]\nmay_write_profiles = false\n").expect("write");
    sandbox.bind(&sandbox.control().join("run"), std::path::Path::new("/run"));
    let tool = sandbox.home().join("tool").display().to_string();
    by_sudo(&sandbox, &[], &[&tool, "-c", "echo x >free"]).assert_code(0);
    let path = sandbox.home().join(".config/gated/profiles/closed.toml").display().to_string();
    for own in ["closed", &path] {
        let outcome = by_sudo(&sandbox, &["--profile", own], &["true"]);
        outcome.assert_code(125);
        outcome.assert(outcome.err().contains("may_write_profiles = false"), "the error says why");
    }
}
