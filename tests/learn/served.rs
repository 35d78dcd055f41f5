//! Learning through the daemon: on a terminal, from the audit log, and without the right to.

use std::fs;

use crate::support::Side;
use crate::support::served::Served;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_person_looks_over_each_rule_and_keeps_what_is_wanted() {
    let served = Served::new();
    let _daemon = served.daemon();
    let (home, outside) = (served.sandbox.home(), served.sandbox.outside());
    let script = format!("echo 1 > {0}/first; echo 2 > {0}/second; echo 3 > ~/third; echo done", outside.display());
    let (person, running) = served.on_terminal(&["--learn", "--", "sh", "-c", &script]);
    person.sees("LEARNING: nothing is asked");
    person.sees("done");
    // Sorted by path: ~/third is below home, which is before outside.
    person.sees("+ path = [\"~/third\"]");
    person.sees("keep? [y]es");
    person.types("x\r");
    person.sees("y, n, a, e or q was expected");
    person.sees("[q]uit: ");
    person.types("n\r");
    person.sees("first\"]");
    person.sees("[q]uit: ");
    person.types("y\r");
    person.sees("second\"]");
    person.sees("[q]uit: ");
    person.types("a\r");
    person.sees("Name of the profile [learned-work]: ");
    person.types("mine\r");
    person.sees("1 would go through without a question, 2 would be asked for");
    let file = home.join(".config/gated/profiles/mine.toml");
    assert!(!file.exists());
    person.sees("[n]o: ");
    person.types("y\r");
    person.sees("the profile is in");
    running.finish().assert_code(0);
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("extends = [\"coder\"]") && !written.contains("third"), "{written}");
    assert_eq!(written.matches("level = \"allow\"").count(), 1, "{written}");
    assert_eq!(written.matches("level = \"ask\"").count(), 1, "{written}");
    // It is a profile as any other.
    let again = served.run(&["--profile", "mine", "--", "sh", "-c", &script]);
    assert_eq!(again.stderr.windows(7).filter(|window| window == b"denied:").count(), 2, "{again}");

    // What is there is shown before it is replaced, and stays if nobody wants that.
    let script = format!("echo 1 > {}/other", outside.display());
    let (person, running) = served.on_terminal(&["--learn", "--", "sh", "-c", &script]);
    person.sees("[q]uit: ");
    person.types("y\r");
    person.sees("Name of the profile");
    person.types("mine\r");
    person.sees("This would change it:");
    person.sees("+path");
    person.sees("[n]o: ");
    person.types("n\r");
    person.sees("nothing is written");
    running.finish();
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
}

#[test]
fn who_quits_writes_nothing_and_an_edited_rule_is_what_is_written() {
    let served = Served::new();
    let _daemon = served.daemon();
    let script = format!("echo 1 > {}/first", served.sandbox.outside().display());
    let (person, running) = served.on_terminal(&["--learn", "--", "sh", "-c", &script]);
    person.sees("[q]uit: ");
    person.types("q\r");
    person.sees("nothing is written");
    running.finish().assert_code(0);
    assert!(!served.sandbox.home().join(".config/gated").exists());

    let mut line = vec!["sh".into(), "-c".into(), "exec \"$@\" >&0 2>&0".into(), "sh".into()];
    line.extend(served.line(&["--learn", "--", "sh", "-c", &script]));
    line.insert(5, "VISUAL=sed -i s/first/edited/".into());
    let (person, slave) = crate::support::terminal::Person::new();
    let running = served.sandbox.start_line(Side::Bare, &line, Some(slave));
    person.sees("[q]uit: ");
    person.types("e\r");
    person.sees("edited\"]");
    person.sees("[q]uit: ");
    person.types("y\r");
    person.sees("]: ");
    person.types("\r");
    person.sees("[n]o: ");
    person.types("y\r");
    person.sees("the profile is in");
    running.finish();
    let file = served.sandbox.home().join(".config/gated/profiles/learned-work.toml");
    assert!(fs::read_to_string(file).unwrap().contains("/edited\"]"));
}

