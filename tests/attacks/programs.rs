//! Attacks 5, 10 and 41 on rules for programs, with the built-in profile `coder`: the same program, started in every way that
//! hides what it is. All lines of a family run in one session, each on an object of its own, and what happened is read from
//! the objects afterwards.

use std::fs;
use std::path::Path;

use crate::engine;
use crate::support::{Outcome, Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_push_is_held_in_every_disguise", push),
    ("a_tree_is_removed_by_no_disguise_of_rm", remove),
    ("programs_that_raise_privilege_are_denied_in_every_disguise", privilege),
    ("what_is_allowed_is_allowed_and_a_yes_lets_a_push_through", allowed),
];

pub const INSIDE: &[Inside] = &[];

/// What is to become of a line inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Held,
    /// Another program by any rule that goes by name: it is not held, and docs/threat-model.md says so.
    Through,
}

use Fate::{Held, Through};

/// A name, a script for bash in the repository, and its fate. `{O}` is the object of the line.
type Line = (&'static str, &'static str, Fate);

/// `git push {O} HEAD:refs/heads/hit`, where `{O}` is an empty repository.
const PUSHES: &[Line] = &[
    ("plain", "git push {O} HEAD:refs/heads/hit", Held),
    ("by-path", "\"$(command -v git)\" push {O} HEAD:refs/heads/hit", Held),
    ("quoted", "g''it pu\"s\"h {O} HEAD:refs/heads/hit", Held),
    ("escaped", "\\g\\i\\t p\\ush {O} HEAD:refs/heads/hit", Held),
    ("ansi-quoted", "$'\\x67it' $'\\160ush' {O} HEAD:refs/heads/hit", Held),
    ("semicolon", "true; git push {O} HEAD:refs/heads/hit", Held),
    ("background", "git push {O} HEAD:refs/heads/hit & wait", Held),
    ("substituted", "echo $(git push {O} HEAD:refs/heads/hit)", Held),
    ("backticks", "echo `git push {O} HEAD:refs/heads/hit`", Held),
    ("variables", "a=gi b=pus; ${a}t ${b}h {O} HEAD:refs/heads/hit", Held),
    ("brace", "{git,push,{O},HEAD:refs/heads/hit}", Held),
    (
        "glob",
        "cd /; /usr/*/bin/gi[t] -C \"$OLDPWD\" push {O} HEAD:refs/heads/hit || /usr/bin/gi? -C \"$OLDPWD\" push {O} HEAD:refs/heads/hit",
        Held,
    ),
    ("alias-of-the-shell", "shopt -s expand_aliases\nalias ls='git push'\nls {O} HEAD:refs/heads/hit", Held),
    ("function", "ls() { git \"$@\"; }; ls push {O} HEAD:refs/heads/hit", Held),
    ("eval", "eval 'git push {O} HEAD:refs/heads/hit'", Held),
    ("base64", "echo git push {O} HEAD:refs/heads/hit | base64 | base64 -d | sh", Held),
    ("here-document", "sh <<'END'\ngit push {O} HEAD:refs/heads/hit\nEND", Held),
    ("sh-c", "sh -c \"sh -c 'git push {O} HEAD:refs/heads/hit'\"", Held),
    ("bash-exec-a", "exec -a ls git push {O} HEAD:refs/heads/hit", Held),
    ("empty-argv0", "exec -a '' git push {O} HEAD:refs/heads/hit", Held),
    ("xargs", "echo push {O} HEAD:refs/heads/hit | xargs git", Held),
    ("xargs-one-each", "echo {O} | xargs -I@ git push @ HEAD:refs/heads/hit", Held),
    ("env", "env -u HOME X=1 git push {O} HEAD:refs/heads/hit", Held),
    ("env-S", "env -S 'git push {O} HEAD:refs/heads/hit'", Held),
    ("nice-nohup-timeout-setsid", "nice nohup timeout 20 setsid -w git push {O} HEAD:refs/heads/hit", Held),
    ("find-exec", "find . -maxdepth 0 -exec git push {O} HEAD:refs/heads/hit \\;", Held),
    ("make", "printf 'all:\\n\\t@git push {O} HEAD:refs/heads/hit\\n' | make -s -f -", Held),
    ("loader", "/lib64/ld-linux-x86-64.so.2 \"$(command -v git)\" push {O} HEAD:refs/heads/hit", Held),
    ("loader-argv0", "/lib64/ld-linux-x86-64.so.2 --argv0 ls \"$(command -v git)\" push {O} HEAD:refs/heads/hit", Held),
    (
        "loader-by-a-link",
        "ln -sf /lib64/ld-linux-x86-64.so.2 cat; ./cat \"$(command -v git)\" push {O} HEAD:refs/heads/hit",
        Held,
    ),
    (
        "python-execv",
        "python3 -c 'import os, shutil, sys; os.execv(shutil.which(\"git\"), [\"ls\"] + sys.argv[1:])' push {O} HEAD:refs/heads/hit",
        Held,
    ),
    (
        "python-spawn",
        "python3 -c 'import subprocess, sys; subprocess.run([\"git\"] + sys.argv[1:])' push {O} HEAD:refs/heads/hit",
        Held,
    ),
    (
        "python-fexecve",
        "python3 -c 'import os, shutil, sys; os.execve(os.open(shutil.which(\"git\"), os.O_RDONLY), [\"x\"] + sys.argv[1:], os.environ)' push {O} HEAD:refs/heads/hit",
        Held,
    ),
    ("perl-exec", "perl -e 'exec {shift} @ARGV' \"$(command -v git)\" cat push {O} HEAD:refs/heads/hit", Held),
    ("descriptor", "exec 9<\"$(command -v git)\"; /proc/self/fd/9 push {O} HEAD:refs/heads/hit", Held),
    ("dev-fd", "exec 9<\"$(command -v git)\"; /dev/fd/9 push {O} HEAD:refs/heads/hit", Held),
    ("own-executable", "git -c alias.x='!exec /proc/$PPID/exe push {O} HEAD:refs/heads/hit' x", Held),
    ("symlink", "ln -sf \"$(command -v git)\" harmless; ./harmless push {O} HEAD:refs/heads/hit", Held),
    (
        "symlinks-and-dots",
        "mkdir -p d; ln -sf \"$(command -v git)\" d/one; ln -sf d/../d/one two; ./d/..//./two push {O} HEAD:refs/heads/hit",
        Held,
    ),
    ("path", "mkdir -p p; ln -sf \"$(command -v git)\" p/ls; PATH=$PWD/p:$PATH ls push {O} HEAD:refs/heads/hit", Held),
    (
        "script",
        "printf '#!/bin/sh\\nexec git push {O} HEAD:refs/heads/hit\\n' >script; chmod +x script; ./script",
        Held,
    ),
    ("git-option-C", "cd /; git -C \"$OLDPWD\" -c a.b=c --no-pager push {O} HEAD:refs/heads/hit", Held),
    ("git-dir", "git --git-dir .git --work-tree=. push {O} HEAD:refs/heads/hit", Held),
    ("git-hidden-option", "git --shallow-file x push {O} HEAD:refs/heads/hit", Held),
    ("git-many-options", "git $(yes -- -c a.b=c | head -n 600) push {O} HEAD:refs/heads/hit", Held),
    (
        "git-option-twice",
        "git --exec-path=\"$(git --exec-path)\" --no-replace-objects -P push {O} HEAD:refs/heads/hit",
        Held,
    ),
    ("git-attributes", "git --attr-source HEAD push {O} HEAD:refs/heads/hit", Held),
    ("git-name-space", "git --namespace= push {O} HEAD:refs/heads/hit", Held),
    ("git-environment-option", "v=c git --config-env a.b=v push {O} HEAD:refs/heads/hit", Held),
    ("git-alias", "git -c alias.x=push x {O} HEAD:refs/heads/hit", Held),
    ("git-alias-of-an-alias", "git -c alias.y=x -c alias.x=push y {O} HEAD:refs/heads/hit", Held),
    ("git-alias-to-the-shell", "git -c alias.x='!git push {O} HEAD:refs/heads/hit' x", Held),
    (
        "git-alias-by-environment",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x {O} HEAD:refs/heads/hit",
        Held,
    ),
    ("git-alias-in-the-configuration", "git config alias.x push; git x {O} HEAD:refs/heads/hit", Held),
    ("git-by-its-other-name", "\"$(git --exec-path)/git-push\" {O} HEAD:refs/heads/hit", Held),
    ("git-called-so", "exec -a git-push git {O} HEAD:refs/heads/hit", Held),
    ("git-plumbing", "git send-pack {O} HEAD:refs/heads/hit", Held),
    (
        "git-hook",
        "mkdir -p .git/hooks; printf '#!/bin/sh\\ngit push {O} HEAD:refs/heads/hit\\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; git checkout -q -b new",
        Held,
    ),
    ("busybox-env", "busybox env git push {O} HEAD:refs/heads/hit", Held),
    ("busybox-sh", "busybox sh -c 'git push {O} HEAD:refs/heads/hit'", Held),
    ("a-copy", "cp \"$(command -v git)\" notgit; ./notgit push {O} HEAD:refs/heads/hit", Through),
    (
        "a-copy-in-memory",
        "python3 -c 'import os, shutil, sys\nfd = os.memfd_create(\"x\")\nos.write(fd, open(shutil.which(\"git\"), \"rb\").read())\nos.execve(fd, [\"x\"] + sys.argv[1:], os.environ)' push {O} HEAD:refs/heads/hit",
        Through,
    ),
];

