//! What a command line means: one execve(2) may be read in more than one way, because a program may be another one by its
//! name, by its first word or by what it loads. Runs in the supervisor on every exec, pure, on words that a hostile process
//! chose; nothing here grows faster than they do.
//!
//! A **run** is code that starts: what was asked for, and what a run-time linker is told to load. Each is held against rules
//! and `[defaults]`. Its **readings** are how rules may speak of it. A faithful reading says what surely happens; the others
//! are only held against rules above `allow`, so that no word of a tool can make anything freer.

use std::cell::OnceCell;

use crate::common::exec::{Command, Program, Step};

use super::interpreters::{self, Script};
use super::{git, linker};

/// Linkers that load linkers, and the like; one more is not read.
const MOST_RUNS: usize = 8;

/// Words without the program's name: some of a command's last ones, perhaps with one put in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words<'a> {
    front: Option<&'a [u8]>,
    rest: &'a [Vec<u8>],
}

impl<'a> Reading<'a> {
    fn new(subject: Subject<'a>, words: Words<'a>, is_faithful: bool) -> Reading<'a> {
        Reading { subject, words, is_faithful, script: None, split: OnceCell::new() }
    }

    /// The words with `-rf` as `-r -f`, up to `--`; `None` if that changes nothing.
    pub fn split(&self) -> Option<&[&'a [u8]]> {
        self.split.get_or_init(|| split(&self.words)).as_deref()
    }
}

/// `-x` for every byte.
static SHORT: [[u8; 2]; 256] = {
    let mut all = [[b'-', 0]; 256];
    let mut byte = 0_usize;
    while byte < all.len() {
        all[byte][1] = byte as u8;
        byte += 1;
    }
    all
};

fn split<'a>(words: &Words<'a>) -> Option<Vec<&'a [u8]>> {
    let is_cluster = |word: &[u8]| word.len() > 2 && word.starts_with(b"-") && !word.starts_with(b"--");
    let is_option = |word: &&[u8]| *word != b"--";
    if !words.iter().take_while(is_option).any(is_cluster) {
        return None;
    }
    let mut split: Vec<&'a [u8]> = Vec::new();
    let mut all = words.iter();
    for word in all.by_ref() {
        if is_cluster(word) {
            let letters = word.iter().skip(1).filter_map(|&letter| SHORT.get(usize::from(letter)));
            split.extend(letters.map(<[u8; 2]>::as_slice));
        } else {
            split.push(word);
        }
        if word == b"--" {
            break;
        }
    }
    split.extend(all);
    Some(split)
}

impl<'a> Words<'a> {
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        let rest: &'a [Vec<u8>] = self.rest;
        match (self.front, at.checked_sub(1)) {
            (Some(front), None) => Some(front),
            (Some(_), Some(at)) => rest.get(at).map(Vec::as_slice),
            (None, _) => rest.get(at).map(Vec::as_slice),
        }
    }

    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.front.into_iter().chain(self.rest.iter().map(Vec::as_slice))
    }

    /// Without the first `count`.
    pub fn after(&self, count: usize) -> Words<'a> {
        let count = if self.front.is_some() { count.saturating_sub(1) } else { count };
        Words { front: self.front.filter(|_| count == 0), rest: self.rest.get(count..).unwrap_or_default() }
    }
}

/// What stands for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    Program(&'a Program),
    /// This program under another name of its own directory.
    Beside(&'a Program, &'a [u8]),
    /// A path or a name that nobody has followed.
    Text(&'a [u8]),
}

/// One way to read a command.
#[derive(Clone, Debug)]
pub(super) struct Reading<'a> {
    pub subject: Subject<'a>,
    pub words: Words<'a>,
    /// Whether this is surely what happens, so that rules which allow count, too.
    pub is_faithful: bool,
    /// The script that this is, where its interpreter was told nothing but to run it with these words: an answer for the
    /// script itself is one for this.
    pub script: Option<&'a Program>,
    split: OnceCell<Option<Vec<&'a [u8]>>>,
}

/// Code that starts, and how to read it.
#[derive(Clone, Debug, Default)]
pub(super) struct Run<'a> {
    pub readings: Vec<Reading<'a>>,
}

/// A run that is still to be read.
struct Next<'a> {
    subject: Subject<'a>,
    called: &'a [u8],
    words: Words<'a>,
}

