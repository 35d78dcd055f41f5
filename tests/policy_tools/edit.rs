//! `policy edit`, with editors that are small programs.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::world::{Ran, World, golden, profile};

/// A run with this editor, a shell command line that gets the file as its last word, and these words typed.
fn edited(world: &World, editor: &str, words: &[&str], typed: &str) -> Ran {
    let mut command: Command = world.policy(words);
    command.env("EDITOR", editor).env("TMPDIR", world.path("home"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    world.ran(child.wait_with_output().unwrap())
}

/// An editor that writes this.
fn writes(world: &World, name: &str, text: &str) -> String {
    let file = world.put(&format!("editors/{name}"), text);
    format!("cp {}", file.display())
}

fn kept(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.path(&format!("home/.config/gated/profiles/{name}.toml"))).unwrap_or_default()
}

#[test]
fn a_profile_of_ones_own_is_checked_shown_and_installed() {
    let world = World::new();
    world.own("mine", "extends = [\"base\"]\n");
    let wider = profile("mine", "extends = [\"base\"]\n[defaults]\nwrite = \"allow\"\n");
    let editor = writes(&world, "wider", &wider);
    let refused = edited(&world, &editor, &["edit", "mine"], "n\n");
    assert_eq!(refused.status, 1, "{refused:?}");
    golden("policy_edit.txt", &refused.out);
    assert!(!kept(&world, "mine").contains("allow"));
    let installed = edited(&world, &editor, &["edit", "mine"], "y\n");
    assert_eq!((installed.status, installed.err.as_str()), (0, ""), "{installed:?}");
    assert!(installed.out.ends_with("Installed {M}/home/.config/gated/profiles/mine.toml.\n"), "{installed:?}");
    assert_eq!(kept(&world, "mine"), wider);
    let again = edited(&world, &editor, &["edit", "mine", "--yes"], "");
    assert_eq!((again.status, again.out.as_str()), (0, "Nothing changed.\n"));
    // Nothing is left of the copies.
    let left = std::fs::read_dir(world.path("home")).unwrap().flatten();
    let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("gatedctl-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_mistake_is_told_and_edited_again_or_nothing_is_installed() {
    let world = World::new();
    world.own("mine", "");
    let before = kept(&world, "mine");
    let bad = profile("mine", "[[rule]]\nid = \"r\"\naccess = [\"write\"]\nlevel = \"ask\"\npath = [\"x\"]\n");
    let editor = writes(&world, "bad", &bad);
    let ran = edited(&world, &editor, &["edit", "mine", "--yes"], "n\n");
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(
        ran.out.starts_with("{M}/home/.config/gated/profiles/mine.toml:8:9: error: `x`: an absolute path"),
        "{ran:?}"
    );
    assert_eq!(kept(&world, "mine"), before);
    // The second time it is good.
    let good = writes(&world, "good", &profile("mine", "description = \"Good\"\n"));
    let script = world.put(
        "editors/twice",
        &format!(
            "if [ -e {0}.once ]; then {good} \"$1\"; else touch {0}.once; {editor} \"$1\"; fi\n",
            world.path("x").display()
        ),
    );
    let ran = edited(&world, &format!("sh {}", script.display()), &["edit", "mine", "--yes"], "\n");
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(kept(&world, "mine").contains("Good"));
}

#[test]
fn names_lead_nowhere_else_and_what_the_machine_has_comes_first() {
    let world = World::new();
    world.put("etc/gated/profiles/team.toml", &profile("team", ""));
    for (name, status) in [("../x", 6), ("a/b", 6), (".x", 6), ("team", 2)] {
        let ran = edited(&world, "true", &["edit", name], "");
        assert_eq!(ran.status, status, "{name}: {ran:?}");
    }
    // What is below another root is no matter of the daemon's.
    let editor = writes(&world, "team", &profile("team", "description = \"Other\"\n"));
    let ran = edited(&world, &editor, &["edit", "team", "--machine", "--yes"], "");
    assert_eq!(ran.status, 2, "{ran:?}");
    // A new one begins with what a profile needs; an editor that fails installs nothing.
    let ran = edited(&world, "false", &["edit", "fresh", "--yes"], "");
    assert_eq!((ran.status, kept(&world, "fresh").as_str()), (6, ""), "{ran:?}");
    let ran = edited(&world, "sed -i s/coder/base/", &["edit", "fresh", "--yes"], "");
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(kept(&world, "fresh").contains("extends = [\"base\"]"));
}
