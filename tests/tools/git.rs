//! git in a checkout: what its hooks and its configuration are made of is asked for, all else goes through.

use crate::Test;
use crate::case::{Case, Policy, nothing};

pub const TESTS: &[Test] = &[
    ("init_commit_rebase_gc_worktree_clone_and_push", everyday),
    ("with_nobody_to_ask_git_cannot_begin_and_is_told_so", refused),
];

/// One yes for a directory of hooks, one for each file besides, as a person would answer.
const ANSWERS: &str = r#"
[[answer]]
object = "{workspace}/**/.git/hooks"
answer = "once"
scope = "directory"

[[answer]]
access = "write"
object = "{workspace}/**"
answer = "once"

[[answer]]
program = "**/git"
answer = "once"
"#;

fn everyday() {
    let results = Case {
        name: "git",
        script: include_str!("scripts/git.sh"),
        needs: &[("git", "git"), ("tar", "tar")],
        prepare: nothing,
        policy: Policy::Coder { answers: ANSWERS },
        compare: &["trees", "repo/src", "clone/src"],
    }
    .run();
    results.assert_value("commits", "29");
    results.assert_value("worktrees", "2");
    results.assert_value("left", "1");
    results.assert_value("count", "0");
    results.assert_value("packs", "1");
    results.assert_value("status", "()");
    assert_eq!(results.value("pushed"), results.value("head"));
    assert_eq!(results.value("fetched"), results.value("head"));
    let asked_for = |access: &str| {
        let events = results.gated.events_of("consent_required").filter(|event| event["access"] == access);
        events.collect::<Vec<_>>()
    };
    let commands: Vec<String> = asked_for("exec").iter().map(|event| event["exec"]["argv"][1].to_string()).collect();
    assert_eq!(commands, ["\"rebase\"", "\"checkout\"", "\"push\""]);
    let written = asked_for("write");
    let asked: Vec<&str> = written.iter().filter_map(|event| event["object"].as_str()).collect();
    let workspace = results.gated_sandbox.workspace().display().to_string();
    assert!(asked.contains(&format!("{workspace}/repo/.git/config").as_str()), "{asked:?}");
    assert!(asked.iter().any(|object| object.contains("/.git/hooks")), "{asked:?}");
    // A worktree's `.git` is a file that says where the configuration is.
    let is_guarded = |object: &&&str| {
        ["/.git/hooks", "/.git/config", "/.git/worktrees/tree", "/tree/.git"].iter().any(|name| object.contains(name))
    };
    assert_eq!(asked.iter().filter(|object| !is_guarded(object)).count(), 0, "{asked:?}");
}

/// Without a yes git cannot even begin, says so, and nothing of what is guarded is there.
fn refused() {
    let mut sandbox = crate::support::Sandbox::new();
    sandbox.profile_named("coder");
    let outcome = sandbox.run(&["git", "init", "-q", "repo"]);
    outcome.assert(outcome.code() != 0 && outcome.code() != 125, "git init fails by itself");
    let told = "it is not permitted here; this is final, do not retry";
    outcome.assert(outcome.err().contains(told), "it is said that this is final, and that nobody decided it");
    for guarded in ["repo/.git/config", "repo/.git/hooks"] {
        let path = sandbox.workspace().join(guarded);
        outcome.assert(!path.exists(), &format!("{guarded} is not there"));
    }
}
