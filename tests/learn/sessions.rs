//! Real sessions that learn.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Outcome, Sandbox};

/// A build as people have them: make and python, with a cache at home, an output elsewhere, a server that it asks, and a
/// secret that it has no business with.
const MAKEFILE: &str = "\
all: out/one out/two out/three\n\
out/%:\n\
\tmkdir -p out && python3 build.py $* > $@\n";

fn build_script(sandbox: &Sandbox, port: u16) -> String {
    format!(
        "import os, socket, sys\n\
         name = sys.argv[1]\n\
         cache = os.path.expanduser('~/.cache/builder')\n\
         os.makedirs(cache, exist_ok=True)\n\
         open(cache + '/' + name, 'w').write(name)\n\
         os.makedirs('{0}/dist/' + name, exist_ok=True)\n\
         open('{0}/dist/' + name + '/result', 'w').write(name)\n\
         socket.create_connection(('127.0.0.1', {port})).close()\n\
         print(len(open(os.path.expanduser('~/.ssh/id_ed25519')).read()))\n",
        sandbox.outside().display()
    )
}

/// A server of the host's that takes whatever comes.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let _gone = (&client).read(&mut [0; 1]);
        }
    });
    port
}

fn project() -> (Sandbox, u16) {
    let mut sandbox = Sandbox::new();
    sandbox.profile_named("coder");
    let port = server();
    sandbox.file(&sandbox.workspace().join("Makefile"), MAKEFILE);
    sandbox.file(&sandbox.workspace().join("build.py"), &build_script(&sandbox, port));
    sandbox.file(&sandbox.home().join(".ssh/id_ed25519"), "secret");
    sandbox.file(&sandbox.home().join(".cache/there"), "");
    (sandbox, port)
}

fn proposal(sandbox: &Sandbox) -> PathBuf {
    sandbox.control().join("learned.toml")
}

/// Learns from a command, and gives the proposal's text.
fn learn(sandbox: &mut Sandbox, command: &[&str]) -> (Outcome, String) {
    let to = proposal(sandbox);
    sandbox.option("--learn");
    sandbox.option("--learn-to");
    sandbox.option(to.to_str().unwrap());
    let outcome = sandbox.run(command);
    let text = fs::read_to_string(&to).unwrap_or_default();
    (outcome, text)
}

/// Under what was learned; nobody says yes.
fn under(sandbox: &Sandbox, port: u16, command: &[&str]) -> Outcome {
    let mut again = Sandbox::new();
    again.profile_named(proposal(sandbox).to_str().unwrap());
    again.answers("[[answer]]\nobject = \"**/id_ed25519\"\nanswer = \"once\"\n");
    again.file(&again.workspace().join("Makefile"), MAKEFILE);
    again.file(&again.workspace().join("build.py"), &build_script(sandbox, port));
    again.file(&again.home().join(".ssh/id_ed25519"), "secret");
    again.file(&again.home().join(".cache/there"), "");
    again.run(command)
}

