//! `generate DIRECTORY`, hidden: man pages and completions of the programs whose command lines are defined here, for `make
//! install` to put in place. Runs as whoever installs.
//!
//! | below DIRECTORY | what |
//! |---|---|
//! | `man/man1/NAME.1`, `man/man8/gatedd.8` | man pages; all verbs of gatedctl are in one |
//! | `bash-completion/NAME` | for `PREFIX/share/bash-completion/completions` |
//! | `zsh/_NAME` | for `PREFIX/share/zsh/site-functions` |
//! | `fish/NAME.fish` | for `PREFIX/share/fish/vendor_completions.d` |

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::arguments::Arguments;
use super::completion;
use super::failure::Failure;

/// Our programs, and the sections of the manual that they are in.
fn programs() -> [(Command, &'static str); 4] {
    [
        (Arguments::command(), "1"),
        (crate::ctl::arguments::Arguments::command(), "1"),
        (crate::consent::notify::Arguments::command(), "1"),
        (crate::daemon::process::Arguments::command(), "8"),
    ]
}

pub fn generate(directory: &Path) -> Result<(), Failure> {
    for (command, section) in programs() {
        let name = command.get_name().to_owned();
        let folder = format!("man/man{section}");
        put(directory, &folder, &format!("{name}.{section}"), |page| man(&command, section, page))?;
        // What people type.
        if !["gatedctl", "gated-run"].contains(&name.as_str()) {
            continue;
        }
        for (shell, folder) in [(Shell::Bash, "bash-completion"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let script = completion::script(shell, &command);
            put(directory, folder, &completion::file_name(shell, &name), |file| file.write_all(script.as_bytes()))?;
        }
    }
    Ok(())
}

fn put(
    directory: &Path,
    folder: &str,
    name: &str,
    text: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> Result<(), Failure> {
    let folder = directory.join(folder);
    let path = folder.join(name);
    let mut bytes = Vec::new();
    let written = text(&mut bytes).and_then(|()| fs::create_dir_all(&folder)).and_then(|()| fs::write(&path, &bytes));
    written.map_err(|source| Failure::File { what: "write", path, source })
}

/// A page; each verb has a section of its own in it.
fn man(command: &Command, section: &str, to: &mut Vec<u8>) -> io::Result<()> {
    let mut built = command.clone();
    built.build();
    let verbs = built.clone();
    let name = built.get_name().to_owned();
    // clap_mangen would send the reader to pages of their own for the verbs, which are not installed.
    let man = Man::new(built)
        .title(name.to_uppercase())
        .source(format!("gated {}", env!("CARGO_PKG_VERSION")))
        .manual("gated")
        .section(section);
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if verbs.has_subcommands() {
        let mut roff = Roff::new();
        roff.control("SH", ["VERBS"]);
        describe(&verbs, &mut roff);
        roff.to_writer(to)?;
    }
    status(command, to)?;
    see_also(&name, to)
}

fn describe(command: &Command, roff: &mut Roff) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        if verb.has_subcommands() {
            describe(verb, roff);
            continue;
        }
        roff.control("TP", []);
        roff.text(usage(verb));
        roff.text([roman(verb.get_about().map(ToString::to_string).unwrap_or_default() + ".")]);
        let own = |argument: &&clap::Arg| {
            !argument.is_global_set() && !matches!(argument.get_id().as_str(), "help" | "version")
        };
        let arguments: Vec<&clap::Arg> =
            verb.get_arguments().filter(own).filter(|argument| !argument.is_hide_set()).collect();
        if !arguments.iter().any(|argument| !argument.is_positional()) {
            continue;
        }
        roff.control("RS", []);
        for argument in arguments.into_iter().filter(|argument| !argument.is_positional()) {
            roff.control("TP", []);
            roff.text(option(argument));
            let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let words: Vec<String> =
                argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            if argument.get_action().takes_values() && !words.is_empty() {
                help += &format!(" ({})", words.join(", "));
            }
            for value in argument.get_default_values() {
                if argument.get_action().takes_values() {
                    help += &format!(" [{}]", value.to_string_lossy());
                }
            }
            roff.text([roman(help)]);
        }
        roff.control("RE", []);
    }
}

/// `session stop SESSION`.
fn usage(verb: &Command) -> Vec<Inline> {
    let path = verb.get_display_name().unwrap_or_else(|| verb.get_name());
    let path = path.strip_prefix("gatedctl-").unwrap_or(path).replace('-', " ");
    let mut line = vec![bold(path)];
    for argument in verb.get_positionals() {
        let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        let (open, close) = if argument.is_required_set() { (" ", "") } else { (" [", "]") };
        line.extend([roman(open), italic(name.unwrap_or_default()), roman(close)]);
    }
    if verb
        .get_arguments()
        .any(|argument| !argument.is_positional() && !argument.is_global_set() && argument.get_id() != "help")
    {
        line.push(roman(" [options]"));
    }
    line
}

fn option(argument: &clap::Arg) -> Vec<Inline> {
    let mut line = Vec::new();
    if let Some(short) = argument.get_short() {
        line.extend([bold(format!("-{short}")), roman(", ")]);
    }
    line.push(bold(format!("--{}", argument.get_long().unwrap_or_default())));
    if argument.get_action().takes_values() {
        let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        line.extend([roman(" "), italic(name.unwrap_or_default())]);
    }
    line
}

/// What `--help` says after the options.
fn status(command: &Command, to: &mut Vec<u8>) -> io::Result<()> {
    let Some(text) = command.get_after_help().map(ToString::to_string) else { return Ok(()) };
    let mut roff = Roff::new();
    let (before, list) = text.split_once("Exit status:\n").unwrap_or((&text, ""));
    roff.control("SH", [if list.is_empty() { "EXIT STATUS" } else { "IDS" }]);
    roff.text([roman(before.trim())]);
    if !list.is_empty() {
        roff.control("SH", ["EXIT STATUS"]);
        for line in list.lines() {
            let (number, meaning) = line.trim().split_once("  ").unwrap_or(("", line.trim()));
            roff.control("TP", []);
            roff.text([bold(number)]);
            roff.text([roman(meaning.trim())]);
        }
    }
    roff.to_writer(to)
}

fn see_also(name: &str, to: &mut Vec<u8>) -> io::Result<()> {
    let mut others = Vec::new();
    for (other, section) in programs() {
        if other.get_name() != name {
            let before = if others.is_empty() { "" } else { ", " };
            others.extend([roman(before), bold(other.get_name()), roman(format!("({section})"))]);
        }
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(others);
    roff.to_writer(to)
}