/// `{O}` is a directory with a file in it.
const REMOVALS: &[Line] = &[
    ("plain", "rm -r {O}", Held),
    ("rf", "rm -rf {O}", Held),
    ("fr", "rm -fr {O}", Held),
    ("capital", "rm -fR {O}", Held),
    ("long", "rm --recursive {O}", Held),
    ("abbreviated", "rm --rec {O}", Held),
    ("apart", "rm -f -v -r {O}", Held),
    ("behind", "rm {O} -r", Held),
    ("after-dashes", "rm -r -- {O}", Held),
    ("busybox", "busybox rm -r {O}", Held),
    ("busybox-by-a-link", "ln -sf \"$(command -v busybox)\" rm; ./rm -r {O}", Held),
    ("busybox-called-so", "exec -a rm busybox -r {O}", Held),
    ("busybox-of-busybox", "busybox busybox rm -r {O}", Held),
    ("symlink", "ln -sf \"$(command -v rm)\" tidy; ./tidy -r {O}", Held),
    ("find-exec", "find {O} -maxdepth 0 -exec rm -r {} +", Held),
    ("xargs", "echo {O} | xargs rm -r", Held),
    ("loader", "/lib64/ld-linux-x86-64.so.2 \"$(command -v rm)\" -r {O}", Held),
    ("a-script-for-it", "printf '#!/bin/rm -r\\n' >gone; chmod +x gone; ./gone {O}", Held),
    ("a-script-for-env", "printf '#!/usr/bin/env -S rm -r\\n' >gone; chmod +x gone; ./gone {O}", Held),
    (
        "a-script-for-a-script",
        "printf '#!/bin/rm -r\\n' >gone; printf '#!%s/gone\\n' \"$PWD\" >gone2; chmod +x gone gone2; ./gone2 {O}",
        Held,
    ),
    ("a-copy", "cp \"$(command -v rm)\" tidy2; ./tidy2 -r {O}", Through),
    ("file-by-file", "find {O} -delete", Through),
    ("in-an-interpreter", "python3 -c 'import shutil, sys; shutil.rmtree(sys.argv[1])' {O}", Through),
];