fn audit(sandbox: &Sandbox) -> Vec<Value> {
    let log = fs::read_to_string(sandbox.audit_file()).unwrap();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_learned_build_needs_no_question_afterwards_and_its_secrets_still_do() {
    let (mut sandbox, port) = project();
    let (outcome, text) = learn(&mut sandbox, &["make"]);
    outcome.assert_code(0);
    let told = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert!(told.contains("LEARNING: nothing is asked"), "{outcome}");
    assert_eq!(outcome.events_of("consent_required").count(), 0, "{outcome}");
    assert_eq!(fs::read(sandbox.workspace().join("out/two")).unwrap(), b"6\n");
    let log = audit(&sandbox);
    let would: Vec<&str> = log.iter().filter_map(|line| line["would"].as_str()).collect();
    assert!(!would.is_empty() && would.iter().all(|level| *level == "ask"), "{log:#?}");
    // Nothing that coder allows anyway is there, as what was written in the workspace.
    let workspace = sandbox.workspace();
    let is_inside = |line: &&Value| line["object"].as_str().unwrap().starts_with(workspace.to_str().unwrap());
    assert_eq!(log.iter().filter(|line| line["access"] == "write").filter(is_inside).count(), 0, "{log:#?}");

    assert!(
        text.contains("path = [\"~/.cache/builder/**\"]") || text.contains("path = [\"~/.cache/builder/*\"]"),
        "{text}"
    );
    assert!(text.contains(&format!("host = [\"127.0.0.1:{port}\"]")), "{text}");
    let secret = rule_with(&text, "id_ed25519");
    assert!(
        secret.contains("level = \"ask\"") && secret.contains("Still asked, as rule secrets of coder says"),
        "{text}"
    );
    assert!(!text.contains("\"~/.ssh/**\"") && !text.contains("\"~/**\"") && !text.contains("\"~/.ssh/*\""), "{text}");

    let again = under(&sandbox, port, &["make"]);
    again.assert_code(0);
    let asked: Vec<String> =
        again.events_of("consent_required").map(|event| event["object"].as_str().unwrap().to_owned()).collect();
    assert!(!asked.is_empty() && asked.iter().all(|object| object.ends_with("/.ssh/id_ed25519")), "{asked:?}\n{again}");
    assert_eq!(again.events_of("denied").count(), 0, "{again}");

    let other = under(&sandbox, port, &["sh", "-c", "echo x > ~/.cache/other; echo x > ~/.bashrc; true"]);
    let denied: Vec<String> =
        other.events_of("consent_decided").map(|event| event["object"].as_str().unwrap().to_owned()).collect();
    assert_eq!(denied.len(), 2, "{other}");
}

/// The rule in which this stands, with its comments.
fn rule_with(text: &str, what: &str) -> String {
    text.split("\n\n").find(|part| part.contains("[[rule]]") && part.contains(what)).unwrap_or_default().to_owned()
}

#[test]
fn what_no_profile_can_open_stays_shut_while_learning() {
    let mut sandbox = Sandbox::new();
    sandbox.profile_named("coder");
    let own = sandbox.home().join(".config/gated/profiles/evil.toml");
    sandbox.dir(own.parent().unwrap());
    let script = format!("echo no > {}; echo $?; echo yes > {}/x", own.display(), sandbox.outside().display());
    let (outcome, text) = learn(&mut sandbox, &["sh", "-c", &script]);
    outcome.assert_code(0);
    assert!(!own.exists(), "{outcome}");
    assert_eq!(fs::read_to_string(sandbox.outside().join("x")).unwrap(), "yes\n");
    assert!(text.contains("Denied while it was learned, by built-in:gated-files"), "{text}");
    assert!(!rule_with(&text, "evil").contains("[[rule]]"), "{text}");
}

#[test]
fn what_a_rule_denies_is_proposed_as_a_comment() {
    let mut sandbox = Sandbox::new();
    let shut = sandbox.outside().join("shut");
    sandbox.dir(&shut);
    sandbox.profile(&format!(
        "{}\n[[rule]]\nid = \"shut\"\naccess = [\"write\"]\npath = [\"{}/**\"]\nlevel = \"deny\"\n",
        crate::support::profiles::WORKSPACE,
        shut.display()
    ));
    let script = format!("echo yes > {0}/a && echo yes > {1}/b", shut.display(), sandbox.outside().display());
    let (outcome, text) = learn(&mut sandbox, &["sh", "-c", &script]);
    outcome.assert_code(0);
    assert!(shut.join("a").exists());
    let denied = rule_with(&text, "shut/a");
    assert!(denied.contains("# [[rule]]") && denied.contains("# level = \"ask\""), "{text}");
    assert!(denied.contains("Rule shut of workspace-only denies it"), "{text}");
    // The profile was a file that no name leads to: its rules are there, too, and so the proposal is whole.
    assert!(text.starts_with(crate::support::profiles::WORKSPACE.trim_end()), "{text}");
    sandbox.file(&sandbox.home().join("x"), "");
    let mut again = Sandbox::new();
    again.profile_named(proposal(&sandbox).to_str().unwrap());
    let script = format!("echo again > {0}/b; echo no > {1}/a", sandbox.outside().display(), shut.display());
    again.run(&["sh", "-c", &script]);
    assert_eq!(fs::read_to_string(sandbox.outside().join("b")).unwrap(), "again\n");
    assert_eq!(fs::read_to_string(shut.join("a")).unwrap(), "yes\n");
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let mut sandbox = Sandbox::new();
    let to = proposal(&sandbox);
    fs::write(&to, "mine").unwrap();
    let script = format!("echo x > {}/x", sandbox.outside().display());
    let (outcome, text) = learn(&mut sandbox, &["sh", "-c", &script]);
    assert_eq!(text, "mine");
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("is there already"), "{outcome}");
}
