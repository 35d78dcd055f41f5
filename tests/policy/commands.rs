//! From an answer to an exec to a grant: how far it may reach, what it covers, and what it never covers.

use gated::common::access::{Access, Level};
use gated::common::decision::{Lifetime, Term, Width};
use gated::common::exec::{Command, Execution, Step, Version};
use gated::common::id::GrantId;
use gated::common::request::{Operation, Request};
use gated::common::text::Untrusted;
use gated::policy::grants::{offered_widths, remembered};
use gated::policy::variables::carries_code;
use gated::policy::{Grant, Grants, Policy, Profile, Source};

use super::sample::{CALL, OTHER_CALL, bounds, command, file, path, profile, request};

pub fn asked(command: &Command) -> Request {
    let words = |words: &[Vec<u8>]| words.iter().map(|word| Untrusted::new(word.clone())).collect();
    let execution = Execution {
        argv: words(&command.asked.argv),
        words_left_out: 0,
        interpreters: command.interpreters.iter().map(|step| step.program.path.clone()).collect(),
        variables: words(&command.variables),
        parents: Vec::new(),
        is_new: false,
        is_first: false,
        version: command.version,
    };
    Request {
        access: Access::Exec,
        operation: Operation::Execute,
        object: command.asked.program.path.clone(),
        execution: Some(Box::new(execution)),
        ..request("/", false, Lifetime::Session)
    }
}

fn answer(line: &str, width: Width) -> Option<Grant> {
    let request = asked(&command(line));
    Grant::from_answer(GrantId(1), &request, width, Term::Session, "tty:user", &bounds(&path("/home/user"))).ok()
}

fn scope(line: &str, width: Width) -> Option<String> {
    answer(line, width).map(|grant| grant.scope())
}

#[test]
fn an_answer_reaches_the_command_line_its_beginning_or_its_program() {
    use Width::{Exact, Prefix, Program};
    for (line, width, expected) in [
        ("/usr/bin/git push origin 'a b'", Exact, "git push origin 'a b'"),
        ("/usr/bin/git push origin", Prefix, "git push …"),
        ("/usr/bin/git -C d -c k=v push origin", Prefix, "git -C d -c k=v push …"),
        ("/usr/bin/git push", Program, "/usr/bin/git …"),
        ("/usr/bin/npm publish --tag x", Prefix, "npm publish …"),
        ("/usr/bin/rm -rf build", Prefix, "rm -rf build …"),
        ("/usr/bin/curl -V", Prefix, "curl -V …"),
        ("'/srv/my tool' go", Program, "'/srv/my tool' …"),
        ("/srv/x '\u{1b}[2J'", Exact, "x $'\\x1b[2J'"),
    ] {
        assert_eq!(scope(line, width).as_deref(), Some(expected), "{line}");
    }
    assert_eq!(scope("/usr/bin/git push", Width::Tree), None);
    let file = request("/srv/a/f", false, Lifetime::Session);
    for width in [Prefix, Program] {
        assert!(Grant::from_answer(GrantId(1), &file, width, Term::Session, "", &bounds(&path("/home/user"))).is_err());
    }
}

#[test]
fn what_would_be_everything_is_not_offered() {
    let offered = |line: &str| offered_widths(&asked(&command(line)), &path("/home/user"));
    assert_eq!(offered("/usr/bin/git push"), [Width::Exact, Width::Prefix, Width::Program]);
    assert_eq!(offered("/usr/bin/true"), [Width::Exact, Width::Program]);
    assert_eq!(offered("/usr/bin/npm publish"), [Width::Exact, Width::Prefix]);
    for line in [
        "/usr/bin/dash -c x",
        "sh=/usr/bin/dash x.sh",
        "/usr/bin/python3.11 x.py",
        "/usr/bin/perl5.36.0 -e x",
        "/usr/bin/env A=b x",
        "/usr/bin/xargs rm",
        "/usr/bin/busybox ls x",
        "ls=/usr/bin/busybox x",
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/ls",
        "/usr/bin/make x",
        "/usr/bin/sudo ls",
        "env=/srv/x ls",
        "/usr/bin/vim.basic x",
        "/usr/bin/npm run x",
        "/usr/bin/npm --silent exec x",
        "/usr/bin/docker run x",
        "/usr/bin/docker",
    ] {
        assert_eq!(offered(line), [Width::Exact], "{line}");
    }
    assert!(!offered("/usr/bin/git -C x").contains(&Width::Prefix), "a subcommand may follow");
}

