//! Ways around a rule by another name, another form of the same words, or another program that does the same: each is read as
//! what it is, and none makes anything freer.

use gated::common::access::Level;
use gated::common::exec::Command;
use gated::policy::{Grants, Policy, explain, operand};

use super::exec::verdict;
use super::sample::{CALL, command, file, profile};

fn policy() -> Policy {
    Policy::new(&profile(
        r#"
[[rule]]
id = "push"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**"]
level = "ask"

[[rule]]
id = "delete"
access = ["exec"]
program = ["@path/git"]
argv = ["git", "push", "**", ["-d", "--delete"], "**"]
level = "authenticate"

[[rule]]
id = "remove"
access = ["exec"]
program = ["@path/rm"]
argv = ["rm", "**", ["-r", "-R", "--recursive"], "**"]
level = "ask"

[[rule]]
id = "deploy"
access = ["exec"]
program = ["/srv/deploy.py", "@path/twine"]
level = "ask"
"#,
    ))
}

#[test]
fn git_is_read_through_its_global_options_and_its_hard_links() {
    for (line, rule) in [
        ("/usr/bin/git -C d push", "push"),
        ("/usr/bin/git -c x=y -C d push origin", "push"),
        ("/usr/bin/git --git-dir=/x --work-tree /y --no-pager -p --namespace n push", "push"),
        ("/usr/bin/git --config-env a=B --exec-path=/x --bare push -d x", "delete"),
        ("/usr/lib/git-core/git-push origin", "push"),
        ("git=/usr/lib/git-core/git-push push origin", "push"),
        ("/usr/lib/git-core/git push", "push"),
        ("git-push=/usr/bin/git origin", "push"),
        ("/usr/lib/git-core/git-push=/usr/bin/git origin", "push"),
        ("git-push=/usr/lib/git-core/git-status --delete x", "delete"),
        ("xyz=/usr/bin/git push", "push"),
        ("/usr/bin/git --shallow-file x push", "push"),
        ("/usr/bin/git --of-tomorrow x push", "push"),
        ("/usr/bin/git push -nd x", "delete"),
        ("/usr/bin/git push --del x", "delete"),
        ("/usr/bin/git push --delete=x", "delete"),
    ] {
        assert_eq!(verdict(&policy(), &command(line)).1, rule, "{line}");
    }
    for line in [
        "/usr/bin/git -C push status",
        "/usr/bin/git --git-dir push status",
        "/usr/bin/git status push",
        "/usr/bin/git-lfs push",
        "/usr/bin/git --no-pager",
    ] {
        assert_eq!(verdict(&policy(), &command(line)).0, Level::Allow, "{line}");
    }
}

#[test]
fn options_in_one_word_and_cut_short_are_the_same_options() {
    for line in [
        "/usr/bin/rm -r x",
        "/usr/bin/rm -rf x",
        "/usr/bin/rm -fvr x",
        "/usr/bin/rm x -Rf",
        "/usr/bin/rm --recursive x",
        "/usr/bin/rm --rec x",
        "/usr/bin/rm --r x",
    ] {
        assert_eq!(verdict(&policy(), &command(line)).1, "remove", "{line}");
    }
    for line in ["/usr/bin/rm x", "/usr/bin/rm -f x", "/usr/bin/rm -- -fr", "/usr/bin/rm --force x", "/usr/bin/rm -"] {
        assert_eq!(verdict(&policy(), &command(line)).0, Level::Allow, "{line}");
    }
}

#[test]
fn a_hole_is_exact_in_a_rule_that_asks_and_generous_in_one_that_allows() {
    let asking = "[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path/git\"]\nargv = [\"git\", \"clean\", \"**\"]\n\
                  except = [[\"git\", \"clean\", \"-n\"]]\nlevel = \"ask\"\n";
    let policy = Policy::new(&profile(asking));
    assert_eq!(verdict(&policy, &command("/usr/bin/git clean -n")).0, Level::Allow);
    assert_eq!(verdict(&policy, &command("/usr/bin/git clean -fn")).0, Level::Ask);
    let allowing = "[defaults]\nexec = \"ask\"\n[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path/git\"]\n\
                    argv = [\"git\", \"branch\", \"**\"]\nexcept = [[\"git\", \"branch\", \"**\", [\"-D\", \"--delete\"], \"**\"]]\nlevel = \"allow\"\n";
    let policy = Policy::new(&profile(allowing));
    assert_eq!(verdict(&policy, &command("/usr/bin/git branch -v")).0, Level::Allow);
    for line in ["/usr/bin/git branch -D x", "/usr/bin/git branch -qD x", "/usr/bin/git branch --del x"] {
        assert_eq!(verdict(&policy, &command(line)).0, Level::Ask, "{line}");
    }
}

