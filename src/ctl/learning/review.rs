//! A proposal looked over, rule by rule, at a terminal. Runs as the person who reads it; nothing is written before the end.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Draft, LearnError, Learner, put_over, step};
use crate::common::access::Level;
use crate::common::text;
use crate::policy::load::is_profile_name;

/// The terminal of whoever looks it over.
pub struct Person {
    input: BufReader<File>,
    output: File,
}

impl Person {
    /// `None` where nobody can be asked: no controlling terminal, or stdin or stderr is none.
    pub fn find() -> Option<Person> {
        use std::io::IsTerminal;
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Person { input: BufReader::new(tty.try_clone().ok()?), output: tty })
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }

    /// The line that is typed; `None` at the end of the terminal.
    fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        self.say(question)?;
        let mut line = String::new();
        Ok((self.input.read_line(&mut line)? > 0).then(|| line.trim().to_owned()))
    }
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Reviewed {
    Written(PathBuf),
    Left,
}

/// Shows every rule, asks about each, and writes what is kept into the folder.
pub fn review(
    person: &mut Person,
    draft: &mut Draft,
    learner: &Learner,
    folder: &Path,
) -> Result<Reviewed, LearnError> {
    let failed = || step("use the terminal");
    let all = draft.proposal.rules.len();
    let heading = format!(
        "\nLearned: {all} rules are proposed on top of the profile {}. Each is added only if you keep it.\n",
        draft.proposal.base
    );
    person.say(&heading).map_err(failed())?;
    for note in &draft.proposal.notes {
        person.say(&format!("# {note}\n")).map_err(failed())?;
    }
    let mut kept: Vec<String> = Vec::new();
    for (number, rule) in draft.proposal.rules.clone().iter().enumerate() {
        let mut current = rule.text(None);
        let verdict = loop {
            person.say(&format!("\n{}", added(&current))).map_err(failed())?;
            let question =
                format!("{}/{all}  keep? [y]es, [n]o, [a]sk each time, [e]dit, [q]uit: ", number.saturating_add(1));
            let answer = person.ask(&question).map_err(failed())?;
            match answer.as_deref() {
                Some("y" | "yes") => break Some(current),
                Some("n" | "no") => break None,
                Some("a" | "ask") => break Some(rule.text(Some(Level::Ask))),
                Some("e" | "edit") => match edited(&current) {
                    Ok(text) => current = text,
                    Err(error) => person.say(&format!("cannot edit it: {error}\n")).map_err(failed())?,
                },
                Some("q" | "quit") | None => return Ok(Reviewed::Left),
                Some(_) => person.say("y, n, a, e or q was expected\n").map_err(failed())?,
            }
        };
        kept.extend(verdict);
    }
    if kept.is_empty() {
        return Ok(Reviewed::Left);
    }
    write(person, draft, learner, folder, &kept)
}

fn write(
    person: &mut Person,
    draft: &mut Draft,
    learner: &Learner,
    folder: &Path,
    kept: &[String],
) -> Result<Reviewed, LearnError> {
    let failed = || step("use the terminal");
    loop {
        let mut name = draft.proposal.name.clone();
        if draft.extends() {
            let Some(typed) = person.ask(&format!("\nName of the profile [{name}]: ")).map_err(failed())? else {
                return Ok(Reviewed::Left);
            };
            if !typed.is_empty() {
                name = typed;
            }
        }
        if !is_profile_name(&name) {
            person.say("1 to 64 letters, digits, `-`, `_` and `.` were expected\n").map_err(failed())?;
            continue;
        }
        draft.set_name(&name);
        let whole: String =
            std::iter::once(draft.header()).chain(kept.iter().map(|rule| format!("\n{rule}"))).collect();
        let (whole, summary) = match draft.check(&whole, learner) {
            Ok(summary) => (whole, summary),
            Err(error) => {
                let question = format!("{error}\n[e]dit the whole file, or [q]uit: ");
                match person.ask(&question).map_err(failed())?.as_deref() {
                    Some("e" | "edit") => match edited(&whole) {
                        Ok(text) => match draft.check(&text, learner) {
                            Ok(summary) => (text, summary),
                            Err(error) => {
                                person.say(&format!("{error}\n")).map_err(failed())?;
                                continue;
                            }
                        },
                        Err(error) => {
                            person.say(&format!("cannot edit it: {error}\n")).map_err(failed())?;
                            continue;
                        }
                    },
                    _ => return Ok(Reviewed::Left),
                }
            }
        };
        let path = folder.join(format!("{name}.toml"));
        let there = fs::read(&path).ok();
        if let Some(old) = &there {
            let old = String::from_utf8_lossy(old).into_owned();
            let diff = similar::TextDiff::from_lines(old.as_str(), whole.as_str());
            let diff = diff.unified_diff().context_radius(3).to_string();
            person.say(&format!("\nIt is there already. This would change it:\n{}", plain(&diff))).map_err(failed())?;
        }
        let verb = if there.is_some() { "Replace" } else { "Write" };
        let shown = text::escaped(path.as_os_str().as_encoded_bytes());
        let question = format!("{summary}.\n{verb} {shown}? [y]es, [n]o: ");
        return match person.ask(&question).map_err(failed())?.as_deref() {
            Some("y" | "yes") => {
                put_over(&path, &whole)?;
                Ok(Reviewed::Written(path))
            }
            _ => Ok(Reviewed::Left),
        };
    }
}

/// As the lines of a diff that adds them.
fn added(rule: &str) -> String {
    plain(rule)
        .lines()
        .map(|line| if line.starts_with('#') { format!("  {line}\n") } else { format!("+ {line}\n") })
        .collect()
}

/// What draws itself, line by line: a file that somebody edited may have anything in it.
fn plain(text: &str) -> String {
    let show = |one: char| if one == ' ' || one == '\n' || text::is_showable(one) { one } else { '?' };
    text.chars().map(show).collect()
}

/// The text as the person's editor leaves it.
fn edited(text: &str) -> io::Result<String> {
    let mut file = tempfile(text)?;
    let editor = ["VISUAL", "EDITOR"].iter().find_map(std::env::var_os).filter(|editor| !editor.is_empty());
    let editor = editor.unwrap_or_else(|| "vi".into());
    // With its options, as everybody sets these variables.
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg("exec $GATED_EDITOR \"$1\"").arg("sh").arg(&file.path).env("GATED_EDITOR", editor);
    let status = command.status()?;
    if !status.success() {
        return Err(io::Error::other(format!("the editor ended with {status}")));
    }
    file.read()
}

/// A file of our own that goes with this.
struct Scratch {
    path: PathBuf,
}

fn tempfile(text: &str) -> io::Result<Scratch> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let path = std::env::temp_dir().join(format!("gated-learned-{:016x}.toml", u64::from_le_bytes(bytes)));
    super::put_new(&path, text).map_err(io::Error::other)?;
    Ok(Scratch { path })
}

impl Scratch {
    fn read(&mut self) -> io::Result<String> {
        fs::read_to_string(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing of it is needed any more, and nothing in it is secret.
        let _left = fs::remove_file(&self.path);
    }
}
