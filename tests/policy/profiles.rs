//! What the built-in profiles promise.

use gated::common::access::{Access, Level};
use gated::common::path::RawPath;
use gated::policy::load::BUILT_IN;
use gated::policy::{Context, Grants, Policy, ProfileSelector, load};

use super::sample::{CALL, Files, context, path};

fn policy(name: &str) -> Policy {
    Policy::new(&Files::default().load(name).unwrap())
}

fn verdict(policy: &Policy, of: &str) -> (Level, String) {
    let verdict = policy.decide(Access::Write, &path(of), CALL, &Grants::new());
    (verdict.level, policy.rule(&verdict).id)
}

#[test]
fn every_built_in_profile_loads() {
    for (name, _) in BUILT_IN {
        assert_eq!(Files::default().load(name).unwrap().file, format!("built-in:{name}"));
    }
}

#[test]
fn coder_writes_in_its_workspace_and_asks_for_what_runs_outside() {
    let coder = policy("coder");
    let ws = "/home/user/project";
    for free in [
        "",
        "/src/main.rs",
        "/.git/index",
        "/.git/refs/heads/main",
        "/.github/workflows/ci.yml",
        "/.env.example",
        "/target/x",
    ] {
        assert_eq!(verdict(&coder, &format!("{ws}{free}")), (Level::Allow, "workspace".into()), "{free}");
    }
    for (asked, rule) in [
        (".git/hooks/pre-commit", "git-runs-this"),
        (".git/config", "git-runs-this"),
        (".git/commondir", "git-runs-this"),
        (".git/modules/a/b/config", "git-runs-this"),
        ("vendor/x/.git/config", "git-runs-this"),
        (".husky/pre-push", "git-runs-this"),
        (".envrc", "code-that-runs-outside"),
        ("web/.envrc", "code-that-runs-outside"),
        (".vscode/tasks.json", "code-that-runs-outside"),
        (".claude/settings.local.json", "agent-settings"),
        (".env", "secrets-changed"),
        ("web/.env.production", "secrets-changed"),
    ] {
        assert_eq!(verdict(&coder, &format!("{ws}/{asked}")), (Level::Ask, rule.into()), "{asked}");
    }
}

#[test]
fn coder_asks_for_everything_outside_and_says_why_where_it_matters() {
    let coder = policy("coder");
    for (asked, rule) in [
        ("/home/user/.bashrc", "login-and-editor"),
        ("/home/user/.config/nvim/init.lua", "login-and-editor"),
        ("/home/user/.config/systemd/user/x.service", "services-and-commands"),
        ("/home/user/.config/autostart/x.desktop", "services-and-commands"),
        ("/home/user/.local/bin/git", "services-and-commands"),
        ("/home/user/.ssh/authorized_keys", "secrets-changed"),
        ("/home/user/.gitconfig", "git-runs-this"),
        ("/etc/passwd", "system"),
        ("/usr/bin/env", "system"),
        ("/home/user/other/file", "default"),
        ("/srv/x", "default"),
    ] {
        assert_eq!(verdict(&coder, asked), (Level::Ask, rule.into()), "{asked}");
    }
    assert_eq!(verdict(&coder, "/home/user/.config/gated/profiles/x.toml").0, Level::Deny);
}

#[test]
fn in_coder_the_git_directory_cannot_be_moved_or_replaced_without_a_question() {
    let coder = policy("coder");
    let below = |of: &str| coder.below(Access::Write, &path(of), CALL, &Grants::new()).map(|verdict| verdict.level);
    for asked in ["/home/user/project/.git", "/home/user/project/vendor/x/.git", "/home/user/project/.git/worktrees/a"]
    {
        assert_eq!(below(asked), Some(Level::Ask), "{asked}");
    }
    assert_eq!(below("/home/user/project/src"), None);
    let link = |of: &str| coder.below_link(Access::Write, &path(of), CALL, &Grants::new()).map(|verdict| verdict.level);
    assert_eq!(link("/home/user/project/.git/modules/a"), Some(Level::Ask));
    assert_eq!(link("/home/user/project/node_modules/a"), None);
    assert!(coder.has_floating(Access::Write));
}

#[test]
fn every_built_in_profile_loads_wherever_it_is_started() {
    let odd = [
        "/srv",
        "/opt/x",
        "/etc/x",
        "/tmp/x",
        "/usr/src/x",
        "/home/user/.config/git",
        "/home/user/.ssh/x",
        "/home/user/.vscode",
    ];
    let mut places: Vec<RawPath> = odd.into_iter().map(path).collect();
    places.push(RawPath::new(b"/srv/[*]\xff{b}/\n".to_vec()));
    for cwd in places {
        for (name, _) in BUILT_IN {
            let context = Context { cwd: cwd.clone(), ..context() };
            let selector = ProfileSelector::Name(name.to_owned());
            let profile = load(selector, &context, &|file| Files::default().read(file));
            assert!(profile.is_ok(), "{name} in {cwd:?}: {profile:?}");
        }
    }
}

#[test]
fn a_checkout_below_a_system_directory_is_a_workspace_all_the_same() {
    let context = Context { cwd: path("/opt/src/x"), ..context() };
    let coder = load(ProfileSelector::Name("coder".to_owned()), &context, &|file| Files::default().read(file)).unwrap();
    let coder = Policy::new(&coder);
    assert_eq!(verdict(&coder, "/opt/src/x/a"), (Level::Allow, "workspace".into()));
    assert_eq!(verdict(&coder, "/opt/src/x/.git/config"), (Level::Ask, "git-runs-this".into()));
    assert_eq!(verdict(&coder, "/opt/src/y"), (Level::Ask, "system".into()));
}

#[test]
fn coder_is_for_coding_agents_and_has_no_scratch() {
    let coder = Files::default().load("coder").unwrap();
    let chosen = |program: &str| coder.match_program.iter().any(|pattern| pattern.matches(&path(program)));
    assert!(chosen("/home/user/.local/bin/claude") && chosen("/usr/bin/codex") && !chosen("/usr/bin/bash"));
    assert!(coder.scratch.is_empty());
    for hidden in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"] {
        assert!(!coder.keeps_variable(hidden.as_bytes()), "{hidden}");
    }
    for kept in ["PATH", "HOME", "LANG", "TERM", "CARGO_HOME"] {
        assert!(coder.keeps_variable(kept.as_bytes()), "{kept}");
    }
}

#[test]
fn strict_asks_inside_and_denies_outside() {
    let strict = policy("strict");
    assert_eq!(verdict(&strict, "/home/user/project/a"), (Level::Ask, "workspace".into()));
    assert_eq!(verdict(&strict, "/home/user/.bashrc"), (Level::Deny, "default".into()));
    assert_eq!(verdict(&strict, "/srv/x"), (Level::Deny, "default".into()));
}
