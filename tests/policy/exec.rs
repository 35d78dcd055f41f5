//! Verdicts on commands: terms of a rule, what beats what whatever the order, and what does not have a name.

use gated::common::access::Level;
use gated::common::exec::{Command, Program};
use gated::common::path::RawPath;
use gated::policy::{Grants, Policy, Profile};
use proptest::prelude::*;

use super::sample::{CALL, any_level, command, file, path, profile};

const RULES: &str = r#"
[[rule]]
id = "push"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**"]
except = [["git", "push", "--dry-run"]]
level = "ask"
reason = "Others see it."

[[rule]]
id = "force"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**", ["-f", "--force*", "+*"], "**"]
level = "authenticate"

[[rule]]
id = "tool"
access = ["exec"]
program = ["~/bin/tool", "/opt/*/bin/tool-*"]
level = "notify"

[[rule]]
id = "never"
access = ["exec"]
program = ["@path/sudo"]
level = "deny"

[[rule]]
id = "preload"
access = ["exec"]
program = ["/**"]
env = ["LD_PRELOAD", "MODE=fast*"]
level = "deny"
"#;

pub fn verdict(policy: &Policy, command: &Command) -> (Level, String) {
    let verdict = policy.decide_exec(command, CALL, &Grants::new());
    (verdict.level, policy.rule(&verdict).id)
}

fn level(policy: &Policy, line: &str) -> Level {
    verdict(policy, &command(line)).0
}

#[test]
fn a_rule_on_a_program_and_its_words_decides() {
    let policy = Policy::new(&profile(RULES));
    for (line, expected) in [
        ("/usr/bin/git push", Level::Ask),
        ("/usr/bin/git push origin main", Level::Ask),
        ("/usr/local/bin/git push", Level::Ask),
        ("/usr/bin/git push --dry-run", Level::Allow),
        ("/usr/bin/git push --dry-run origin", Level::Ask),
        ("/usr/bin/git push origin --force", Level::Authenticate),
        ("/usr/bin/git push origin +main", Level::Authenticate),
        ("/usr/bin/git pull", Level::Allow),
        ("/usr/bin/git", Level::Allow),
        ("/home/user/bin/tool", Level::Notify),
        ("/home/user/bin/tools", Level::Allow),
        ("/opt/x/bin/tool-7 a b", Level::Notify),
        ("/usr/bin/sudo ls", Level::Deny),
        // Not the system's: somebody's own program.
        ("/home/user/git push", Level::Allow),
    ] {
        assert_eq!(level(&policy, line), expected, "{line}");
    }
    assert!(policy.judges_exec());
}

#[test]
fn a_rule_may_ask_for_a_variable() {
    let policy = Policy::new(&profile(RULES));
    let with = |variables: &[&str]| {
        let variables = variables.iter().map(|variable| variable.as_bytes().to_vec()).collect();
        verdict(&policy, &Command { variables, ..command("/usr/bin/true") })
    };
    assert_eq!(with(&[]).0, Level::Allow);
    assert_eq!(with(&["LD_PRELOAD=/x.so"]), (Level::Deny, "preload".into()));
    assert_eq!(with(&["LD_PRELOADED=1", "MODE=slow"]).0, Level::Allow);
    assert_eq!(with(&["MODE=faster"]).0, Level::Deny);
    for (variable, is_judged) in [
        ("MODE=slow", true),
        ("MODE", true),
        ("BASH_ENV=", true),
        ("LANG=C", false),
        ("HOME=/home/user", false),
        ("HOME=/srv/evil", true),
        ("HOME", true),
        ("XDG_CONFIG_HOME=/home/user/.config", false),
        ("XDG_CONFIG_HOME=/srv/evil", true),
    ] {
        assert_eq!(policy.judges_variable(variable.as_bytes()), is_judged, "{variable}");
    }
    // The environment matters where a rule names a variable, and where an answer would be for one of them only.
    assert!(policy.asks_for_environment(&command("/usr/bin/true")));
    let plain = Policy::new(&profile(
        &RULES.replace("env = [\"LD_PRELOAD\", \"MODE=fast*\"]\nlevel = \"deny\"", "level = \"allow\""),
    ));
    assert!(!plain.asks_for_environment(&command("/usr/bin/true")));
    assert!(plain.asks_for_environment(&command("/usr/bin/git push")));
    assert!(!plain.asks_for_environment(&command("/usr/bin/sudo")), "denied whatever it gets");
}

