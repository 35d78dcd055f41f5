//! `policy explain` of a profile.

use serde_json::{Value, json};

use crate::world::{World, golden};

/// Rules of every kind that overlap.
const RULES: &str = r#"
extends = ["base"]
[vars]
workspace = "@cwd"
[defaults]
exec = "ask"
[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"
[[rule]]
id = "hooks"
access = ["write"]
path = ["**/.git/hooks/**"]
level = "ask"
remember = "10m"
reason = "It runs later."
[[rule]]
id = "releases"
access = ["write"]
path = ["{workspace}/dist/**"]
level = "authenticate"
ask = { group = "deployers" }
remember = "attempt"
[[rule]]
id = "system"
access = ["exec"]
program = ["@path"]
level = "allow"
[[rule]]
id = "shells"
access = ["exec"]
program = ["/usr/bin/env", "/usr/bin/dash"]
argv = ["*", "-c", "**"]
level = "notify"
[[rule]]
id = "registry"
access = ["connect"]
host = ["*.npmjs.org:443"]
level = "allow"
[[rule]]
id = "agent"
access = ["unix"]
socket = ["@ssh_agent"]
level = "ask"
remember = "call"
"#;

fn world() -> World {
    let world = World::new();
    world.own("mine", RULES);
    world
}

#[test]
fn the_rule_what_else_matches_and_what_an_answer_changes_are_told() {
    let world = world();
    let questions: [&[&str]; 13] = [
        &["write", "src/main.rs"],
        &["write", ".git/hooks/pre-commit"],
        &["write", "dist/app.tar"],
        &["write", "/srv/elsewhere"],
        &["write", "../.config/gated/profiles/mine.toml"],
        &["read", "../.ssh/id_ed25519"],
        &["exec", "/usr/bin/env", "-c", "x y"],
        &["exec", "/nonexistent/tool", "--argv", "tool", "--token", "abc"],
        &["exec", "/usr/bin/su", "-i"],
        &["connect", "registry.npmjs.org:443"],
        &["connect", "192.0.2.7:22", "--udp"],
        &["bind", "0.0.0.0:3000"],
        &["unix", "/run/docker.sock"],
    ];
    let said = |words: &&[&str]| {
        let asked = [&["explain", "--profile", "mine"], *words].concat();
        format!("$ gatedctl policy {}\n{}", asked.join(" "), world.said(&asked))
    };
    golden("policy_explain.txt", &questions.iter().map(said).collect::<Vec<_>>().join("\n"));
}

#[test]
fn programs_get_the_same_as_people() {
    let world = world();
    let explained = |words: &[&str]| -> Value {
        let said: Value =
            serde_json::from_str(&world.said(&[&["explain", "--json", "--profile", "mine"], words].concat())).unwrap();
        said[0].clone()
    };
    let hooks = explained(&["write", ".git/hooks/pre-commit"]);
    assert_eq!((&hooks["level"], &hooks["rule"], &hooks["default"]), (&json!("ask"), &json!("hooks"), &json!("ask")));
    assert_eq!(hooks["also"][0]["rule"], "workspace");
    let answer = &hooks["answer"];
    assert_eq!(
        (&answer["changes"], &answer["longest"], &answer["longest_ms"]),
        (&json!("answer"), &json!("session"), &json!(600_000))
    );
    assert_eq!(answer["offers"][0]["width"], "exact");
    assert_eq!(explained(&["write", "src"])["answer"], json!({"changes": "unneeded"}));
    assert_eq!(explained(&["exec", "/usr/bin/su"])["answer"], json!({"changes": "never"}));
    let proof = explained(&["write", "dist/x"]);
    assert_eq!((&proof["answer"]["proof"], &proof["answer"]["group"]), (&json!(true), &json!("deployers")));
}

/// A path that leads through a link is judged by where it leads, also if its end is not there yet.
#[test]
fn what_is_explained_is_what_a_system_call_leads_to() {
    let world = world();
    std::os::unix::fs::symlink("/etc", world.path("home/project/link")).unwrap();
    let said = world.said(&["explain", "--profile", "mine", "write", "link/new/file"]);
    assert!(said.starts_with("write /etc/new/file\n    ask: rule default"), "{said}");
    let wrong = world.run(&["explain", "--profile", "mine", "connect", "*.npmjs.org:443"]);
    assert_eq!(wrong.status, 2, "{wrong:?}");
    let missing = world.run(&["explain", "--profile", "mine", "exec", "nosuchprogram"]);
    assert_eq!(missing.status, 2, "{missing:?}");
}