#[test]
fn a_command_line_that_was_cut_or_has_no_name_is_asked_each_time() {
    let mut cut = asked(&command("/usr/bin/git push"));
    assert_eq!(remembered(&cut), Lifetime::Session);
    cut.execution.as_mut().unwrap().words_left_out = 1;
    let mut gone = asked(&command("/usr/bin/git push"));
    gone.object = path("/memfd:x (deleted)");
    for request in [cut, gone, Request { execution: None, ..asked(&command("/usr/bin/git")) }] {
        assert_eq!(remembered(&request), Lifetime::Attempt);
        assert_eq!(offered_widths(&request, &path("/home/user")), [Width::Exact]);
        let made =
            Grant::from_answer(GrantId(1), &request, Width::Exact, Term::Session, "", &bounds(&path("/home/user")));
        let made = made.unwrap();
        assert_eq!(made.lifetime, Lifetime::Attempt);
        assert!(!made.answers(&request) && !Grants::new().add(made));
    }
}

const ASKING: &str = r#"
[defaults]
exec = "allow"
[[rule]]
id = "push"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**"]
level = "ask"
[[rule]]
id = "force"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**", "-f", "**"]
level = "authenticate"
[[rule]]
id = "never"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**", "--mirror", "**"]
level = "deny"
[[rule]]
id = "publish"
access = ["exec"]
program = ["@path/npm", "/usr/share/npm/npm-cli.js"]
argv = ["npm", "publish", "**"]
level = "ask"
"#;

/// The level of a command where this answer holds.
fn held(grant: Option<Grant>, command: &Command) -> Level {
    let policy = Policy::new(&profile(ASKING));
    let mut grants = Grants::new();
    assert!(grants.add(grant.unwrap()));
    let verdict = policy.decide_exec(command, CALL, &grants);
    assert_eq!(
        matches!(verdict.source, Source::Grant(0)),
        verdict.level == Level::Allow && verdict.basis != Source::Default
    );
    verdict.level
}

#[test]
fn a_grant_lifts_what_it_covers_and_no_more() {
    for (given, width, line, expected) in [
        ("/usr/bin/git push a", Width::Exact, "/usr/bin/git push a", Level::Allow),
        ("/usr/bin/git push a", Width::Exact, "/usr/bin/git push a b", Level::Ask),
        ("/usr/bin/git push a", Width::Exact, "/usr/bin/git push", Level::Ask),
        ("/usr/bin/git push a", Width::Exact, "git-push=/usr/bin/git a", Level::Ask),
        ("/usr/bin/git push a", Width::Exact, "/usr/local/bin/git push a", Level::Ask),
        ("/usr/bin/git push a", Width::Prefix, "/usr/bin/git push b c", Level::Allow),
        ("/usr/bin/git push a", Width::Prefix, "/usr/bin/git -C x push b", Level::Ask),
        ("/usr/bin/git push a", Width::Prefix, "/usr/bin/git push -f", Level::Authenticate),
        ("/usr/bin/git push a", Width::Prefix, "/usr/bin/git push --mirror", Level::Deny),
        ("/usr/bin/git push a", Width::Program, "/usr/bin/git -C x push b", Level::Allow),
        ("/usr/bin/git push a", Width::Program, "/usr/bin/git push -f", Level::Authenticate),
        ("/usr/bin/git push a", Width::Program, "/usr/bin/git push --mirror", Level::Deny),
    ] {
        assert_eq!(held(answer(given, width), &command(line)), expected, "{given} {width}: {line}");
    }
    let proven = answer("/usr/bin/git push a", Width::Prefix).map(|grant| Grant { authenticated: true, ..grant });
    assert_eq!(held(proven, &command("/usr/bin/git push -f")), Level::Allow);
    let other = answer("/usr/bin/git push a", Width::Exact).map(|grant| Grant { call: Some(OTHER_CALL), ..grant });
    assert_eq!(held(other, &command("/usr/bin/git push a")), Level::Ask);
}

#[test]
fn a_grant_for_words_holds_in_the_directory_that_was_shown() {
    let here = command("/usr/bin/git push remote");
    let elsewhere = Command { cwd: path("/srv/elsewhere"), ..here.clone() };
    let asked = asked(&here);
    assert_eq!(asked.who.cwd, here.cwd);
    let grant =
        |width| Grant::from_answer(GrantId(1), &asked, width, Term::Session, "", &bounds(&path("/home/user"))).ok();
    for (width, there) in [(Width::Exact, Level::Ask), (Width::Prefix, Level::Ask), (Width::Program, Level::Allow)] {
        assert_eq!(held(grant(width), &here), Level::Allow);
        assert_eq!(held(grant(width), &elsewhere), there, "{width}");
    }
}