/// Each denied without a question: bash says 126.
const PRIVILEGE: &[&str] = &[
    "sudo -n true",
    "\"$(command -v sudo)\" -n true",
    "s''udo -n true",
    "ln -sf \"$(command -v sudo)\" s; ./s -n true",
    "ln -sf \"$(command -v su)\" ls; ./ls -c true",
    "exec -a ls sudo -n true",
    "exec 9<\"$(command -v su)\"; /proc/self/fd/9 -c true",
    "su -c true",
];

const REPOSITORY: &str = "set -e\n\
    git init -q -b main repo && cd repo\n\
    git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m first\n";

/// Consent for what the attacks have to prepare, none for what they are after.
const WRITES: &str = "[[answer]]\naccess = \"write\"\nanswer = \"once\"\n";

fn workspace(sandbox: &Sandbox, prepared: &str) {
    sandbox.bare(&["/bin/bash", "-c", prepared]).assert_code(0);
}

/// Runs each line in a bash of its own, one after the other; prints `NAME STATUS`.
fn run_lines(sandbox: &Sandbox, side: Side, lines: &[(&str, String)]) -> Outcome {
    let mut script = String::from("cd repo\n");
    for (name, line) in lines {
        let file = sandbox.control().join(format!("{name}.sh"));
        fs::write(&file, line).expect("write the line");
        script += &format!("bash --norc {} </dev/null; echo {name} $?\n", file.display());
    }
    let outcome = sandbox.on(side, &["/bin/bash", "-c", &script]);
    outcome.assert_code(0);
    outcome
}