#[test]
fn a_program_that_is_many_is_the_one_that_it_is_called_as_or_told_to_be() {
    for line in [
        "/usr/bin/busybox rm -r x",
        "/usr/bin/busybox busybox /bin/rm -rf x",
        "rm=/usr/bin/busybox -r x",
        "-rm=/usr/bin/busybox -r x",
        "/bin/rm=/usr/bin/busybox -r x",
        "/usr/bin/toybox rm -r x",
        "/usr/bin/coreutils --coreutils-prog=rm -r x",
        "rm=/usr/bin/coreutils -r x",
        "/srv/busybox rm -r x",
    ] {
        assert_eq!(verdict(&policy(), &command(line)).1, "remove", "{line}");
    }
    for line in ["/usr/bin/busybox ls -r", "ls=/usr/bin/busybox rm -r", "/usr/bin/busybox"] {
        assert_eq!(verdict(&policy(), &command(line)).0, Level::Allow, "{line}");
    }
    let allowing = Policy::new(&profile(
        "[defaults]\nexec = \"ask\"\n[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path/ls\"]\nlevel = \"allow\"\n\
         [[rule]]\nid = \"b\"\naccess = [\"exec\"]\nprogram = [\"@path/git\"]\nargv = [\"git\", \"status\", \"**\"]\nlevel = \"allow\"\n",
    ));
    for (line, expected) in [
        ("ls=/usr/bin/busybox", Level::Allow),
        ("/usr/bin/busybox ls", Level::Allow),
        ("sh=/usr/bin/busybox ls", Level::Ask),
        ("/usr/bin/busybox sh ls", Level::Ask),
        ("ls=/srv/busybox", Level::Ask),
        ("ls=/usr/bin/env", Level::Ask),
        ("/usr/bin/git status", Level::Allow),
        ("/usr/bin/git -C x status", Level::Allow),
        ("git-push=/usr/bin/git status", Level::Ask),
        ("-git-status=/usr/bin/git update-ref", Level::Ask),
        ("git-status=/usr/bin/git -s", Level::Allow),
        ("git-status=/usr/bin/env -s", Level::Ask),
        ("/usr/lib/git-core/git-status", Level::Allow),
        ("git-status=/usr/lib/git-core/git-push", Level::Ask),
        ("git=/usr/bin/git-lfs status", Level::Ask),
        ("/home/user/git status", Level::Ask),
    ] {
        assert_eq!(verdict(&allowing, &command(line)).0, expected, "{line}");
    }
}

#[test]
fn what_a_linker_loads_is_what_runs() {
    let linker = "/lib64/ld-linux-x86-64.so.2";
    for words in [
        "/usr/bin/git push",
        "--library-path /x --preload y.so /usr/bin/git push",
        "--argv0 git-push /usr/bin/git origin",
        "--inhibit-cache -- git push",
        "../../usr/bin/git push",
        "./git -C x push",
        "/usr/../usr/bin/./git push",
        "/usr/bin/busybox sh /srv/deploy.py",
        "/lib/x86_64-linux-musl/libc.so /usr/bin/git push",
        "/lib/ld-musl-x86_64.so.1 /usr/bin/git push",
    ] {
        let (level, rule) = verdict(&policy(), &command(&format!("{linker} {words}")));
        assert_eq!(level, Level::Ask, "{words}: {rule}");
    }
    for linker in ["/usr/lib/x86_64-linux-musl/libc.so", "/lib/libc.musl-x86_64.so.1"] {
        let command = command(&format!("{linker} /usr/bin/git push"));
        assert_eq!(verdict(&policy(), &command).0, Level::Ask, "{linker} is musl's linker");
    }
    for words in ["--list /usr/bin/git push", "--verify /usr/bin/git", "--version", "/usr/bin/git pull", ""] {
        assert_eq!(verdict(&policy(), &command(&format!("{linker} {words}"))).0, Level::Allow, "{words}");
    }
    let mut followed = command(&format!("{linker} ./x push"));
    assert_eq!(operand(&followed.asked), Some(b"./x".as_slice()));
    assert_eq!(verdict(&policy(), &followed).0, Level::Allow);
    followed.operand = Some(file("/usr/bin/git"));
    assert_eq!(verdict(&policy(), &followed).1, "push", "the supervisor knows where the text leads");
    let traced = Command {
        variables: vec![b"LD_TRACE_LOADED_OBJECTS=1".to_vec()],
        ..command(&format!("{linker} /usr/bin/git push"))
    };
    assert_eq!(verdict(&policy(), &traced).0, Level::Allow, "ldd(1) runs nothing");
    for other in ["/lib/x86_64-linux-musl/libc.so", "/lib/ld-musl-x86_64.so.1", "/srv/ld-linux-x86-64.so.2"] {
        let traced = Command { variables: traced.variables.clone(), ..command(&format!("{other} /usr/bin/git push")) };
        assert_eq!(verdict(&policy(), &traced).1, "push", "{other} does");
    }
    let strict = Policy::new(&profile(
        "[defaults]\nexec = \"ask\"\n[[rule]]\nid = \"a\"\naccess = [\"exec\"]\nprogram = [\"@path\"]\nlevel = \"allow\"\n",
    ));
    assert_eq!(
        verdict(&strict, &command(&format!("{linker} /usr/bin/true"))).0,
        Level::Ask,
        "nobody followed the text"
    );
    let known = |program: &str| {
        let command = command(&format!("{linker} {program}"));
        verdict(&strict, &Command { operand: Some(file(program)), ..command }).0
    };
    assert_eq!((known("/usr/bin/true"), known("/srv/evil")), (Level::Allow, Level::Ask));
}

