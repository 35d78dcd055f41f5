//! `policy diff`: verdicts are compared, not texts.

use serde_json::Value;

use crate::world::{World, golden, profile};

const OLD: &str = r#"
extends = ["base"]
[vars]
workspace = "@cwd"
[env]
deny = ["*_TOKEN"]
[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"
[[rule]]
id = "env-files"
access = ["write"]
path = ["**/.env"]
level = "ask"
remember = "call"
[[rule]]
id = "system"
access = ["write"]
path = ["/etc/**"]
except = ["/etc/motd"]
level = "ask"
[[rule]]
id = "git"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**"]
level = "ask"
[[rule]]
id = "registry"
access = ["connect"]
host = ["registry.npmjs.org:443"]
level = "allow"
"#;

fn lines(world: &World, old: &str, new: &str) -> Vec<String> {
    world.own("old", old);
    let path = world.put("new.toml", &profile("old", new));
    let ran = world.run(&["diff", "old", "--installed", path.to_str().unwrap()]);
    assert_eq!((ran.status, ran.err.as_str()), (i32::from(ran.out != "No difference.\n"), ""), "{ran:?}");
    ran.out.lines().map(str::to_owned).collect()
}

/// The lines without where rules stand.
fn changed(from: &str, to: &str) -> Vec<String> {
    assert!(OLD.contains(from), "{from}");
    let lines = lines(&World::new(), OLD, &OLD.replacen(from, to, 1));
    let bare = |line: String| {
        let mut bare = String::new();
        for piece in line.replace("{M}/home/", "~/").split(", ") {
            let kept =
                if piece.contains(".toml:") { piece.split_once(')').map_or("", |(_, rest)| rest) } else { piece };
            bare += if piece.contains(".toml:") {
                ")"
            } else if bare.is_empty() {
                ""
            } else {
                ", "
            };
            bare += kept;
        }
        bare
    };
    lines.into_iter().map(bare).collect()
}

#[test]
fn every_kind_of_change_is_said_in_words() {
    let new = r#"
extends = ["base"]
match = { program = ["/usr/bin/codex"] }
debug = true
[vars]
workspace = "@cwd"
[defaults]
unix = "deny"
[scratch]
path = ["{workspace}/target/**"]
[dbus]
session = ["org.example.Name"]
[prompt]
timeout = "5m"
[grants]
persistent = true
[[rule]]
id = "workspace"
access = ["write"]
path = ["{workspace}/**"]
level = "allow"
[[rule]]
id = "system"
access = ["write"]
path = ["/etc/**"]
level = "allow"
[[rule]]
id = "git"
access = ["exec"]
program = ["@path/git"]
argv = ["git", ["push", "fetch"], "**"]
level = "authenticate"
[[rule]]
id = "registry"
access = ["connect"]
host = ["*.npmjs.org:443"]
level = "allow"
[[rule]]
id = "unused"
access = ["read"]
path = ["/srv/**"]
level = "allow"
"#;
    let world = World::new();
    golden("policy_diff.txt", &(lines(&world, OLD, new).join("\n") + "\n"));
    let path = world.put("new.toml", &profile("old", new));
    let ran = world.run(&["diff", "old", path.to_str().unwrap(), "--json"]);
    let found: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(ran.status, 1);
    let wider: Vec<&Value> = found.iter().filter(|one| one["direction"] == "wider").collect();
    assert!(
        wider.iter().any(|one| one["what"] == "scratch") && wider.iter().any(|one| one["what"] == "write"),
        "{found:#?}"
    );
}

#[test]
fn what_decides_alike_is_no_difference_however_it_is_written() {
    let world = World::new();
    assert_eq!(lines(&world, OLD, OLD), ["No difference."]);
    // Order means nothing, nor does a rule that allows what is allowed.
    assert_eq!(lines(&world, OLD, &OLD.replace("# ", "")), ["No difference."]);
    let more = format!(
        "{OLD}[[rule]]\nid = \"more\"\naccess = [\"write\"]\npath = [\"{{workspace}}/a\"]\nlevel = \"allow\"\n"
    );
    assert_eq!(lines(&world, OLD, &more), ["changed   rule more: is new, and decides nothing otherwise than it was"]);
}

/// A rule on names at any depth that goes widens the trees that another rule allows, and nothing else.
#[test]
fn a_rule_that_held_back_another_is_missed_where_it_did() {
    let gone = changed("path = [\"**/.env\"]", "path = [\"/nowhere/.env\"]");
    let allowed: Vec<&String> = gone.iter().filter(|line| line.contains("is allow")).collect();
    let only = "WIDER     write ~/project/**/.env: was ask (rule env-files), is allow (rule workspace)";
    assert_eq!(allowed, [only], "{gone:#?}");
}

#[test]
fn holes_are_compared() {
    let closed = changed("except = [\"/etc/motd\"]\nlevel = \"ask\"", "level = \"deny\"");
    assert!(closed.iter().any(|line| line.starts_with("NARROWER  write /etc/**")), "{closed:#?}");
    assert!(closed.iter().any(|line| line.starts_with("NARROWER  write") && line.contains("/etc/motd")), "{closed:#?}");
}

#[test]
fn a_longer_answer_is_wider() {
    let longer = changed("remember = \"call\"", "remember = \"10m\"");
    assert_eq!(longer.len(), 1, "{longer:#?}");
    assert!(longer[0].starts_with("WIDER     write **/.env"), "{longer:#?}");
    assert!(longer[0].contains("with an answer for the session, 10m at the most"), "{longer:#?}");
}
