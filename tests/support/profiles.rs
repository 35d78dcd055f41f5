//! Profiles that tests share.

/// Every change is allowed.
pub const ALLOW_ALL: &str = r#"
schema = 1

[profile]
name = "allow-all"

[defaults]
write = "allow"
"#;

/// The same, and everything that is executed is judged.
pub fn allow_all_judged() -> String {
    format!("{ALLOW_ALL}{EXEC_RULE}")
}

/// Changes in the workspace are allowed, all others are asked for.
pub const WORKSPACE: &str = r#"
schema = 1

[profile]
name = "workspace-only"

[vars]
workspace = "@cwd"

[defaults]
write = "ask"

[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"
"#;

/// As [`WORKSPACE`], with a rule for a program that nobody executes: so everything that is executed is judged. `header` is
/// more of `[profile]`.
pub fn judged(header: &str) -> String {
    let name = "name = \"workspace-only\"";
    format!("{}{EXEC_RULE}", WORKSPACE.replace(name, &format!("name = \"judged\"\n{header}")))
}

const EXEC_RULE: &str = r#"
[[rule]]
id = "privilege"
access = ["exec"]
program = ["@path/sudo", "@path/su"]
level = "deny"
"#;

/// The same, and every program that is executed is recorded.
pub fn recorded() -> String {
    judged("").replace("[defaults]", "[defaults]\nexec = \"notify\"")
}

/// `echo` is asked for, `true` is told, `id` is denied; everything else runs.
pub const ASKS_FOR_ECHO: &str = r#"
schema = 1

[profile]
name = "asks-for-echo"

[vars]
workspace = "@cwd"

[[rule]]
id = "echo"
access = ["exec"]
program = ["@path/echo"]
level = "ask"

[[rule]]
id = "true"
access = ["exec"]
program = ["@path/true"]
level = "notify"

[[rule]]
id = "id"
access = ["exec"]
program = ["@path/id"]
level = "deny"
"#;
