//! Completions for shells: what clap knows of the command line, and live ids, which the scripts ask `gatedctl ids` for. Where
//! an id belongs follows from the names of arguments in `arguments.rs`. Runs as the caller, at build time or behind a Tab key.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::{Generator, Shell, generate};

use super::daemon::Daemon;
use super::failure::Failure;
use super::ids::Kind;

/// How long a Tab key may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Live ids for a completion, one a line. What cannot be had is not offered, and nothing is said of it.
pub async fn ids(kind: Kind) -> Result<(), Failure> {
    let found = tokio::time::timeout(PATIENCE, find(kind)).await;
    let Ok(Ok(ids)) = found else { return Ok(()) };
    let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
    Ok(std::io::stdout().write_all(lines.as_bytes())?)
}

async fn find(kind: Kind) -> Result<Vec<String>, Failure> {
    let daemon = Daemon::connect().await?;
    Ok(match kind {
        Kind::Request => daemon.objects().await?.pending.into_iter().map(|pending| pending.id).collect(),
        Kind::Session => daemon.objects().await?.sessions.into_iter().map(|session| session.id).collect(),
        Kind::Grant => daemon.grants(None).await?.into_iter().map(|grant| grant.id).collect(),
    })
}

/// Where an id is taken.
#[derive(Debug)]
struct Place {
    /// `session show`; empty for the program itself.
    verb: String,
    kind: Kind,
    /// `--session`; `None` for the verb's own word.
    option: Option<String>,
}

fn places(command: &Command, name: &str, found: &mut Vec<Place>) {
    for argument in command.get_arguments().filter(|argument| argument.get_action().takes_values()) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == argument.get_id().as_str());
        let option = argument.get_long().map(|long| format!("--{long}"));
        found.extend(kind.map(|kind| Place { verb: name.to_owned(), kind, option }));
    }
    for verb in command.get_subcommands() {
        places(verb, format!("{name} {}", verb.get_name()).trim_start(), found);
    }
}

/// The options that take a word, which is then no verb, each with its verb.
fn options_with_words(command: &Command, above: &str, found: &mut Vec<String>) {
    let takes_word = |argument: &&Arg| argument.get_action().takes_values() && !argument.is_positional();
    for argument in command.get_arguments().filter(takes_word) {
        found.extend(argument.get_long().map(|long| format!("'{above},--{long}'")));
        found.extend(argument.get_short().map(|short| format!("'{above},-{short}'")));
    }
    for verb in command.get_subcommands() {
        let name = if above.is_empty() { verb.get_name().to_owned() } else { format!("{above} {}", verb.get_name()) };
        options_with_words(verb, &name, found);
    }
}

/// A shell's script for one of our programs.
pub fn script(shell: Shell, command: &Command) -> String {
    let mut command = command.clone();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(shell, &mut command, name.clone(), &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    command.build();
    let mut found = Vec::new();
    places(&command, "", &mut found);
    if found.is_empty() {
        return script;
    }
    match shell {
        Shell::Bash => script.push_str(&bash(&name, &command, &found)),
        Shell::Zsh => script = zsh(&script, &found),
        Shell::Fish => script.push_str(&fish(&name, &found)),
        _ => {}
    }
    script
}

/// The file's name, as the shell looks for it.
pub fn file_name(shell: Shell, name: &str) -> String {
    match shell {
        // bash-completion loads a file of the command's own name.
        Shell::Bash => name.to_owned(),
        other => other.file_name(name),
    }
}

/// A function around clap's own, which says what is live.
fn bash(name: &str, command: &Command, places: &[Place]) -> String {
    let mut options = Vec::new();
    options_with_words(command, "", &mut options);
    // As clap names it.
    let function = name.replace('-', "__");
    let mut script = format!(
        "
# Ids that are live now, after what clap knows.
_{function}_live() {{
    _{function} \"$@\"
    local cur=\"${{COMP_WORDS[COMP_CWORD]}}\" prev=\"${{COMP_WORDS[COMP_CWORD-1]}}\" verb= kind= word= skip= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=\"${{COMP_WORDS[i]}}\"
        if [[ -n $skip ]]; then skip=; continue; fi
        case \"$verb,$word\" in
            {}) skip=1 ;;
            *,-*) ;;
            *) verb+=\"${{verb:+ }}$word\" ;;
        esac
    done
    case \"$verb,$prev\" in
",
        options.join("|")
    );
    for Place { verb, kind, option } in places.iter().filter(|place| place.option.is_some()) {
        let option = option.as_deref().unwrap_or_default();
        let _written = writeln!(script, "        '{verb},{option}') kind={kind} ;;");
    }
    script.push_str("        *)\n            [[ -n $skip || $cur == -* ]] || case \"$verb\" in\n");
    for Place { verb, kind, .. } in places.iter().filter(|place| place.option.is_none()) {
        let _written = writeln!(script, "                '{verb}') kind={kind} ;;");
    }
    let _written = write!(
        script,
        "            esac ;;
    esac
    if [[ -n $kind ]]; then
        COMPREPLY=($(compgen -W \"$(gatedctl ids \"$kind\" 2>/dev/null)\" -- \"$cur\"))
    fi
}}
complete -F _{function}_live -o bashdefault -o default {name}
"
    );
    script
}

