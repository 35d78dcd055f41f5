//! How far an answer to an execve(2) reaches: this command line, those that begin like it, or all of a program. Used by the
//! broker to offer widths and by the supervisor to find grants, on words that a tool chose.
//!
//! What is offered is never everything: not for programs whose words say what is run, such as shells, `env` or `make`, and
//! not for a program that acts on whatever it is pointed at with the rights of something else, such as `docker`.

use serde::{Deserialize, Serialize};

use crate::common::decision::Width;
use crate::common::exec::{Command, Execution, Version};
use crate::common::mask;
use crate::common::path::RawPath;
use crate::common::text::{self, Untrusted};

use super::interpreters::{is_interpreter, unversioned};
use super::reading::{Reading, base, is_multi_call};
use super::{git, linker};

/// Columns of a scope as it is shown, at the most.
const SHOWN_COLUMNS: usize = 4096;

/// Programs that run what their words, or a file that they read, tell them: an answer is for one command line.
const RUNNERS: &str = "
    bwrap chroot chrt command cpulimit dbus-run-session direnv doas ed emacs entr env eval ex exec faketime fakeroot
    fd fdfind find firejail flatpak flock gdb gosu hyperfine ionice just less ltrace lldb make man meson mise more
    nano nice ninja nix-shell nohup nox npx nsenter numactl nvim parallel perf pipx pkexec prlimit proot rr rsync
    run-parts run0 runcon runuser script setarch setpriv setsid socat ssh sshpass start-stop-daemon stdbuf strace su
    sudo systemd-run tar taskset time timeout tini tox unshare uvx valgrind vi view vim watch xargs xvfb-run";

/// Programs of which a command line may be approved with whatever follows, but not all of them.
const NEVER_WHOLE: &str = "
    ansible apt apt-get bundle cargo cmake composer conda dd docker gem go gradle helm kubectl mvn nerdctl nix npm
    pip pnpm podman poetry rustup terraform uv yarn";

/// Subcommands of these that run what comes after them.
const RUNNING_SUBCOMMANDS: &str = "
    run exec x dlx create start shell develop -c run-script test explore compose tool";

/// The command lines of one program that an answer holds for. Everything here is compared byte by byte, and all of it with
/// the same variables and the same interpreters, because these are what runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandScope {
    pub width: Width,
    /// All words, the first ones, or only argv\[0\], as the width says.
    pub argv: Vec<Untrusted>,
    /// As in [`Execution::interpreters`].
    pub interpreters: Vec<RawPath>,
    /// As in [`Execution::variables`].
    pub variables: Vec<Untrusted>,
    /// The directory in which it holds, but for [`Width::Program`]: the same words are another command elsewhere.
    pub cwd: Option<RawPath>,
    /// The file that was shown, as it was; `None` where all that runs is the system's.
    pub version: Option<Version>,
}

impl CommandScope {
    /// What an answer of this width to this command covers; `None` where it would be everything, or the width is not one
    /// of commands.
    pub fn of(program: &RawPath, execution: &Execution, cwd: &RawPath, width: Width) -> Option<CommandScope> {
        let words: Vec<&[u8]> = execution.argv.iter().map(Untrusted::as_bytes).collect();
        let kept = match width {
            Width::Exact => words.len(),
            Width::Prefix => prefix(program.file_name(), &words)?,
            Width::Program => {
                if is_runner(program.file_name(), &words) || is_listed(NEVER_WHOLE, program.file_name(), &words) {
                    return None;
                }
                0
            }
            Width::Directory | Width::Tree | Width::Host | Width::Domain => return None,
        };
        Some(CommandScope {
            width,
            argv: execution.argv.iter().take(kept).cloned().collect(),
            interpreters: execution.interpreters.clone(),
            variables: execution.variables.clone(),
            cwd: (width != Width::Program).then(|| cwd.clone()),
            version: execution.version,
        })
    }

    /// Whether it holds for a command of its program.
    pub fn covers(&self, command: &Command) -> bool {
        let interpreters = command.interpreters.iter().map(|step| &step.program);
        self.has_words(command.asked.argv.iter().map(Vec::as_slice))
            && self.interpreters.iter().eq(interpreters.clone().map(|program| &program.path))
            && interpreters.clone().all(|program| program.is_named)
            && self.has_variables(&command.variables)
            && self.is_at(&command.cwd)
            && self.version == command.version
    }

    /// Whether it holds for a script, its program, that an interpreter runs with the words of this reading.
    pub(super) fn covers_script(&self, reading: &Reading<'_>, command: &Command) -> bool {
        // What a script is called is nothing that its interpreter looks at.
        let own = self.argv.first().map(Untrusted::as_bytes).unwrap_or_default();
        self.has_words(std::iter::once(own).chain(reading.words.iter()))
            && self.has_variables(&command.variables)
            && self.is_at(&command.cwd)
            && self.version == command.version
    }

