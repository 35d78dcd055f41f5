//! The profiles `build`, `readonly` and `review`, with real tools and somebody who says yes to whatever is asked.

use std::net::TcpListener;

use crate::Test;
use crate::case::{Case, Policy, require, rust_sysroot};
use crate::support::Sandbox;

pub const TESTS: &[Test] = &[
    ("build_lets_cargo_npm_and_make_work_with_their_caches", build),
    ("build_asks_for_what_runs_outside", build_asks),
    ("review_reads_the_checkout_and_nothing_else_whatever_is_answered", review),
    ("readonly_changes_nothing_whatever_is_answered", readonly),
];

const YES: &str = "[[answer]]\nanswer = \"session\"\n";

fn home(sandbox: &mut Sandbox) {
    sandbox.bind(&rust_sysroot(), &sandbox.home().join("toolchain"));
    for cache in [".cargo", ".cargo/registry", ".npm", ".cache"] {
        sandbox.dir(&sandbox.home().join(cache));
    }
}

fn build() {
    let results = Case {
        name: "build",
        script: include_str!("scripts/build.sh"),
        needs: &[("cc", "gcc"), ("make", "make"), ("npm", "npm")],
        prepare: home,
        policy: Policy::Named {
            profile: "build",
            // The toolchain of these tests lies in root's home.
            answers: "[[answer]]\naccess = \"read\"\nobject = \"/root/.rustup/**\"\nanswer = \"session\"\nscope = \"tree\"\n",
        },
        compare: &["app/src"],
    }
    .run();
    for built in ["crate", "package", "program"] {
        results.assert_value(built, "built");
    }
    results.assert_value("cache", "kept");
    assert!(results.gated_sandbox.home().join(".cargo/registry/cache.txt").exists());
}

/// Starts a sandbox with a checkout, secrets in the home directory, and this profile.
fn checkout(profile: &str, answers: &str) -> Sandbox {
    require("git", "git");
    let mut sandbox = Sandbox::new();
    sandbox.dir(&sandbox.home().join(".ssh"));
    sandbox.file(&sandbox.home().join(".ssh/id_ed25519"), "KEY");
    sandbox.file(&sandbox.home().join("notes"), "NOTES");
    sandbox.file(&sandbox.home().join(".gitconfig"), "[user]\nname = me\nemail = me@example.org\n");
    sandbox.file(&sandbox.workspace().join("main.rs"), "fn main() { todo!() }\n");
    sandbox.file(&sandbox.workspace().join(".env"), "PASSWORD=x\n");
    let commit = "git init -q -b main . && git add main.rs && git commit -qm 'the first'";
    sandbox.bare(&["sh", "-c", commit]).assert_code(0);
    sandbox.profile_named(profile);
    sandbox.answers(answers);
    sandbox
}

fn build_asks() {
    let sandbox = checkout("build", "[[answer]]\nanswer = \"deny\"\n");
    let script = "echo x > .git/hooks/pre-commit; echo hook $?; echo x > .env; echo env $?
        echo x > $HOME/.bashrc; echo rc $?; mkdir -p target && echo x > target/y; echo own $?";
    let outcome = sandbox.run(&["sh", "-c", script]);
    let told = ["hook", "env", "rc", "own"].map(|key| outcome.number(key));
    assert_eq!(told.map(|status| status == 0), [false, false, false, true], "{outcome}");
    assert_eq!(outcome.events_of("consent_required").count(), 3, "{outcome}");
}

/// Everything that a person would be asked for is answered with yes, for the session.
fn denied(sandbox: &Sandbox, attempts: &[(&str, &str)]) {
    for (name, attempt) in attempts {
        // It works without gated, so that it is gated that makes it fail.
        let bare = sandbox.bare(&["sh", "-c", attempt]);
        bare.assert(bare.code() == 0, name);
        let inside = sandbox.run(&["sh", "-c", attempt]);
        inside.assert(inside.code() != 0, name);
        inside.assert(inside.events_of("consent_required").count() == 0, &format!("{name}: nothing is asked"));
        inside.assert(!inside.out().contains("KEY") && !inside.out().contains("NOTES"), name);
    }
}

fn review() {
    let sandbox = checkout("review", YES);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}'", server.local_addr().unwrap().port());
    let script = "git log --format=%s; git status --short; grep -rn todo . | head -1; cat main.rs; ls; git grep -c main
        echo x > /tmp/own && cat /tmp/own";
    let outcome = sandbox.run(&["sh", "-c", script]);
    outcome.assert_code(0);
    let out = outcome.out();
    assert!(out.contains("the first") && out.contains("./main.rs:1:") && out.contains("main.rs:1"), "{outcome}");
    denied(
        &sandbox,
        &[
            ("writing", "echo x > made"),
            ("changing", "chmod 600 main.rs"),
            ("committing", "git commit -q --allow-empty -m x"),
            ("connecting", &connect),
            ("a key", "cat $HOME/.ssh/id_ed25519"),
            ("notes", "cat $HOME/notes"),
            ("listing a home", "ls $HOME"),
            ("an .env in the checkout", "cat .env"),
        ],
    );
    let links = sandbox.run(&["sh", "-c", "ln -s $HOME/notes /tmp/link && cat /tmp/link"]);
    links.assert(links.code() != 0 && !links.out().contains("NOTES"), "a link leads nowhere else");
}

fn readonly() {
    let sandbox = checkout("readonly", YES);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}'", server.local_addr().unwrap().port());
    denied(
        &sandbox,
        &[
            ("writing", "echo x > made"),
            ("writing elsewhere", "echo x > $HOME/made"),
            ("changing", "chmod 600 main.rs"),
            ("connecting", &connect),
        ],
    );
    // As with `coder`, a key is read after a yes.
    let script = "git log --format=%s; cat $HOME/notes; cat $HOME/.ssh/id_ed25519; echo x > /tmp/own && cat /tmp/own";
    let outcome = sandbox.run(&["sh", "-c", script]);
    outcome.assert_code(0);
    assert!(["the first", "NOTES", "KEY"].iter().all(|told| outcome.out().contains(told)), "{outcome}");
    assert!(outcome.events_of("consent_required").count() >= 1, "{outcome}");
}
