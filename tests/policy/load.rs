//! Files: where they are found, how they extend each other, and what is said about a broken one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use gated::common::access::{Access, Level};
use gated::common::decision::Lifetime;
use gated::common::wire::Network;
use gated::policy::model::NoConsentAgent;
use gated::policy::{Context, PolicyError, ProfileSelector, load};

use proptest::prelude::*;

use super::sample::{Files, context, load_text, path, profile, with_header};

#[test]
fn every_term_of_a_file_arrives_in_the_profile() {
    let text = r#"
schema = 1
[profile]
name = "full"
description = "Everything"
network = "host"
match = { program = ["~/.local/bin/tool", "**/other"], unit = ["x@*.service"], user = ["ci"] }
[vars]
workspace = "@cwd"
data = "/srv/data"
[defaults]
read = "allow"
write = "deny"
[scratch]
path = ["{data}/tmp/**"]
[env]
deny = ["*_TOKEN"]
[grants]
max_for = "8h"
persistent = true
[prompt]
timeout = "15m"
max_per_minute = 6
no_consent_agent = "queue"
[[rule]]
id = "one"
access = ["write", "read"]
path = ["{workspace}/**", "/srv/{user}/x", "~"]
except = ["**/keep"]
level = "notify"
remember = "attempt"
reason = "Because."
examples = { match = ["~", "{workspace}/a"], not_match = ["{workspace}/keep"] }
"#;
    let own = load_text(text, &context()).unwrap();
    assert_eq!((own.name.as_str(), own.description.as_str(), own.file.as_str()), ("full", "Everything", "p.toml"));
    assert_eq!(own.network, Network::Host);
    assert_eq!(
        own.match_program.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["/home/user/.local/bin/tool", "**/other"]
    );
    assert!(own.match_unit[0].matches(b"x@1.service") && own.match_user == ["ci"]);
    assert_eq!((own.workspace.clone(), own.home.clone()), (Some(path("/home/user/project")), path("/home/user")));
    assert_eq!((own.defaults.level(Access::Read), own.defaults.level(Access::Write)), (Level::Allow, Level::Deny));
    assert_eq!(own.scratch, [path("/srv/data/tmp")]);
    assert!(!own.keeps_variable(b"GITHUB_TOKEN") && own.keeps_variable(b"TOKENS") && own.keeps_variable(b"PATH"));
    assert_eq!((own.grants.max_for, own.grants.persistent), (Some(Duration::from_secs(8 * 3600)), true));
    assert_eq!((own.prompt.timeout, own.prompt.max_per_minute), (Duration::from_secs(900), 6));
    assert_eq!(own.prompt.no_consent_agent, NoConsentAgent::Queue);
    let rule = &own.rules[0];
    assert_eq!(
        (rule.id.as_str(), rule.line, rule.access.as_slice()),
        ("one", 26, [Access::Read, Access::Write].as_slice())
    );
    let paths: Vec<String> = rule.path.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["/home/user/project/**", "/srv/user/x", "/home/user"]);
    assert_eq!(
        (rule.level, rule.remember, rule.reason.as_deref()),
        (Level::Notify, Lifetime::Attempt, Some("Because."))
    );
    assert!(own.notes.is_empty());
}

#[test]
fn what_a_file_does_not_say_is_the_careful_choice() {
    let own = profile("");
    assert_eq!((own.defaults.write, own.network, own.workspace), (Level::Ask, Network::Own, None));
    assert_eq!((own.prompt.timeout, own.prompt.no_consent_agent), (Duration::from_secs(60), NoConsentAgent::Deny));
}

#[test]
fn characters_of_a_workspace_are_no_wildcards() {
    let odd = Context { cwd: path("/srv/[a]*{b}"), ..context() };
    let text = with_header(
        "[vars]\nworkspace = \"@cwd\"\n[[rule]]\nid = \"w\"\naccess = [\"write\"]\npath = [\"{workspace}/**\"]\nlevel = \"allow\"\n",
    );
    let own = load_text(&text, &odd).unwrap();
    assert!(own.rules[0].matches(&path("/srv/[a]*{b}/x")) && !own.rules[0].matches(&path("/srv/[a]zz{b}/x")));
    let bytes = Context { cwd: gated::common::path::RawPath::new(b"/srv/\xff".to_vec()), ..context() };
    assert!(load_text(&text, &bytes).unwrap().rules[0].matches(&bytes.cwd));
}