    /// Whether it holds for a command of its program as people are shown it.
    pub fn answers(&self, execution: &Execution, cwd: &RawPath) -> bool {
        self.has_words(execution.argv.iter().map(Untrusted::as_bytes))
            && self.interpreters == execution.interpreters
            && self.variables == execution.variables
            && self.is_at(cwd)
            && self.version == execution.version
    }

    /// Whether it denies a command of its program with these words behind the name, if that is what it does.
    pub(super) fn denies(&self, words: &[&[u8]], cwd: &RawPath) -> bool {
        let own = self.argv.iter().skip(1).map(Untrusted::as_bytes);
        let begins = own.clone().zip(words).all(|(own, given)| own == *given) && own.clone().count() <= words.len();
        begins && (self.width != Width::Exact || own.count() == words.len()) && self.is_at(cwd)
    }

    fn has_words<'a>(&self, given: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut given = given.fuse();
        let begins = self.argv.iter().all(|own| given.next() == Some(own.as_bytes()));
        begins && (self.width != Width::Exact || given.next().is_none())
    }

    fn has_variables(&self, given: &[Vec<u8>]) -> bool {
        self.variables.iter().map(Untrusted::as_bytes).eq(given.iter().map(Vec::as_slice))
    }

    fn is_at(&self, cwd: &RawPath) -> bool {
        self.cwd.as_ref().is_none_or(|own| own == cwd)
    }

    /// As a person reads it.
    pub(super) fn shown(&self, program: &RawPath) -> String {
        // Like everything that goes over the bus.
        let masked = mask::argv(&self.argv);
        let words = masked.iter().map(Untrusted::as_bytes);
        match self.width {
            Width::Program => format!("{} …", text::quoted_argv_within([program.as_bytes()], SHOWN_COLUMNS)),
            Width::Prefix => format!("{} …", text::quoted_argv_within(words, SHOWN_COLUMNS)),
            _ => text::quoted_argv_within(words, SHOWN_COLUMNS),
        }
    }
}

/// Whether a name is one of the words of a list.
fn has(list: &str, name: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|own| own.as_bytes() == name)
}

/// Whether one of the names that a program goes by is listed: its file's, also without a version or an ending, or what it was
/// called.
fn is_listed(list: &str, program: &[u8], words: &[&[u8]]) -> bool {
    let called = base(words.first().copied().unwrap_or_default());
    let names = [program, called].into_iter().flat_map(|name| {
        let stem = name.split(|&byte| byte == b'.').next().unwrap_or_default();
        [name, unversioned(name), stem, stem.strip_suffix(b"-cli").unwrap_or(stem)]
    });
    names.into_iter().any(|name| has(list, name))
}

fn is_runner(program: &[u8], words: &[&[u8]]) -> bool {
    let called = base(words.first().copied().unwrap_or_default());
    let by_name = |name: &[u8]| is_interpreter(name) || is_multi_call(name) || linker::is_linker(name);
    is_listed(RUNNERS, program, words) || by_name(program) || by_name(called)
}

/// How many words are kept of a command whose beginning is approved: through its subcommand, or its first word that is no
/// option; two at the least. `None` where what follows may be anything.
fn prefix(program: &[u8], words: &[&[u8]]) -> Option<usize> {
    if words.len() < 2 || is_runner(program, words) {
        return None;
    }
    let after = words.get(1..).unwrap_or_default();
    let is_git = program == b"git" || base(words.first().copied().unwrap_or_default()) == b"git";
    let options = if is_git {
        let before = git::global_options(after.iter().copied());
        if !before.is_known {
            return None;
        }
        before.words
    } else {
        after.iter().position(|word| !word.starts_with(b"-")).unwrap_or(after.len())
    };
    let is_said = options < after.len();
    if is_listed(NEVER_WHOLE, program, words) && !is_git {
        // An option may have a value, so what comes after one may not be the subcommand yet.
        let runs_on = |word: &[u8]| has(RUNNING_SUBCOMMANDS, word);
        return after.first().filter(|word| options == 0 && !word.starts_with(b"+") && !runs_on(word)).map(|_| 2);
    }
    match is_said {
        true => Some(options.saturating_add(2)),
        // Without a subcommand, what follows could be one.
        false if is_git => None,
        false => Some(words.len()),
    }
}

/// How many words a rule keeps of a command line like this, so that it means what begins alike; `None` where what follows
/// the first words may be anything, or says nothing: then it is all of them.
pub(super) fn known_beginning(program: &[u8], words: &[Vec<u8>]) -> Option<usize> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let is_git = program == b"git" || base(words.first().copied().unwrap_or_default()) == b"git";
    if !is_git && !is_listed(NEVER_WHOLE, program, &words) {
        return None;
    }
    prefix(program, &words)
}

/// Whether a rule may mean all that this program can be given.
pub(super) fn may_be_whole(program: &[u8], words: &[Vec<u8>]) -> bool {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let is_git = program == b"git" || base(words.first().copied().unwrap_or_default()) == b"git";
    !is_git && !is_runner(program, &words) && !is_listed(NEVER_WHOLE, program, &words)
}
