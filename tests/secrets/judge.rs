//! Profiles, answers and sandboxes of these tests.

use std::os::unix::fs::symlink;

use crate::support::Sandbox;

/// What every secret of these tests contains.
pub const SECRET: &str = "the-secret-itself";

const HEAD: &str = r#"
schema = 1

[profile]
name = "secrets"

[vars]
workspace = "@cwd"

[defaults]
write = "ask"

[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**", "~/.netrc", "~/.ssh/**", "~/.aws/**", "~/plain/**", "~/.netrc.new"]
level = "allow"
"#;

/// `~/.ssh`, `~/.netrc`, `~/.aws` and `.env` anywhere are asked for, but for `~/.ssh/known_hosts`.
pub const ASKS: &str = r#"
[[rule]]
id = "secrets"
access = ["read"]
path = ["~/.ssh/**", "~/.netrc", "~/.aws/**", "~/linked/**", "**/.env", "**/.env.*"]
except = ["~/.ssh/known_hosts", "~/.ssh/public/**", "**/.env.example"]
level = "ask"
remember = "session"
"#;

/// A profile of these rules.
pub fn profile(rules: &str) -> String {
    format!("{HEAD}{rules}")
}

/// The user's home with secrets in it, and a profile of these rules.
pub fn sandbox(rules: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.profile(&profile(rules));
    let secret = format!("{SECRET}\n");
    for name in [".ssh/id", ".ssh/deep/er/id", ".netrc", "work/.env", "work/web/.env.local"] {
        sandbox.file(&sandbox.home().join(name), &secret);
    }
    for name in [".ssh/known_hosts", ".ssh/public/key", "work/free", "plain/file", "work/.env.example"] {
        sandbox.file(&sandbox.home().join(name), "public\n");
    }
    sandbox
}

/// Says this to every read.
pub fn answering(sandbox: &mut Sandbox, answer: &str) {
    sandbox.answers(&format!("[[answer]]\naccess = \"read\"\nobject = \"/**\"\nanswer = \"{answer}\"\n"));
}

/// Links and further mounts that lead to secrets.
pub fn with_odd_places(sandbox: &mut Sandbox) {
    let home = sandbox.home();
    for name in ["elsewhere/key", "elsewhere2/key"] {
        sandbox.file(&home.join(name), &format!("{SECRET}\n"));
    }
    symlink(home.join("elsewhere"), home.join("linked")).expect("a link");
    symlink(home.join("elsewhere2/key"), home.join(".ssh/link")).expect("a link");
    sandbox.bind(&home.join(".ssh"), &home.join("alias"));
    sandbox.bind(&home, &home.join("around"));
    sandbox.bind(&home.join(".ssh/deep"), &home.join("below"));
}

/// Says yes to every change and no to every read.
pub fn answering_reads_with_no(sandbox: &mut Sandbox) {
    sandbox.answers(
        "[[answer]]\naccess = \"read\"\nobject = \"/**\"\nanswer = \"deny\"\n\n[[answer]]\naccess = \"write\"\nobject = \"/**\"\nanswer = \"once\"\n",
    );
}
