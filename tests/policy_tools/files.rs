//! `policy list` and `policy cat`.

use std::os::unix::fs::symlink;

use crate::world::{World, golden, own, profile};

fn layered() -> World {
    let world = World::new();
    world.put("etc/gated/profiles/team.toml", &profile("team", "description = \"Ours\"\nextends = [\"coder\"]\n"));
    world.put("usr/lib/gated/profiles/team.toml", &profile("team", "description = \"Theirs\"\n"));
    world.put("etc/gated/profiles/strict.toml", "");
    world.put("usr/lib/gated/profiles/broken.toml", "schema = 1\n[profile\n");
    world.put("etc/gated/profiles/README", "no profile");
    symlink("/dev/null", world.path("usr/lib/gated/profiles/gone.toml")).unwrap();
    world.own("gone", "");
    world.own("team", "");
    world
        .own("mine", "extends = [\"team\"]\nmatch = { program = [\"/usr/bin/codex\", \"/opt/*\"], user = [\"ci\"] }\n");
    world
}

#[test]
fn every_file_is_listed_with_what_becomes_of_it() {
    let world = layered();
    let listed = world.policy(&["list"]).env("COLUMNS", "140").output().unwrap();
    golden("policy_list.txt", &own(&world.ran(listed).out));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&world.said(&["list", "--json"])).unwrap();
    let state = |name: &str| -> Vec<String> {
        rows.iter().filter(|row| row["name"] == name).map(|row| row["state"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(state("team"), ["in-force", "hidden", "hidden"]);
    assert_eq!(state("gone"), ["masks", "masked"]);
    assert_eq!(state("strict"), ["masks", "masked"]);
    assert_eq!(state("broken"), ["broken"]);
}

#[test]
fn a_profile_is_shown_with_the_files_that_it_comes_from() {
    let world = layered();
    world.put("usr/lib/gated/profiles/coder.toml", &profile("coder", "description = \"\u{9b}31m short\"\n"));
    golden("policy_cat.txt", &world.said(&["cat", "mine"]));
    let masked = world.run(&["cat", "gone"]);
    assert_eq!((masked.status, masked.out.as_str()), (6, ""), "{masked:?}");
    assert!(masked.err.contains("is masked: /usr/lib/gated/profiles/gone.toml"), "{masked:?}");
}

#[test]
fn the_merged_profile_decides_as_its_files_do() {
    let world = World::new();
    for name in ["base", "coder", "strict"] {
        let written = world.policy(&["cat", name, "--merged"]).output().unwrap().stdout;
        let merged = world.put("merged.toml", &String::from_utf8(written).unwrap());
        let merged = merged.to_str().unwrap();
        let same = world.run(&["diff", name, merged]);
        assert_eq!((same.status, same.out.as_str()), (0, "No difference.\n"), "{name}: {same:?}");
    }
    world.own("odd", ODD);
    golden("policy_cat_merged.txt", &world.said(&["cat", "odd", "--merged"]));
}

const ODD: &str = r#"
description = "Everything that a rule can have \\ \"quoted\""
debug = true
match = { program = ["~/bin/x"], unit = ["x@*.service"], user = ["ci"] }
[vars]
workspace = "@cwd"
[defaults]
exec = "ask"
[scratch]
path = ["{workspace}/target/**"]
[env]
deny = ["*_TOKEN"]
[dbus]
session = ["org.example.*"]
[prompt]
timeout = "90s"
no_consent_agent = "queue"
[grants]
max_for = "8h"
[[rule]]
id = "files"
access = ["read", "write"]
path = ["{workspace}/a\\*b/**", "**/.env"]
except = ["**/.env.example"]
level = "ask"
remember = "10m"
reason = "Because."
ask = { group = "deployers" }
[[rule]]
id = "programs"
access = ["exec"]
program = ["@path/git", "@path", "/opt/*/git"]
argv = ["git", "push", "**", ["-f", "--force*"], ["**", "-v", "-q"], ""]
except = [["git", "push", "x"]]
env = ["GIT_DIR", "GIT_SSH=/usr/*"]
level = "authenticate"
remember = "attempt"
[[rule]]
id = "hosts"
access = ["connect"]
host = ["*.example.org:443", "localhost:3000-3999"]
cidr = ["10.0.0.0/8"]
port = "22"
protocol = ["tcp", "udp"]
except = ["a.example.org:443"]
level = "deny"
[[rule]]
id = "sockets"
access = ["unix"]
socket = ["@ssh_agent", "/run/x.sock"]
level = "ask"
remember = "call"
"#;