struct Reader<'a> {
    command: &'a Command,
    runs: Vec<Run<'a>>,
    pending: Vec<Next<'a>>,
    /// Whether the operand of the command was met: the first one is what was followed.
    met_operand: bool,
}

/// The runs of a command; `None` if there are more than anybody has a use for.
pub(super) fn of(command: &Command) -> Option<Vec<Run<'_>>> {
    let mut reader = Reader { command, runs: vec![Run::default()], pending: Vec::new(), met_operand: false };
    reader.step(&command.asked, true);
    for interpreter in &command.interpreters {
        // Of these only what they load is more than the script that has been read.
        reader.met_operand = true;
        reader.step(interpreter, false);
    }
    if let Some(loader) = command.loader.as_ref().filter(|loader| !linker::is_of_system(loader)) {
        reader.push(Subject::Program(loader), Words { front: None, rest: &[] }, false);
    }
    while let Some(next) = reader.pending.pop() {
        if reader.runs.len() >= MOST_RUNS {
            return None;
        }
        reader.runs.push(Run::default());
        reader.subject(next.subject, next.called, next.words, true);
    }
    Some(reader.runs)
}

/// The text of the file that a program of this name, called with this argv, would load or interpret by itself, without a
/// further execve(2): see [`Command::operand`].
pub fn operand(asked: &Step) -> Option<&[u8]> {
    let argv = asked.argv.as_slice();
    let words = Words { front: None, rest: argv.get(1..).unwrap_or_default() };
    let called = base(argv.first().map(Vec::as_slice).unwrap_or_default());
    let name = asked.program.path.file_name();
    let (name, words) = applet(name, called, words).map_or((name, words), |applet| (applet.name, applet.words));
    if linker::is_linker(name) {
        return linker::loaded(words).map(|loaded| loaded.file);
    }
    match interpreters::script(name, words)? {
        Script::File { text, .. } => Some(text),
        Script::Module { .. } => None,
    }
}

impl<'a> Reader<'a> {
    fn step(&mut self, step: &'a Step, is_faithful: bool) {
        let called = step.argv.first().map(Vec::as_slice).unwrap_or_default();
        let words = Words { front: None, rest: step.argv.get(1..).unwrap_or_default() };
        self.subject(Subject::Program(&step.program), called, words, is_faithful);
    }

    fn push(&mut self, subject: Subject<'a>, words: Words<'a>, is_faithful: bool) {
        if let Some(run) = self.runs.last_mut() {
            run.readings.push(Reading::new(subject, words, is_faithful));
        }
    }

    /// What is run as `subject`, `called` so by argv\[0\].
    fn subject(&mut self, subject: Subject<'a>, called: &'a [u8], words: Words<'a>, is_run: bool) {
        let name = subject.name();
        // A text that nobody followed says nothing for sure.
        let is_sure = is_run && !matches!(subject, Subject::Text(_));
        let applet = applet(name, called, words);
        let is_itself = match &applet {
            Some(applet) => applet.is_first_word,
            None => name != b"git" || !last_name(called).starts_with(b"git-"),
        };
        self.push(subject, words, is_sure && is_itself);
        let short = base(called);
        if short != name && !short.is_empty() {
            self.push(Subject::Text(short), words, false);
        }
        self.git(subject, called, words, is_sure);
        if let Some(applet) = &applet {
            let is_sure = is_sure && subject.is_of_system() && !called.starts_with(b"-");
            self.push(subject.beside(applet.name), applet.words, is_sure);
        }
        let (name, words) = applet.map_or((name, words), |applet| (applet.name, applet.words));
        if linker::is_linker(name) {
            let may_trace = linker::may_trace(name) && subject.is_of_system();
            self.linker(words, may_trace);
        } else if is_run {
            self.script(name, words);
        }
    }