#[test]
fn without_a_terminal_the_proposal_is_told_and_the_audit_log_gives_the_same() {
    let served = Served::new();
    let _daemon = served.daemon();
    let script = "mkdir -p ~/.tool && for n in 1 2 3 4; do echo $n > ~/.tool/$n; done; echo $GATED_SESSION";
    let outcome = served.run(&["--learn", "--", "sh", "-c", script]);
    let session = text(&outcome.stdout).trim().to_owned();
    assert!(text(&outcome.stderr).contains("path = [\"~/.tool/**\"]"), "{outcome}");
    outcome.assert_code(0);
    let log = served.sandbox.control().join("records/audit.jsonl");
    let learned = served
        .sandbox
        .start_line(
            Side::Gated,
            &[
                env!("CARGO_BIN_EXE_gatedctl").into(),
                "policy".into(),
                "learn".into(),
                "--session".into(),
                session.into(),
                "--directory".into(),
                served.sandbox.workspace().into(),
                "--file".into(),
                log.into(),
            ],
            None,
        )
        .finish();
    let proposed = text(&learned.stdout);
    let told = text(&outcome.stderr);
    assert!(told.contains(proposed.trim()), "{learned}\n{outcome}");
    assert!(text(&learned.stderr).contains("1 rules are proposed: of what was seen, 5 would go through"), "{learned}");
}

#[test]
fn a_session_for_others_learns_too_and_a_command_inside_cannot_ask_for_it() {
    let served = Served::new();
    let _daemon = served.daemon();
    let opened = served.run(&["--new-session", "--learn"]);
    let session = text(&opened.stdout).trim().to_owned();
    let target = served.sandbox.outside().join("x");
    served.run(&["--session", &session, "sh", "-c", &format!("echo 1 > {}", target.display())]).assert_code(0);
    assert!(target.exists());
    let inner = served.run(&["sh", "-c", &format!("{} --learn -- true", served.program().display())]);
    assert!(text(&inner.stderr).contains("--learn is not for a command inside a session"), "{inner}");
}

#[test]
fn the_ceiling_holds_while_learning_and_may_forbid_it() {
    let served = Served::new();
    let (shut, asked) = (served.sandbox.outside().join("shut"), served.sandbox.outside().join("asked"));
    served.sandbox.dir(&shut);
    served.sandbox.dir(&asked);
    let ceiling = served.sandbox.control().join("policy/etc/gated/ceiling.toml");
    let floor = |path: &std::path::Path, level: &str| {
        format!("[[floor]]\naccess = [\"write\"]\npath = [\"{}/**\"]\nlevel = \"{level}\"\n", path.display())
    };
    fs::write(&ceiling, format!("schema = 1\n{}{}", floor(&shut, "deny"), floor(&asked, "ask"))).unwrap();
    let daemon = served.daemon();
    let script = format!(
        "echo x > {}/x; echo x > {}/x; echo x > {}/x",
        shut.display(),
        asked.display(),
        served.sandbox.outside().display()
    );
    let outcome = served.run(&["--learn", "--", "sh", "-c", &script]);
    assert!(!shut.join("x").exists() && !asked.join("x").exists(), "{outcome}");
    assert!(served.sandbox.outside().join("x").exists(), "{outcome}");
    assert_eq!(text(&outcome.stderr).matches("Denied while it was learned").count(), 2, "{outcome}");
    drop(daemon);
    fs::write(&ceiling, "schema = 1\n[users]\nmay_write_profiles = false\n").unwrap();
    let _daemon = served.daemon();
    let refused = served.run(&["--learn", "--", "true"]);
    assert!(text(&refused.stderr).contains("may_write_profiles = false"), "{refused}");
    refused.assert_code(125);
}
