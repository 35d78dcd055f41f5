//! What runs under a profile that judges programs, and what is recorded of it.

use crate::Test;
use crate::support::{Sandbox, Side};

pub const TESTS: &[Test] = &[
    ("a_shell_runs_its_commands", a_shell_runs_its_commands),
    ("a_no_is_asked_for_once_whatever_directories_PATH_has", a_no_is_asked_for_once),
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