#[test]
fn a_home_of_slash_is_no_double_slash() {
    let root = Context { home: path("/"), ..context() };
    let text = with_header("[[rule]]\nid = \"w\"\naccess = [\"write\"]\npath = [\"~/x\", \"~\"]\nlevel = \"deny\"\n");
    let own = load_text(&text, &root).unwrap();
    assert_eq!(own.rules[0].path.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/x", "/"]);
}

fn named(name: &str, rest: &str) -> String {
    format!("schema = 1\n[profile]\nname = \"{name}\"\ndescription = \"{rest}\"\n")
}

#[test]
fn a_file_higher_up_replaces_the_lower_one_and_an_empty_one_masks_it() {
    let folders =
        ["/etc/gated/profiles", "/run/gated/profiles", "/usr/lib/gated/profiles", "/home/user/.config/gated/profiles"];
    let mut files = Files::default();
    assert_eq!(files.load("strict").unwrap().file, "built-in:strict");
    for folder in folders.iter().rev() {
        let file = format!("{folder}/strict.toml");
        files = files.with(&file, &named("strict", folder));
        assert_eq!(files.load("strict").unwrap().file, file);
    }
    let masked = files.with("/etc/gated/profiles/strict.toml", "").load("strict").unwrap_err();
    assert_eq!(masked.to_string(), "the profile `strict` is masked: /etc/gated/profiles/strict.toml is empty");
}

#[test]
fn a_file_that_cannot_be_read_does_not_let_a_lower_one_stand_in() {
    let error = load(ProfileSelector::Name("coder".into()), &context(), &|file| {
        if file.starts_with("/etc") {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    });
    assert!(matches!(error, Err(PolicyError::Unreadable { file, .. }) if file == "/etc/gated/profiles/coder.toml"));
}

#[test]
fn a_name_is_no_way_to_another_folder() {
    for name in ["", "../x", "a/b", ".x", "x\n", &"x".repeat(65)] {
        assert!(matches!(Files::default().load(name), Err(PolicyError::BadName(_))), "{name}");
    }
    let unknown = Files::default().load("nosuch").unwrap_err().to_string();
    assert!(unknown.starts_with("there is no profile `nosuch`: it is in none of /etc/gated/profiles, "), "{unknown}");
    let missing = load(ProfileSelector::File(PathBuf::from("x.toml")), &context(), &|file| Files::default().read(file));
    assert_eq!(missing.unwrap_err().to_string(), "x.toml: entity not found");
}

#[test]
fn what_is_extended_comes_first_and_its_tables_are_replaced_key_by_key() {
    let rule = |id: &str| {
        format!("[[rule]]\nid = \"{id}\"\naccess = [\"write\"]\npath = [\"{{place}}/{id}\"]\nlevel = \"ask\"\n")
    };
    let base = format!(
        "schema = 1\n[profile]\nname = \"low\"\nmatch = {{ program = [\"**/low\"] }}\n[vars]\nplace = \"/low\"\n[prompt]\n\
         timeout = \"10s\"\nmax_per_minute = 7\n[env]\ndeny = [\"A\"]\n[defaults]\nwrite = \"deny\"\n{}",
        rule("a")
    );
    let other =
        format!("schema = 1\n[profile]\nname = \"mid\"\nextends = [\"low\"]\n[env]\ndeny = [\"B\"]\n{}", rule("b"));
    let top = format!(
        "schema = 1\n[profile]\nname = \"top\"\nextends = [\"low\", \"mid\"]\n[vars]\nplace = \"/top\"\n[prompt]\ntimeout = \"20s\"\n{}",
        rule("c")
    );
    let own = Files::default()
        .with("/etc/gated/profiles/low.toml", &base)
        .with("/usr/lib/gated/profiles/mid.toml", &other)
        .with("/etc/gated/profiles/top.toml", &top)
        .load("top")
        .unwrap();
    assert_eq!(
        own.rules.iter().map(|rule| rule.path[0].to_string()).collect::<Vec<_>>(),
        ["/top/a", "/top/b", "/top/c"]
    );
    assert_eq!(own.rules[0].file, "/etc/gated/profiles/low.toml");
    assert_eq!((own.prompt.timeout, own.prompt.max_per_minute), (Duration::from_secs(20), 7));
    assert_eq!((own.defaults.write, own.match_program.len(), own.name.as_str()), (Level::Deny, 0, "top"));
    assert!(!own.keeps_variable(b"A") && !own.keeps_variable(b"B"));
}

#[test]
fn profiles_that_extend_each_other_are_refused() {
    let error = |files: Files| files.load("a").unwrap_err().to_string();
    let extending =
        |name: &str, base: &str| format!("schema = 1\n[profile]\nname = \"{name}\"\nextends = [\"{base}\"]\n");
    let circle = Files::default()
        .with("/etc/gated/profiles/a.toml", &extending("a", "b"))
        .with("/etc/gated/profiles/b.toml", &extending("b", "a"));
    assert_eq!(error(circle), "/etc/gated/profiles/b.toml:4:12: `a` extends itself through this");
    let lost = Files::default().with("/etc/gated/profiles/a.toml", &extending("a", "b"));
    assert!(error(lost).starts_with("/etc/gated/profiles/a.toml:4:12: there is no profile `b`: "));
    let renamed = Files::default().with("/etc/gated/profiles/a.toml", &named("b", ""));
    assert_eq!(error(renamed), "/etc/gated/profiles/a.toml:3:8: the profile calls itself `b`, but was found as `a`");
}

#[test]
fn a_broken_file_is_refused_with_file_line_and_column() {
    // GATED_BLESS=1 writes what is said now; read the difference before keeping it.
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policy/broken.golden");
    let expected = std::fs::read_to_string(golden).unwrap();
    let mut said = Vec::new();
    for case in expected.trim_end().split("\n=====\n") {
        let (given, _) = case.split_once("\n-----\n").expect("a case is a file, a line of dashes and a message");
        let text = given.strip_prefix('!').map_or_else(|| with_header(given), str::to_owned);
        let message = load_text(&text, &context()).map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        said.push(format!("{given}\n-----\n{message}"));
    }
    let said = format!("{}\n", said.join("\n=====\n"));
    if std::env::var_os("GATED_BLESS").is_some() {
        std::fs::write(golden, &said).unwrap();
    }
    let difference = expected.lines().zip(said.lines()).find(|(expected, said)| expected != said);
    assert!(expected == said, "{difference:?}");
}

#[test]
fn a_workspace_is_never_a_home_or_everything() {
    let text = with_header("[vars]\nworkspace = \"@cwd\"\n");
    let at = |cwd: &str| load_text(&text, &Context { cwd: path(cwd), ..context() }).map_err(|error| error.to_string());
    for wide in ["/", "/home", "/home/user"] {
        let error = at(wide).unwrap_err();
        assert!(error.starts_with(&format!("p.toml:5:13: `workspace` would be {wide}, ")), "{error}");
    }
    assert!(at("/home/user/x").is_ok() && at("/home/username").is_ok() && at("/srv").is_ok());
    let written = with_header("[vars]\nworkspace = \"~\"\n");
    assert!(load_text(&written, &context()).is_err());
}

proptest! {
    #[test]
    fn a_damaged_file_is_a_profile_or_an_error_with_its_place(
        at: prop::sample::Index, length in 0_usize..8, noise in "[ -~\\n\"\\[\\]{}é]{0,6}",
    ) {
        let mut text = include_str!("../../policies/coder.toml").to_owned();
        let start = (0..=at.index(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        let end = (start + length..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
        text.replace_range(start..end, &noise);
        match load_text(&text, &context()) {
            Ok(_) => {}
            Err(PolicyError::Invalid { line, column, message, .. }) => {
                prop_assert!(line >= 1 && column >= 1 && line as usize <= text.lines().count() + 1);
                prop_assert!(!message.is_empty() && !message.contains('\n'));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