#[test]
fn what_has_no_name_is_only_met_by_what_speaks_of_everything() {
    let text = "[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"PATTERN\"]\nlevel = \"deny\"\n";
    let on = |pattern: &str, path: &str| {
        let policy = Policy::new(&profile(&text.replace("PATTERN", pattern)));
        let program = Program { path: RawPath::from(path), is_named: false, is_of_system: false };
        let mut command = command("/usr/bin/called");
        command.asked.program = program;
        verdict(&policy, &command).0
    };
    assert_eq!(on("/memfd:x (deleted)", "/memfd:x (deleted)"), Level::Allow);
    assert_eq!(on("/usr/bin/*", "/usr/bin/git (deleted)"), Level::Allow);
    assert_eq!(on("**/x*", "/memfd:x (deleted)"), Level::Allow);
    assert_eq!(on("@path", "/memfd:x (deleted)"), Level::Allow);
    assert_eq!(on("/**", "/memfd:x (deleted)"), Level::Deny);
    // What it is called counts, because that is what a person would read.
    assert_eq!(on("@path/called", "/memfd:x (deleted)"), Level::Deny);
}

#[test]
fn without_a_rule_the_default_holds_for_every_program_that_runs() {
    let policy = Policy::new(&profile(
        "[defaults]\nexec = \"ask\"\n[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path/ls\", \"/srv/x.py\"]\nlevel = \"allow\"\n",
    ));
    assert_eq!(verdict(&policy, &command("/usr/bin/ls -l")), (Level::Allow, "a".into()));
    assert_eq!(verdict(&policy, &command("/usr/bin/cat")), (Level::Ask, "default".into()));
    assert_eq!(level(&policy, "ls=/usr/bin/cat"), Level::Ask, "argv[0] makes nothing freer");
    // The interpreter of a script is part of it; an interpreter that is called with a script is the program.
    let mut script = command("/srv/x.py");
    script.interpreters.push(command("/usr/bin/python3 /srv/x.py").asked);
    assert_eq!(verdict(&policy, &script).0, Level::Allow);
    assert_eq!(level(&policy, "/usr/bin/python3 /srv/x.py"), Level::Ask);
    assert!(policy.judges_exec() && !Policy::new(&profile("")).judges_exec());
}

#[test]
fn a_rule_on_an_interpreter_counts_for_its_scripts_and_one_on_a_loader_for_what_it_loads() {
    let policy = Policy::new(&profile(
        "[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path/python3\", \"/srv/ld.so\"]\nlevel = \"ask\"\n",
    ));
    let mut script = command("/srv/x.py");
    script.interpreters.push(command("/usr/bin/python3 /srv/x.py").asked);
    assert_eq!(verdict(&policy, &script).0, Level::Ask);
    let loaded = |loader: &str| verdict(&policy, &Command { loader: Some(file(loader)), ..command("/srv/x") }).0;
    assert_eq!((loaded("/srv/ld.so"), loaded("/lib64/ld-linux-x86-64.so.2")), (Level::Ask, Level::Allow));
}

#[test]
fn a_pattern_means_what_its_link_leads_to() {
    let links = |path: &RawPath| {
        let led = match path.as_bytes() {
            b"/usr/bin/npm" => "/usr/share/nodejs/npm/bin/npm-cli.js",
            b"/bin" => "/usr/bin",
            b"/home/user/bin/deploy" => "/srv/deploy/main.sh",
            _ => return None,
        };
        Some(RawPath::from(led))
    };
    let text = "[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path/npm\", \"~/bin/deploy\", \"/bin/mk*\"]\nargv = [\"x\", \"go\"]\nlevel = \"ask\"\n";
    let policy = Policy::following(&profile(text), &links);
    for line in
        ["npm=/usr/share/nodejs/npm/bin/npm-cli.js go", "/srv/deploy/main.sh go", "/usr/bin/mkfoo go", "/bin/mkfoo go"]
    {
        assert_eq!(level(&policy, line), Level::Ask, "{line}");
    }
    assert_eq!(level(&Policy::new(&profile(text)), "/srv/deploy/main.sh go"), Level::Allow);
}

#[test]
fn too_many_linkers_within_each_other_are_denied() {
    let policy = Policy::new(&profile(RULES));
    let nested = |times: usize| format!("{} /usr/bin/true", "/lib64/ld-linux-x86-64.so.2 ".repeat(times));
    assert_eq!(level(&policy, &nested(3)), Level::Allow);
    assert_eq!(verdict(&policy, &command(&nested(100))), (Level::Deny, "built-in:unreadable".into()));
}

