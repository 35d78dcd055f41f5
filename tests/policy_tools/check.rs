//! `policy check`: mistakes with their place, and what is odd with a remedy.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::world::{World, golden, own};

const ODD: &str = r#"
extends = ["base"]
[vars]
unused = "/srv"
[defaults]
connect = "allow"
exec = "ask"
[[rule]]
id = "everything"
access = ["write"]
path = ["~/**"]
level = "allow"
[[rule]]
id = "no-etc"
access = ["write"]
path = ["/etc/**"]
level = "deny"
[[rule]]
id = "hidden"
access = ["write"]
path = ["/etc/hosts"]
level = "allow"
remember = "call"
[[rule]]
id = "said-twice"
access = ["write"]
path = ["/etc/**"]
level = "deny"
remember = "call"
[[rule]]
id = "linked"
access = ["write"]
path = ["{M}/home/project/link/**"]
level = "ask"
[[rule]]
id = "holes"
access = ["read"]
path = ["/srv/a/**"]
except = ["/srv/a/**", "/opt/x"]
level = "ask"
[[rule]]
id = "tools"
access = ["exec"]
program = ["/nonexistent/tool", "~/bin/**", "**/make"]
level = "allow"
[[rule]]
id = "hosts"
access = ["connect"]
host = ["*:443", "*.co.uk:443", "198.51.100.7:443"]
level = "allow"
[[rule]]
id = "public"
access = ["bind"]
host = ["0.0.0.0:8080"]
level = "allow"
[[rule]]
id = "nobody"
access = ["unix"]
socket = ["/run/x.sock"]
level = "ask"
ask = { group = "no-such-group" }
"#;

fn odd() -> World {
    let world = World::new();
    std::fs::create_dir(world.path("home/project/real")).unwrap();
    symlink(world.path("home/project/real"), world.path("home/project/link")).unwrap();
    let place = world.path("").display().to_string();
    world.own("odd", &ODD.replace("{M}", place.trim_end_matches('/')));
    world
}

#[test]
fn what_is_odd_is_told_with_its_place_and_a_remedy() {
    let world = odd();
    golden("policy_check.txt", &world.said(&["check", "odd"]));
    let strict = world.run(&["check", "odd", "--strict"]);
    assert_eq!(strict.status, 1);
    let found: Vec<Value> = serde_json::from_str(&world.said(&["check", "odd", "--json"])).unwrap();
    let has = |check: &str, line: u64| found.iter().any(|one| one["check"] == check && one["line"] == line);
    for (check, line) in [
        ("unused-variable", 7),
        ("too-broad", 9),
        ("too-broad", 14),
        ("never-decides", 22),
        ("behind-link", 36),
        ("all-excepted", 41),
        ("idle-except", 42),
        ("no-program", 47),
        ("too-broad", 52),
        ("no-name", 52),
        ("no-group", 64),
    ] {
        assert!(has(check, line), "{check} at {line}: {found:#?}");
    }
}

#[test]
fn what_is_good_has_nothing_to_say() {
    let world = World::new();
    assert_eq!(world.said(&["check", "base", "coder", "strict"]), "3 files: no errors, no warnings.\n");
    let all = world.said(&["check", "--verbose"]);
    assert!(all.contains(": note: ") && all.ends_with("no errors, no warnings.\n"), "{all}");
}

#[test]
fn mistakes_fail_and_name_file_line_and_column() {
    let world = World::new();
    world.own("good", "");
    world.own("bad", "[[rule]]\nid = \"r\"\naccess = [\"write\"]\nlevel = \"ask\"\npath = [\"relative\"]\n");
    world.put("etc/gated/ceiling.toml", "schema = 1\n[users]\nmay_runn = []\n");
    let open = world.own("open", "");
    std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o666)).unwrap();
    let ran = world.run(&["check"]);
    assert_eq!(ran.status, 1);
    golden("policy_check_errors.txt", &own(&ran.out));
    assert!(ran.out.ends_with(" files: 3 errors, no warnings.\n"), "{}", ran.out);
}

/// What a rule allows that git or a shell runs later is told, unless a stricter rule speaks of it.
#[test]
fn files_that_run_outside_are_told_of() {
    let world = World::new();
    let allow = "[[rule]]\nid = \"all\"\naccess = [\"write\"]\npath = [\"{workspace}/**\"]\nlevel = \"allow\"\n";
    let own = format!("[vars]\nworkspace = \"@cwd\"\n{allow}");
    world.own("loose", &own);
    let said = world.said(&["check", "loose"]);
    assert!(said.contains("`all` lets a tool write what runs outside of the session later: **/.git/hooks"), "{said}");
    world.own("tight", "extends = [\"coder\"]\n");
    assert_eq!(world.said(&["check", "tight"]), "1 file: no errors, no warnings.\n");
}

/// The ceiling is over every profile, also where one is only looked at.
#[test]
fn what_the_ceiling_forbids_is_told() {
    let world = World::new();
    let ceiling =
        "schema = 1\n[[floor]]\nid = \"no-etc\"\naccess = [\"write\"]\npath = [\"/etc/**\"]\nlevel = \"deny\"\n";
    world.put("etc/gated/ceiling.toml", ceiling);
    world.own("mine", "[[rule]]\nid = \"hosts\"\naccess = [\"write\"]\npath = [\"/etc/hosts\"]\nlevel = \"allow\"\n");
    let said = world.said(&["check", "mine"]);
    assert!(
        said.contains("rule `hosts` decides nothing: the ceiling is stricter, `no-etc` (/etc/gated/ceiling.toml:3)"),
        "{said}"
    );
    let said = world.said(&["explain", "--profile", "mine", "write", "/etc/hosts"]);
    assert!(said.contains("deny: the ceiling's rule no-etc (/etc/gated/ceiling.toml:3)"), "{said}");
    assert!(said.contains("also allow: rule hosts") && said.contains("without the ceiling: allow"), "{said}");
    let merged = world.said(&["cat", "mine", "--merged"]);
    assert!(
        merged.contains("# the ceiling's: it makes a verdict stricter") && merged.contains("# id = \"no-etc\""),
        "{merged}"
    );
}

/// Reads of a name are held where such names were looked for, which is not the whole machine.
#[test]
fn a_floor_on_reads_of_a_name_says_where_it_holds() {
    let world = World::new();
    let floor = |path: &str, access: &str| {
        let floor = format!("schema = 1\n[[floor]]\nid = \"keys\"\naccess = [{access}]\npath = [{path}]\n");
        world.put("etc/gated/ceiling.toml", &format!("{floor}level = \"deny\"\n"));
        world.said(&["check"])
    };
    let said = floor("\"**/*.pem\"", "\"read\", \"write\"");
    let expected = "/etc/gated/ceiling.toml:3:1: warning: floor `keys` holds reads of `**/*.pem` in the home and the \
                    workspace of a session, and nowhere else\n    Name directories where such files are besides: ";
    assert!(said.contains(expected), "{said}");
    for (path, access) in [("\"/srv/**/*.pem\", \"~/**/*.pem\"", "\"read\""), ("\"**/*.pem\"", "\"write\"")] {
        let said = floor(path, access);
        assert!(!said.contains("holds reads"), "{said}");
    }
}