#[test]
fn an_interpreter_with_a_script_is_that_script() {
    for line in [
        "/usr/bin/python3 /srv/deploy.py",
        "/usr/bin/python3.11 -u -W ignore ./deploy.py now",
        "/usr/bin/bash -e -o pipefail deploy.py",
        "/usr/bin/busybox sh deploy.py",
        "/usr/bin/perl -I lib -- deploy.py",
        "/usr/bin/java -cp x -jar deploy.py",
        "/usr/bin/gawk -f deploy.py",
        "/usr/bin/python3 -m twine upload x",
        "/usr/bin/python3 -m twine.cli upload x",
        "/usr/bin/node --require x deploy.py",
        "/usr/bin/make -f deploy.py",
        "/usr/bin/make -C x -j4 all -fdeploy.py",
        "/usr/bin/python3 -mtwine upload x",
        "/usr/bin/python3 -Im twine upload x",
        "/usr/bin/python3 -Wignore deploy.py",
        "/usr/bin/bash -euo pipefail deploy.py",
        "/usr/bin/perl -w -Ilib -MList::Util deploy.py",
        "/usr/bin/php -dx=y -f deploy.py",
    ] {
        assert_eq!(verdict(&policy(), &command(line)).1, "deploy", "{line}");
    }
    for line in [
        "/usr/bin/bash -lc 'cat /srv/deploy.py'",
        "/usr/bin/perl -ne /srv/deploy.py",
        "/usr/bin/perl -i.bak -pe s/x/deploy.py x",
        "/usr/bin/node --eval=x deploy.py",
        "/usr/bin/python3 -Ic /srv/deploy.py",
        "/usr/bin/bash -c deploy.py",
        "/usr/bin/python3 x.py deploy.py",
        "/usr/bin/gawk deploy.py",
        "/usr/bin/cat deploy.py",
    ] {
        assert_eq!(verdict(&policy(), &command(line)).0, Level::Allow, "{line}");
    }
    assert_eq!(operand(&command("/usr/bin/python3 -u ./x.py a").asked), Some(b"./x.py".as_slice()));
    assert_eq!(operand(&command("/usr/bin/python3 -m x").asked), None);
    assert_eq!(operand(&command("/usr/bin/ls x").asked), None);
    let followed = Command { operand: Some(file("/srv/deploy.py")), ..command("/usr/bin/sh /tmp/link") };
    assert_eq!(verdict(&policy(), &followed).1, "deploy");
}

#[test]
fn interpreters_of_scripts_are_read_as_what_they_are() {
    let with = |words: &str| {
        let mut script = command("./push");
        script.interpreters.push(command(words).asked);
        verdict(&policy(), &script)
    };
    assert_eq!(with("/usr/bin/git push").1, "push");
    assert_eq!(with("/usr/bin/busybox rm -r").1, "remove");
    assert_eq!(with("/lib64/ld-linux-x86-64.so.2 /usr/bin/git push").1, "push");
    assert_eq!(with("/usr/bin/python3 ./push").0, Level::Allow);
}

#[test]
fn a_name_that_is_only_said_counts_for_rules_above_allow_alone() {
    assert_eq!(verdict(&policy(), &command("rm=/srv/x -r y")).1, "remove");
    assert_eq!(verdict(&policy(), &command("twine=/srv/x")).1, "deploy");
}

#[test]
fn a_verdict_says_which_words_its_rule_speaks_of() {
    let said = |line: &str| {
        let command = command(line);
        explain::execution(&policy(), &command, &policy().decide_exec(&command, CALL, &Grants::new()))
    };
    assert_eq!(said("/usr/bin/git push 'a b'"), "ask: rule push (p.toml:6)");
    assert_eq!(said("/usr/bin/git -C x push 'a b'"), "ask: rule push (p.toml:6), for git push 'a b'");
    assert_eq!(said("/usr/bin/busybox rm -rf x"), "ask: rule remove (p.toml:20), for rm -rf x");
    assert_eq!(said("/usr/bin/python3 -m twine upload"), "ask: rule deploy (p.toml:27), for twine upload");
    assert_eq!(said("/usr/bin/true"), "allow: rule default (p.toml)");
}