/// All rules one after the other, on the plain reading.
fn naive(profile: &Profile, program: &RawPath, words: &[&str]) -> Level {
    let speaks = |rule: &&gated::policy::model::Rule| {
        let terms = rule.exec.as_ref().unwrap();
        let argv = terms.argv.as_ref().is_none_or(|argv| {
            argv.matches(|at| words.get(at).map(|word| word.as_bytes()), gated::common::argv::Strictness::Exact)
        });
        let is_one = |own: &gated::policy::model::ProgramPattern| match own {
            gated::policy::model::ProgramPattern::Path(pattern) => pattern.matches(program),
            _ => unreachable!(),
        };
        argv && terms.program.iter().any(is_one)
    };
    profile.rules.iter().filter(speaks).map(|rule| rule.level).max().unwrap_or(profile.defaults.exec)
}

fn any_rule() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["\"a\"", "\"b\"", "\"*\"", "\"**\"", "[\"a\", \"c*\"]", "\"*b\""]);
    let program = prop::sample::select(vec!["/p", "/q", "/*", "/x/p", "/x/**", "**/q"]);
    (any_level(), program, prop::collection::vec(word, 0..4), any::<bool>()).prop_map(|(level, program, words, any)| {
        let argv = if any { String::new() } else { format!("argv = [\"x\", {}]\n", words.join(", ")) };
        format!("access = [\"exec\"]\nprogram = [\"{program}\"]\n{argv}level = \"{level}\"\n")
    })
}

proptest! {
    #[test]
    fn the_order_of_rules_does_not_matter(
        rules in prop::collection::vec(any_rule(), 0..8),
        seed in any::<prop::sample::Index>(),
        default in any_level(),
        program in prop::sample::select(vec!["/p", "/q", "/x/p", "/x/y/q", "/r"]),
        words in prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "cd", "ab"]), 0..5),
    ) {
        let text = |order: &[String]| {
            let rules: Vec<String> =
                order.iter().enumerate().map(|(at, rule)| format!("[[rule]]\nid = \"r{at}\"\n{rule}")).collect();
            format!("[defaults]\nexec = \"{default}\"\n{}", rules.concat())
        };
        let mut other = rules.clone();
        other.reverse();
        if !other.is_empty() {
            let by = seed.index(other.len());
            other.rotate_left(by);
        }
        let own = profile(&text(&rules));
        let line = format!("{program} {}", words.join(" "));
        let decided = level(&Policy::new(&own), &line);
        prop_assert_eq!(decided, level(&Policy::new(&profile(&text(&other))), &line));
        prop_assert_eq!(decided, naive(&own, &path(program), &words));
    }

    #[test]
    fn no_words_make_a_decision_fail_or_anything_freer(
        program in prop::sample::select(vec![
            "/usr/bin/git", "/usr/bin/busybox", "/lib64/ld-linux-x86-64.so.2", "/usr/bin/python3", "/usr/bin/sh", "/usr/bin/x",
            "/usr/lib/git-core/git-push", "/usr/bin/coreutils",
        ]),
        words in prop::collection::vec(prop::sample::select(vec![
            "git", "push", "-C", "-rf", "--", "--argv0", "busybox", "/lib/ld-linux.so.2", "sh", "-c", "-m", "--x=y", "", "-",
            "git-push", "--preload", "ld.so", "python3", "--coreutils-prog=rm", "..", "../..", "/",
        ]), 0..8),
        called in prop::sample::select(vec!["", "-", "git-push", "-git-status", "busybox", "ls", "/", "-sh"]),
    ) {
        let mut command = command(program);
        command.asked.argv = std::iter::once(called).chain(words.iter().copied()).map(|word| word.as_bytes().to_vec()).collect();
        let all = "[[rule]]\nid = \"all\"\naccess = [\"exec\"]\nprogram = [\"/**\"]\nlevel = \"ask\"\n";
        let allowing = "[[rule]]\nid = \"b\"\naccess = [\"exec\"]\nprogram = [\"@path/*\"]\nlevel = \"allow\"\n";
        let policy = Policy::new(&profile(&format!("{all}{allowing}")));
        prop_assert!(verdict(&policy, &command).0 >= Level::Ask);
        let denied = Policy::new(&profile("[defaults]\nexec = \"deny\"\n[[rule]]\nid = \"b\"\naccess = [\"exec\"]\nprogram = [\"/nowhere/x\"]\nlevel = \"ask\"\n"));
        prop_assert_eq!(verdict(&denied, &command).0, Level::Deny);
    }
}
