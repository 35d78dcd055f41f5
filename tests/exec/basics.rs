//! What runs under a profile that judges programs, and what is recorded of it.

use crate::Test;
use crate::support::{Sandbox, Side};

pub const TESTS: &[Test] = &[("a_shell_runs_its_commands", a_shell_runs_its_commands)];

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
