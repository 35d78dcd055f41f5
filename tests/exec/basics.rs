//! What runs under a profile that judges programs, and what is recorded of it.

use crate::Test;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::terminal::Person;
use crate::support::{Sandbox, Side, until};

pub const TESTS: &[Test] = &[
    ("a_shell_runs_its_commands", a_shell_runs_its_commands),
    ("in_a_session_of_roots_what_it_makes_is_not_the_systems", a_session_of_roots),
    ("a_yes_is_for_the_file_as_it_was_when_it_was_asked_for", changed_while_it_is_asked_for),
    ("a_no_is_asked_for_once_whatever_directories_PATH_has", a_no_is_asked_for_once),
    ("a_program_may_run_where_what_executed_it_might", a_program_runs_on_the_same_processors),
];

/// Programs are asked for.
const ASK: &str = r#"
schema = 1

[profile]
name = "asked"

[defaults]
exec = "ask"
"#;

/// Every program is judged, allowed and recorded.
pub const NOTIFY: &str = r#"
schema = 1

[profile]
name = "notified"

[defaults]
write = "allow"
exec = "notify"
"#;

/// Every program is judged, allowed, and nothing is recorded of it.
pub const NOTIFY_NOTHING: &str = r#"
schema = 1

[profile]
name = "judged"

[defaults]
write = "allow"
exec = "allow"

[[rule]]
id = "nowhere"
access = ["exec"]
program = ["/nowhere/**"]
level = "deny"
"#;

fn a_shell_runs_its_commands() {
    let sandbox = Sandbox::new();
    sandbox.profile(NOTIFY);
    let outcome = sandbox
        .on(Side::Gated, &["/bin/sh", "-c", "/bin/true; /bin/echo hello; (/bin/true); /bin/false || /bin/echo over"]);
    outcome.assert_code(0);
    outcome.assert(outcome.out() == "hello\nover\n", "what the commands print");
}

/// Executed by the first thread, by another one (whose id it was is gone then), and after an exec that failed.
fn a_program_runs_on_the_same_processors() {
    const EXECUTE: &str = "import os, sys, threading\n\
        many = len(os.sched_getaffinity(0))\n\
        if many < 2: sys.exit('two processors are needed')\n\
        def execute():\n\
        \x20   try: os.execve('/usr/bin/true', ['true'], {'LONG': 'x' * 200_000})\n\
        \x20   except OSError as error: print(error.strerror, len(os.sched_getaffinity(0)) == many, flush=True)\n\
        \x20   os.execv('/usr/bin/python3', ['python3', '-c', f'import os; print(len(os.sched_getaffinity(0)) == {many})'])\n\
        if sys.argv[1] == 'first': execute()\n\
        threading.Thread(target=execute).start()\n";
    let sandbox = Sandbox::new();
    sandbox.profile(NOTIFY);
    for thread in ["first", "other"] {
        for side in [Side::Bare, Side::Gated] {
            let outcome = sandbox.on(side, &["/usr/bin/python3", "-c", EXECUTE, thread]);
            outcome.assert(outcome.out() == "Argument list too long True\nTrue\n", "all processors");
        }
    }
}

/// A shell that is refused a program looks for it in the next directory of `PATH`; here each leads to the same file.
fn a_no_is_asked_for_once() {
    let mut sandbox = Sandbox::new();
    sandbox.profile(ASK);
    sandbox.answers(
        "[[answer]]\nobject = \"/usr/bin/id\"\nanswer = \"deny\"\n[[answer]]\naccess = \"exec\"\nanswer = \"session\"\n",
    );
    std::os::unix::fs::symlink("/usr/bin", sandbox.workspace().join("first")).unwrap();
    std::os::unix::fs::symlink("/usr/bin", sandbox.workspace().join("second")).unwrap();
    let workspace = sandbox.workspace();
    let path = format!("PATH={0}/first:{0}/second:/usr/bin", workspace.display());
    let outcome = sandbox.on(Side::Gated, &["/usr/bin/env", &path, "/usr/bin/dash", "-c", "id; id; true"]);
    outcome.assert_code(0);
    let asked = outcome.events_of("consent_required").filter(|event| event["object"] == "/usr/bin/id").count();
    outcome.assert(asked == 2, "each id is another process, and is asked for once");
}

fn a_session_of_roots() {
    let sandbox = Sandbox::new();
    sandbox.profile(
        "schema = 1\n[profile]\nname = \"root\"\n[vars]\nworkspace = \"@cwd\"\n[defaults]\nexec = \"ask\"\nwrite = \"ask\"\n\
         [[rule]]\nid = \"workspace\"\naccess = [\"write\"]\npath = [\"{workspace}/**\"]\nlevel = \"allow\"\n\
         [[rule]]\nid = \"system\"\naccess = [\"exec\"]\nprogram = [\"@path\"]\nlevel = \"allow\"\n",
    );
    // All directories above are root's alone.
    let workspace = tempfile::Builder::new().prefix("gated-").tempdir_in("/opt").expect("a directory of root's");
    fs::set_permissions(workspace.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let script = "cp /usr/bin/echo own; /usr/bin/echo system; ./own made";
    let mut line: Vec<OsString> = vec!["/usr/bin/env".into(), "-C".into(), workspace.path().into()];
    let gated = sandbox.gated_argv(&["/usr/bin/dash", "-c", script]);
    let user = gated.iter().position(|word| word == "--user").expect("a user");
    line.extend(
        gated.iter().enumerate().filter(|(at, _)| *at != user && *at != user + 1).map(|(_, word)| word.clone()),
    );
    let outcome = sandbox.start_line(Side::Gated, &line, None).finish();
    outcome.assert(outcome.out() == "system\n", "the system's programs run, and no others");
}

fn changed_while_it_is_asked_for() {
    let mut sandbox = Sandbox::new();
    sandbox.profile(ASK);
    sandbox.consent("tty");
    let program = sandbox.workspace().join("deploy");
    fs::copy("/usr/bin/true", &program).expect("copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    let (person, terminal) = Person::new();
    let mut line: Vec<OsString> = ["sh", "-c", "exec \"$@\" >&0 2>&0", "sh"].map(OsString::from).to_vec();
    line.extend(sandbox.gated_argv(&["./deploy"]));
    let running = sandbox.start_line(Side::Gated, &line, Some(terminal));
    person.sees("] > ");
    fs::copy("/usr/bin/false", &program).expect("copy");
    person.types("o");
    person.sees("> o");
    person.types("\r");
    let asked = || running.events_so_far().iter().filter(|event| event["event"] == "consent_required").count();
    person.sees("] > ");
    until("it is asked for again", || (asked() == 2).then_some(()));
    person.types("d\r");
    let outcome = running.finish();
    outcome.assert(outcome.code() == 126, "it does not run");
}
