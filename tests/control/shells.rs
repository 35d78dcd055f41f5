//! Man pages and completions, by the real man(1), bash, zsh and fish.

use std::path::Path;
use std::process::Command;

use crate::daemon::{FIRST, SECOND, Simulated, programs, world};

fn generated() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_gatedctl")).arg("generate").arg(place.path()).status().unwrap();
    assert!(status.success());
    place
}

/// With our programs first in PATH, and the simulated daemon's bus.
fn shell(program: &str, simulated: &Simulated) -> Command {
    let mut command = Command::new(program);
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").expect("a PATH"));
    command.env("PATH", path).env("DBUS_SYSTEM_BUS_ADDRESS", simulated.bus.address());
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("is installed");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn pages_render_without_a_warning_and_name_every_verb_and_option() {
    let place = generated();
    for (name, section, words) in [
        ("gatedctl", 1, &["session stop SESSION", "approve REQUEST", "--scope", "EXIT STATUS", "gated-run(1)"][..]),
        ("gated-run", 1, &["--profile", "--consent", "EXIT STATUS", "gatedctl(1), gated-notify(1), gatedd(8)"]),
        ("gated-notify", 1, &["desktop"]),
        ("gatedd", 8, &["--policy-root", "(8)"]),
    ] {
        let page = place.path().join(format!("man/man{section}/{name}.{section}"));
        let mut man = Command::new("man");
        man.args(["--warnings", "--no-hyphenation", "-l"]).arg(&page).env("MANWIDTH", "100").env("LC_ALL", "C.UTF-8");
        let text = output(man.env_remove("MAN_KEEP_FORMATTING"));
        for word in words {
            assert!(text.contains(word), "{word} is not in\n{text}");
        }
        // Every option that --help knows is on the page.
        let help = output(Command::new(programs().join(name)).arg("--help"));
        for option in help.split_whitespace().filter(|word| word.starts_with("--")) {
            assert!(text.contains(option.trim_end_matches([',', ']'])), "{option} is not in\n{text}");
        }
        assert!(!text.contains("generate") && !text.contains("ids KIND"), "{text}");
    }
}

/// The words that bash offers after `words`, the last of which is being typed.
fn bash(place: &Path, simulated: &Simulated, words: &[&str]) -> Vec<String> {
    let script = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        function=$(complete -p gatedctl); function=${function#*-F }; function=${function%% *}
        "$function" gatedctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut command = shell("bash", simulated);
    command.args(["--norc", "--noprofile", "-c", script, "bash"]).arg(place.join("bash-completion/gatedctl"));
    output(command.args(words)).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_options_and_live_ids() {
    let (place, simulated) = (generated(), Simulated::start(world()));
    let offered = |words: &[&str]| bash(place.path(), &simulated, words);
    assert!(offered(&["gatedctl", "se"]).iter().any(|word| word == "sessions"));
    assert_eq!(offered(&["gatedctl", "pend"]), ["pending"]);
    assert!(offered(&["gatedctl", "approve", FIRST, "--"]).iter().any(|word| word == "--scope"));
    assert_eq!(offered(&["gatedctl", "approve", "--scope", "tr"]), ["tree"]);
    let mut ids = offered(&["gatedctl", "approve", "3074"]);
    ids.sort();
    assert_eq!(ids, [FIRST, SECOND]);
    assert_eq!(offered(&["gatedctl", "approve", "--session", "307482af"]), [FIRST]);
    assert_eq!(offered(&["gatedctl", "--json", "show", "307482b"]), [SECOND]);
    assert_eq!(offered(&["gatedctl", "session", "stop", ""]).len(), 2);
    assert_eq!(offered(&["gatedctl", "watch", "--session", "e5"]), ["e52266a8"]);
    assert_eq!(offered(&["gatedctl", "audit", "--since", "1h", "--session", "e5"]), ["e52266a8"]);
    assert_eq!(offered(&["gatedctl", "revoke", "fe"]), ["fedcba9876543210"]);
    assert!(offered(&["gatedctl", "gen"]).is_empty() && offered(&["gatedctl", "id"]).is_empty());
}

#[test]
fn fish_completes_live_ids() {
    let (place, simulated) = (generated(), Simulated::start(world()));
    let offered = |line: &str| {
        let mut command = shell("fish", &simulated);
        command.env("HOME", place.path()).env("XDG_CONFIG_HOME", place.path());
        command.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
        let text = output(command.arg(place.path().join("fish/gatedctl.fish")).arg(line));
        text.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let mut ids = offered("gatedctl approve 3074");
    ids.sort();
    assert_eq!(ids, [FIRST, SECOND]);
    assert_eq!(offered("gatedctl show a1"), ["a1b2c3d4b65b0005cc86e9cd59ebb38e"]);
    assert_eq!(offered("gatedctl session show e5"), ["e52266a8"]);
    assert_eq!(offered("gatedctl audit --session e5"), ["e52266a8"]);
    assert_eq!(offered("gatedctl revoke fe"), ["fedcba9876543210"]);
    assert_eq!(offered("gatedctl pend"), ["pending"]);
}

/// On a terminal, as zsh completes nowhere else.
#[test]
fn zsh_completes_live_ids() {
    let (place, simulated) = (generated(), Simulated::start(world()));
    let script = r#"
        set timeout 30
        log_user 0
        spawn zsh -f -i
        send "PS1=ready; unsetopt beep; fpath=($env(COMPLETIONS) \$fpath); autoload -Uz compinit; compinit -u -D; echo is-\"set\"\r"
        expect "is-set" {} timeout { puts "no zsh"; exit 1 }
        proc offers {typed whole} {
            send "\025$typed\t"
            expect "$whole" { puts $whole } timeout { puts "no $whole"; exit 1 }
        }
        offers "gatedctl approve 307482a" "307482afb65b0005cc86e9cd59ebb38e"
        offers "gatedctl session stop e5" "e52266a8"
        offers "gatedctl revoke fe" "fedcba9876543210"
        offers "gatedctl audit --session 0b" "0badcafe"
        send "\025exit\r"
        expect eof
    "#;
    let mut command = shell("expect", &simulated);
    command
        .args(["-c", script])
        .env("COMPLETIONS", place.path().join("zsh"))
        .env("TERM", "dumb")
        .env("HOME", place.path());
    let text = output(&mut command);
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), [FIRST, "e52266a8", "fedcba9876543210", "0badcafe"]);
}
