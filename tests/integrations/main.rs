//! The recipes of `docs/integrations.md`, run as they stand there, with a stand-in for the agent: a script that runs its tool
//! calls through the shell that it is told to use. Needs root, as the daemon does.

#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::served::Served;
use support::{Outcome, Side};

/// The first block of shell commands below this heading.
fn recipe(heading: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/integrations.md")).unwrap();
    let (_, section) = page.split_once(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("no recipe below {heading}")).to_owned()
}

struct Place {
    served: Served,
}

impl Place {
    fn new() -> Place {
        let place = Place { served: Served::new() };
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (from, name) in [("tests/integrations/agent.sh", "agent"), ("scripts/gated-sh", "gated-sh")] {
            let to = place.bin().join(name);
            fs::copy(project.join(from), &to).unwrap();
            fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
        }
        place.served.sandbox.file(
            &place.served.sandbox.workspace().join("Makefile"),
            "test:\n\t@echo tested\n\t@echo x >$(OUTSIDE)/x\n",
        );
        place
    }

    fn bin(&self) -> std::path::PathBuf {
        self.served.sandbox.root().join("bin")
    }

    /// Runs a recipe as the test user, with what is installed in `/usr/local/bin` where it is in this test.
    fn run(&self, heading: &str) -> Outcome {
        let recipe = recipe(heading).replace("/usr/local/bin", self.bin().to_str().unwrap());
        let path = format!("PATH={}:/usr/local/bin:/usr/bin:/bin", self.bin().display());
        let outside = format!("OUTSIDE={}", self.served.sandbox.outside().display());
        let mut line: Vec<OsString> = vec!["env".into(), self.served.address(), path.into(), outside.into()];
        line.extend(["sh", "-ec", &recipe].map(OsString::from));
        self.served.sandbox.start_line(Side::Bare, &line, None).finish()
    }

    fn was_held(&self) -> bool {
        !self.served.sandbox.outside().join("x").exists()
    }
}

fn out(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// What the agent says wherever its calls run; the second number is the lines that `/tmp/mark` has.
#[track_caller]
fn check(place: &Place, outcome: &Outcome) {
    let out = out(outcome);
    for expected in [
        "agent: fix the tests\n",
        "call echo made >made: 0\n",
        "made\ncall cat made: 0\n",
        "call exit 3: 3\n",
        "piped\n",
        "nested\ncall sh -c \"echo nested\": 0\n",
        "from a script with words\nscript: 4\n",
    ] {
        assert!(out.contains(expected), "{expected:?} is not in\n{outcome}");
    }
    assert!(out.contains("call echo outside >\"$OUTSIDE/x\": 2\n"), "{outcome}");
    assert!(place.was_held(), "{outcome}");
    assert_eq!(fs::read_to_string(place.served.sandbox.workspace().join("made")).unwrap(), "made\n");
}

#[test]
fn without_gated_the_agent_does_as_it_likes() {
    let place = Place::new();
    let path = format!("PATH={}:/usr/bin:/bin", place.bin().display());
    let outside = format!("OUTSIDE={}", place.served.sandbox.outside().display());
    let mark = format!("MARK={}", place.served.sandbox.home().join("mark").display());
    let line: Vec<OsString> = vec!["env".into(), path.into(), outside.into(), mark.into(), "agent".into(), "x".into()];
    let outcome = place.served.sandbox.start_line(Side::Bare, &line, None).finish();
    assert!(out(&outcome).contains("$OUTSIDE/x\": 0"), "{outcome}");
    assert!(!place.was_held());
}

#[test]
fn an_agent_runs_whole() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let outcome = place.run("An agent as a whole");
    check(&place, &outcome);
}

#[test]
fn each_tool_call_has_a_session_of_its_own() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let outcome = place.run("Each tool call for itself");
    check(&place, &outcome);
    assert!(out(&outcome).contains("1\ncall echo mark"), "{outcome}");
}

#[test]
fn all_tool_calls_share_a_session() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let outcome = place.run("One session for all tool calls");
    check(&place, &outcome);
    let sessions = place.served.gatedctl(&["--json", "sessions"]);
    assert_eq!(out(&sessions).trim(), "[]", "{sessions}");
}

#[test]
fn a_command_that_is_wrapped_by_its_caller() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let outcome = place.run("A tool call that the agent's program wraps");
    assert!(out(&outcome).contains("first\nsecond, after first\n"), "{outcome}");
}

#[test]
fn a_build_server_asks_nobody_and_keeps_what_happened() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let outcome = place.run("Continuous integration");
    assert!(out(&outcome).contains("tested\n"), "{outcome}");
    assert!(place.was_held(), "{outcome}");
    let events = fs::read_to_string(place.served.sandbox.home().join("gated-events.jsonl")).unwrap();
    assert!(events.contains("\"decision\""), "{events}");
}

#[test]
fn the_wrapper_is_a_shell_for_scripts_input_and_itself() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let shell = place.bin().join("gated-sh");
    let run = |script: &str| {
        let line: Vec<OsString> = vec![
            "env".into(),
            place.served.address(),
            format!("GATED_SHELL={}", shell.display()).into(),
            "sh".into(),
            "-c".into(),
            script.replace("gated-sh", shell.to_str().unwrap()).into(),
        ];
        place.served.sandbox.start_line(Side::Bare, &line, None).finish()
    };
    // A wrapper that is told to run itself runs a shell.
    assert_eq!(out(&run("gated-sh -c 'echo one; gated-sh -c \"echo two\"'")), "one\ntwo\n");
    assert_eq!(out(&run("echo 'echo three; exit 5' | gated-sh; echo $?")), "three\n5\n");
    run("gated-sh -c 'kill -KILL $$'").assert_code(128 + libc::SIGKILL);
    // Without gated nothing runs.
    let alone = place.served.sandbox.outside().join("gated-sh");
    fs::copy(&shell, &alone).unwrap();
    let line: Vec<OsString> =
        vec!["env".into(), "PATH=/usr/bin:/bin".into(), alone.into(), "-c".into(), "echo ran".into()];
    let outcome = place.served.sandbox.start_line(Side::Bare, &line, None).finish();
    assert_eq!((outcome.code(), out(&outcome).as_str()), (127, ""), "{outcome}");
}

/// `$0` is a bare word where a shell was told to read the script by that, and the current directory is a tool's to fill.
#[test]
fn gated_sh_runs_no_gated_run_of_the_current_directory() {
    let place = Place::new();
    let _daemon = place.served.daemon();
    let planted = place.served.sandbox.workspace().join("gated-run");
    place.served.sandbox.file(&planted, "#!/bin/sh\necho planted\n");
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("PATH={}:/usr/local/bin:/usr/bin:/bin", place.bin().display());
    for script in ["bash gated-sh -c 'echo judged'", "gated-sh -c 'echo judged'"] {
        let line =
            ["env".into(), place.served.address(), path.clone().into(), "sh".into(), "-ec".into(), script.into()];
        let outcome = place.served.sandbox.start_line(Side::Bare, &line, None).finish();
        assert_eq!(out(&outcome), "judged\n", "{outcome}");
    }
}