    /// `git-push` is `git push`, and what stands before a subcommand is not part of it. git looks at argv\[0\] alone, whichever
    /// of its hard links was taken; but not every `git-NAME` is git.
    fn git(&mut self, subject: Subject<'a>, called: &'a [u8], words: Words<'a>, is_sure: bool) {
        let (name, called) = (subject.name(), last_name(called));
        let of_name = name.strip_prefix(b"git-");
        let of_called = called.strip_prefix(b"git-");
        if name != b"git" && called != b"git" && of_name.is_none() {
            return;
        }
        for subcommand in of_called.into_iter().chain(of_name.filter(|_| of_name != of_called)) {
            let is_sure = is_sure && of_called == Some(subcommand) && (name == b"git" || of_name == of_called);
            self.push(subject.beside(b"git"), Words { front: Some(subcommand), rest: words.rest }, is_sure);
        }
        let before = git::global_options(words.iter());
        let is_sure = is_sure && name == b"git" && of_called.is_none() && before.is_known;
        if before.words > 0 && name == b"git" || name != b"git" && called == b"git" {
            self.push(subject.beside(b"git"), words.after(before.words), is_sure);
        }
        if !before.is_known {
            self.push(subject.beside(b"git"), words.after(before.words.saturating_add(1)), false);
        }
    }

    fn linker(&mut self, words: Words<'a>, may_trace: bool) {
        let Some(loaded) = linker::loaded(words) else { return };
        let traces = |variable: &Vec<u8>| variable.starts_with(b"LD_TRACE_LOADED_OBJECTS=");
        if may_trace && self.command.variables.iter().any(traces) {
            return;
        }
        let subject = self.operand(loaded.file);
        self.pending.push(Next { subject, called: loaded.called, words: loaded.words });
    }

    fn script(&mut self, name: &'a [u8], words: Words<'a>) {
        match interpreters::script(name, words) {
            Some(Script::File { text, words: own, is_first }) => {
                let followed = self.operand(text);
                let script = match followed {
                    Subject::Program(script) if is_first => Some(script),
                    _ => None,
                };
                for subject in [followed, Subject::Text(text)] {
                    if let Some(run) = self.runs.last_mut() {
                        run.readings.push(Reading { script, ..Reading::new(subject, own, false) });
                    }
                }
            }
            Some(Script::Module { name, words }) => self.push(Subject::Text(name), words, false),
            None => {}
        }
    }

    fn operand(&mut self, text: &'a [u8]) -> Subject<'a> {
        let is_first = !std::mem::replace(&mut self.met_operand, true);
        match &self.command.operand {
            Some(program) if is_first => Subject::Program(program),
            _ => Subject::Text(text),
        }
    }
}

impl<'a> Subject<'a> {
    /// The file's name; empty where it has none.
    pub fn name(self) -> &'a [u8] {
        match self {
            Subject::Program(program) if !program.is_named => b"",
            Subject::Program(program) => program.path.file_name(),
            Subject::Beside(_, name) => name,
            Subject::Text(text) => base(text),
        }
    }

    fn is_of_system(self) -> bool {
        matches!(self, Subject::Program(program) | Subject::Beside(program, _) if program.is_of_system)
    }

    fn beside(self, name: &'a [u8]) -> Subject<'a> {
        match self {
            Subject::Program(program) | Subject::Beside(program, _) if program.is_named => {
                Subject::Beside(program, name)
            }
            _ => Subject::Text(name),
        }
    }
}

/// What stands after the last slash.
fn last_name(called: &[u8]) -> &[u8] {
    called.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The same without the dash of a login shell.
pub(super) fn base(called: &[u8]) -> &[u8] {
    let name = last_name(called);
    name.strip_prefix(b"-").unwrap_or(name)
}

/// Programs that are many, by argv[0] or by their first word.
pub(super) fn is_multi_call(name: &[u8]) -> bool {
    name.starts_with(b"busybox") || name.starts_with(b"toybox") || name == b"coreutils"
}

/// What such a program does.
struct Applet<'a> {
    name: &'a [u8],
    words: Words<'a>,
    /// Whether it is named by the first word, not by argv\[0\].
    is_first_word: bool,
}

fn applet<'a>(name: &[u8], called: &'a [u8], words: Words<'a>) -> Option<Applet<'a>> {
    if !is_multi_call(name) {
        return None;
    }
    let called = base(called);
    if !called.is_empty() && !is_multi_call(called) {
        return Some(Applet { name: called, words, is_first_word: false });
    }
    let at = words.iter().position(|word| !is_multi_call(base(word)))?;
    let word = words.get(at)?;
    // coreutils(1) takes its program as an option where a `#!` line names it.
    let name = match word.strip_prefix(b"--coreutils-prog=").or(word.strip_prefix(b"--coreutils-prog-shebang=")) {
        Some(applet) => applet,
        None if word.starts_with(b"-") => return None,
        None => base(word),
    };
    Some(Applet { name, words: words.after(at.saturating_add(1)), is_first_word: true })
}
