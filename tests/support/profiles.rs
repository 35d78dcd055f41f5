//! Profiles that tests share.

/// Every change is allowed.
pub const ALLOW_ALL: &str = r#"
schema = 1

[profile]
name = "allow-all"

[defaults]
write = "allow"
"#;

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