#[test]
fn a_grant_for_a_file_holds_while_that_is_as_it_was() {
    let version = Version { device: 1, inode: 2, changed: (3, 4) };
    let of = |version| Command { version, ..command("/usr/bin/git push remote") };
    let was = of(Some(version));
    for width in [Width::Exact, Width::Prefix, Width::Program] {
        let grant = || {
            Grant::from_answer(GrantId(1), &asked(&was), width, Term::Session, "", &bounds(&path("/home/user"))).ok()
        };
        assert_eq!(held(grant(), &was), Level::Allow);
        for other in [Some(Version { inode: 3, ..version }), Some(Version { changed: (3, 5), ..version }), None] {
            assert_eq!(held(grant(), &of(other)), Level::Ask, "{width} {other:?}");
        }
    }
}

#[test]
fn a_grant_holds_for_the_same_variables_and_interpreters_alone() {
    let plain = command("/usr/bin/git push");
    let with = |variable: &str| Command { variables: vec![variable.as_bytes().to_vec()], ..plain.clone() };
    let grant = |of: &Command, width| {
        Grant::from_answer(GrantId(1), &asked(of), width, Term::Session, "", &bounds(&path("/home/user"))).ok()
    };
    for width in [Width::Exact, Width::Prefix, Width::Program] {
        assert_eq!(held(grant(&plain, width), &with("LD_PRELOAD=/x")), Level::Ask);
        assert_eq!(held(grant(&with("LD_PRELOAD=/x"), width), &plain), Level::Ask);
        assert_eq!(held(grant(&with("LD_PRELOAD=/x"), width), &with("LD_PRELOAD=/y")), Level::Ask);
        assert_eq!(held(grant(&with("LD_PRELOAD=/x"), width), &with("LD_PRELOAD=/x")), Level::Allow);
        let mut script = plain.clone();
        script.interpreters.push(Step { program: file("/srv/evil"), argv: Vec::new() });
        assert_eq!(held(grant(&plain, width), &script), Level::Ask);
        assert_eq!(held(grant(&script, width), &script), Level::Allow);
    }
    let mut unnamed = plain.clone();
    unnamed.asked.program.is_named = false;
    assert_eq!(
        held(grant(&plain, Width::Exact), &unnamed),
        Level::Ask,
        "it is called git, and is no file of that name"
    );
    let everything = Policy::new(&profile("[defaults]\nexec = \"ask\"\n"));
    let mut grants = Grants::new();
    grants.add(grant(&plain, Width::Program).unwrap());
    assert_eq!(everything.decide_exec(&unnamed, CALL, &grants).level, Level::Ask);
}

#[test]
fn an_answer_for_a_script_holds_when_its_interpreter_is_started_with_it() {
    let script = "npm=/usr/share/npm/npm-cli.js publish";
    let node = |words: &str| Command {
        operand: Some(file("/usr/share/npm/npm-cli.js")),
        ..command(&format!("/usr/bin/node {words}"))
    };
    let asked = Policy::new(&profile(ASKING)).decide_exec(&node("/usr/bin/npm publish"), CALL, &Grants::new());
    assert_eq!(asked.level, Level::Ask);
    assert_eq!(held(answer(script, Width::Exact), &node("/usr/bin/npm publish")), Level::Allow);
    assert_eq!(held(answer(script, Width::Exact), &node("/usr/bin/npm publish --tag x")), Level::Ask);
    assert_eq!(held(answer(script, Width::Exact), &node("--require x /usr/bin/npm publish")), Level::Ask);
}

#[test]
fn an_answer_settles_the_same_command_that_waits() {
    let grant = answer("/usr/bin/git push a", Width::Prefix).unwrap();
    assert!(grant.answers(&asked(&command("/usr/bin/git push b"))));
    assert!(!grant.answers(&asked(&command("/usr/bin/git pull"))));
    assert!(!grant.answers(&asked(&command("/usr/local/bin/git push a"))));
    assert!(!grant.answers(&request("/usr/bin/git", false, Lifetime::Session)));
    let bytes = postcard(&grant);
    assert_eq!(bytes, grant);
}

fn postcard(grant: &Grant) -> Grant {
    let text = serde_json::to_vec(grant).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn a_profile_with_rules_on_programs_survives_its_encoding() {
    let own = profile(ASKING);
    assert_eq!(Profile::decode(&own.encode()).unwrap(), own);
}

#[test]
fn variables_that_carry_code_are_known_by_name() {
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "NODE_OPTIONS",
        "BASH_ENV",
        "PYTHONPATH",
        "GIT_SSH_COMMAND",
        "PAGER",
        "MAKEFLAGS",
    ] {
        assert!(carries_code(name.as_bytes()), "{name}");
    }
    for name in ["HOME", "PATH", "LANG", "GIT_AUTHOR_NAME", "LD", "XLD_PRELOAD", "PYTHONUNBUFFERED", ""] {
        assert!(!carries_code(name.as_bytes()), "{name}");
    }
}