/// Runs all lines on each side and holds what `happened` to an object against its line's fate.
fn family(lines: &[Line], prepare: fn(&Sandbox, &Path), happened: fn(&Path) -> bool) {
    for side in engine::sides() {
        let mut sandbox = Sandbox::new();
        sandbox.profile_named("coder");
        sandbox.answers(WRITES);
        workspace(&sandbox, REPOSITORY);
        let object = |name: &str| sandbox.workspace().join("objects").join(name);
        let mut own = Vec::new();
        for (name, line, _) in lines {
            prepare(&sandbox, &object(name));
            own.push((*name, line.replace("{O}", &object(name).display().to_string())));
        }
        let outcome = run_lines(&sandbox, *side, &own);
        let mut wrong = String::new();
        for (name, _, fate) in lines {
            let happened = happened(&object(name));
            let expected = *side == Side::Bare || *fate == Through;
            if happened != expected {
                wrong += &format!("{name}: {}\n", if happened { "it got through" } else { "nothing happened" });
            }
        }
        outcome.assert(wrong.is_empty(), &format!("{side:?}:\n{wrong}"));
    }
}

fn empty_repository(sandbox: &Sandbox, object: &Path) {
    // What git init makes, without a process for each.
    for dir in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        sandbox.dir(&object.join(dir));
    }
    sandbox.file(&object.join("HEAD"), "ref: refs/heads/main\n");
    sandbox.file(&object.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
}

fn push() {
    family(PUSHES, empty_repository, |object| object.join("refs/heads/hit").exists());
}

fn remove() {
    family(REMOVALS, |sandbox, object| sandbox.file(&object.join("file"), "original\n"), |object| !object.exists());
}

fn privilege() {
    for side in engine::sides() {
        let mut sandbox = Sandbox::new();
        sandbox.profile_named("coder");
        workspace(&sandbox, "mkdir repo");
        let names: Vec<String> = (0..PRIVILEGE.len()).map(|number| format!("line{number}")).collect();
        let lines: Vec<(&str, String)> =
            names.iter().zip(PRIVILEGE).map(|(name, line)| (name.as_str(), (*line).to_owned())).collect();
        let outcome = run_lines(&sandbox, *side, &lines);
        for (name, line) in names.iter().zip(PRIVILEGE) {
            let refused = outcome.values(name) == ["126"];
            outcome.assert(refused == (*side == Side::Gated), &format!("whether it is refused: {line}"));
        }
    }
}

/// Profiles that hold everything hold nothing for long.
fn allowed() {
    if !engine::gated_too() {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.profile_named("coder");
    sandbox.answers("[[answer]]\naccess = \"exec\"\nanswer = \"once\"\n");
    workspace(&sandbox, REPOSITORY);
    let object = sandbox.workspace().join("objects/one");
    empty_repository(&sandbox, &object);
    let lines = [
        "git status --short && git log --oneline && git diff && git branch && git stash list",
        "ls -la; cat /etc/hostname; pwd; which sh; date; find . -name '*.c' | xargs -r cat; rm -f none; env | sort",
        "sh -c 'echo one | sed s/o/0/ >file; cp file other; mv other third; rm third'",
    ];
    let names = ["git", "programs", "files"];
    let mut own: Vec<(&str, String)> = names.into_iter().zip(lines.map(str::to_owned)).collect();
    own.push(("push", format!("git push {} HEAD:refs/heads/hit", object.display())));
    let outcome = run_lines(&sandbox, Side::Gated, &own);
    for name in ["git", "programs", "files", "push"] {
        outcome.assert(outcome.values(name) == ["0"], &format!("{name} works"));
    }
    outcome.assert(object.join("refs/heads/hit").exists(), "a yes lets it through");
    outcome.assert(outcome.events_of("consent_required").count() == 1, "only the push was asked for");
}