/// clap completes these words as files; they are ids.
fn zsh(script: &str, places: &[Place]) -> String {
    let mut changed = String::with_capacity(script.len());
    for line in script.lines() {
        let place = places.iter().find(|place| match &place.option {
            Some(option) => line.starts_with(&format!("'{option}=")),
            None => line.starts_with(&format!("':{}", place.kind)) || line.starts_with(&format!("'::{}", place.kind)),
        });
        match place.and_then(|place| Some((place, line.strip_suffix(":_default' \\")?))) {
            Some((place, before)) => {
                let _written = writeln!(changed, "{before}:_gatedctl_live_{}' \\", place.kind);
            }
            None => {
                changed.push_str(line);
                changed.push('\n');
            }
        }
    }
    let mut functions = String::new();
    for kind in Kind::ALL {
        let _written = write!(
            functions,
            "
(( $+functions[_gatedctl_live_{kind}] )) ||
_gatedctl_live_{kind}() {{
    local -a found
    found=(${{(f)\"$(_call_program ids gatedctl ids {kind} 2>/dev/null)\"}})
    compadd -a found
}}
"
        );
    }
    // Before the lines that run or register the completion.
    match changed.find("\nif [ \"$funcstack[1]\"") {
        Some(at) => changed.insert_str(at, &functions),
        None => changed.push_str(&functions),
    }
    changed
}

fn fish(name: &str, places: &[Place]) -> String {
    let mut script = String::from("\n# Ids that are live now.\n");
    for Place { verb, kind, option } in places {
        let seen = match verb.split_once(' ') {
            Some((first, then)) => {
                format!("__fish_{name}_using_subcommand {first}; and __fish_seen_subcommand_from {then}")
            }
            None if verb.is_empty() => "true".to_owned(),
            None => format!("__fish_{name}_using_subcommand {verb}"),
        };
        let option = option.as_deref().and_then(|option| option.strip_prefix("--"));
        let option = option.map_or("-f".to_owned(), |option| format!("-l {option} -x"));
        let _written =
            writeln!(script, "complete -c {name} -n '{seen}' {option} -a '(gatedctl ids {kind} 2>/dev/null)'");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `gated-run --session ID COMMAND...` takes one.
    #[test]
    fn an_option_of_a_program_without_verbs_is_completed_before_its_command() {
        let command = Command::new("gated-run")
            .arg(Arg::new("session").long("session").value_name("ID"))
            .arg(Arg::new("command").num_args(0..).trailing_var_arg(true));
        let bash = script(Shell::Bash, &command);
        assert!(bash.contains("_gated__run_live()") && bash.contains("',--session') kind=session"), "{bash}");
        let checked = std::process::Command::new("bash").args(["-n", "-c", &bash]).status().unwrap();
        assert!(checked.success());
        assert!(script(Shell::Zsh, &command).contains(":ID:_gatedctl_live_session'"));
        assert!(script(Shell::Fish, &command).contains("-l session -x -a '(gatedctl ids session"));
    }
}
