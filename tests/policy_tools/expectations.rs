//! `policy test`.

use crate::world::{World, golden, own, profile};

const EXPECTED: &str = r#"schema = 1
[context]
home = "/home/alice"
cwd = "/home/alice/project"
user = "alice"

[[expect]]
profile = "coder"
access = "write"
object = ".git/hooks/pre-commit"
level = "ask"
rule = "git-runs-this"

[[expect]]
profile = "coder"
access = "read"
object = "~/.ssh/id_ed25519"
level = "ask"

[[expect]]
profile = "coder"
access = "exec"
argv = ["git", "push", "--force"]
level = "authenticate"

[[expect]]
profile = "coder"
access = "connect"
host = "github.com:443"
level = "allow"

[[expect]]
profile = "coder"
access = "connect"
host = "db.example.org:5432"
at = "10.0.0.7"
level = "deny"

[[expect]]
profile = "coder"
access = "bind"
host = "127.0.0.1:3000"
level = "allow"

[[expect]]
profile = "coder"
access = "unix"
socket = "@docker"
level = "deny"

[[expect]]
profile = "mine.toml"
access = "write"
object = "/srv/x"
level = "deny"
"#;

#[test]
fn expectations_are_held_against_profiles() {
    let world = World::new();
    let file = world.put("tests/mine.toml", &profile("mine", "[defaults]\nwrite = \"deny\"\n"));
    let tests = world.put("tests/all.toml", EXPECTED);
    let said = world.said(&["test", tests.to_str().unwrap(), file.to_str().unwrap()]);
    assert_eq!(said, "9 passed, 0 failed.\n");
}

#[test]
fn what_turns_out_otherwise_is_told_with_its_place() {
    let world = World::new();
    let wrong = EXPECTED
        .replacen("level = \"ask\"\nrule", "level = \"allow\"\nrule", 1)
        .replacen("level = \"authenticate\"", "level = \"authenticate\"\nrule = \"push\"", 1)
        .replace("\"mine.toml\"", "\"nobody\"");
    world.put("home/.config/gated/profiles/tests/all.toml", &wrong);
    world.own("bad", "[[rule]]\nid = \"r\"\naccess = [\"write\"]\nlevel = \"ask\"\npath = [\"/a\"]\nexamples = { match = [\"/b\"] }\n");
    let ran = world.run(&["test"]);
    assert_eq!(ran.status, 1);
    golden("policy_test.txt", &own(&ran.out.replace("(built-in:coder)", "(coder)")));
    assert!(ran.out.ends_with(" passed, 4 failed.\n"), "{}", ran.out);
    let broken =
        world.put("broken.toml", "schema = 1\n[[expect]]\nprofile = \"coder\"\naccess = \"exec\"\nlevel = \"deny\"\n");
    let ran = world.run(&["test", broken.to_str().unwrap()]);
    assert_eq!((ran.status, ran.out.as_str()), (1, "{M}/broken.toml:4:10: `exec` needs `argv`\n0 passed, 1 failed.\n"));
}
