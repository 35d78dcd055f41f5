//! What the built-in profiles promise.

use gated::common::access::{Access, Level};
use gated::policy::load::BUILT_IN;
use gated::policy::{Grants, Policy};

use super::sample::{CALL, Files, path};

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
        (".env", "secrets"),
        ("web/.env.production", "secrets"),
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
        ("/home/user/.ssh/authorized_keys", "secrets"),
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
