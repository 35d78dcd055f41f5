//! What a person is told of a command that is held: all of its argv, who runs it, and whether it is new.
//!
//! Runs as the user in the supervisor; every word of it was chosen by a tool, and stays [`Untrusted`].

use std::ffi::CString;

use rustix::fs::{Mode, OFlags, openat, readlinkat};

use crate::common::errno::Errno;
use crate::common::exec::{Command, Execution, Parent, SHOWN_BYTES};
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::common::request::Who;
use crate::common::text::Untrusted;
use crate::session::held::Held;
use crate::session::judge::Halt;
use crate::session::target::{Target, Unreadable};
use crate::tool::procstat::stat;

const PARENTS_AT_MOST: usize = 16;
const PARENTS_WORDS: usize = 16;
const PARENTS_WORD_BYTES: usize = 256;

/// A thread that wants to execute something.
pub struct Executing<'a> {
    pub target: &'a Target<'a>,
    pub is_new: bool,
}

impl Held for Executing<'_> {
    fn thread(&self) -> i32 {
        Held::thread(self.target)
    }

    fn who(&self) -> Result<Who, Unreadable> {
        self.target.who()
    }

    fn main_call(&self) -> CallId {
        Held::main_call(self.target)
    }

    fn call_id(&self) -> Result<CallId, Unreadable> {
        self.target.call_id()
    }

    fn look(&self) -> Result<(), Halt> {
        Held::look(self.target)
    }

    /// Whoever waits for the command asks for the new one, [`crate::tool::messages::FromCall::Cancelled`].
    fn edited(&self, argv: Vec<Vec<u8>>) -> Halt {
        match self.target.call().editable(self.thread()) {
            Some(opening) if !argv.is_empty() => {
                opening.edit(argv);
                Errno::CANCELED.into()
            }
            _ => Errno::ACCES.into(),
        }
    }

    fn execution(&self, command: &Command) -> Result<Execution, Unreadable> {
        let (argv, words_left_out) = shown(&command.asked.argv);
        Ok(Execution {
            argv,
            words_left_out,
            interpreters: command.interpreters.iter().map(|step| step.program.path.clone()).collect(),
            variables: command.variables.iter().map(|variable| Untrusted::new(variable.clone())).collect(),
            parents: self.parents()?,
            is_new: self.is_new,
            version: command.version,
            is_first: self.target.call().editable(self.thread()).is_some(),
        })
    }
}

impl Executing<'_> {
    /// Up to the first process of the call, or to where the chain of parents leaves it.
    fn parents(&self) -> Result<Vec<Parent>, Unreadable> {
        let call = self.target.call();
        let procfs = self.target.procfs();
        let mut parents = Vec::new();
        let mut at = self.target.status()?.process;
        while at != call.main() && parents.len() < PARENTS_AT_MOST {
            let Some(found) = stat(procfs, at) else { break };
            // The leader and init are ours; init's parent is this process.
            let is_ours = found.parent == call.leader().0
                || stat(procfs, found.parent).is_none_or(|above| above.parent == std::process::id() as i32);
            if is_ours {
                break;
            }
            at = found.parent;
            parents.push(self.parent(at));
        }
        self.target.confirm()?;
        Ok(parents)
    }

    fn parent(&self, process: i32) -> Parent {
        let read = |name: &str| {
            let path = CString::new(format!("{process}/{name}")).ok()?;
            let file = openat(self.target.procfs(), path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
            let mut text = vec![0; PARENTS_WORDS * PARENTS_WORD_BYTES];
            let got = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *text)).ok()?;
            text.truncate(got);
            Some(text)
        };
        let program = CString::new(format!("{process}/exe"))
            .ok()
            .and_then(|path| readlinkat(self.target.procfs(), path, Vec::new()).ok())
            .map(|text| RawPath::new(text.into_bytes()));
        let line = read("cmdline").unwrap_or_default();
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        let words = line.split(|byte| *byte == 0).take(if line.is_empty() { 0 } else { PARENTS_WORDS });
        let argv = words.map(|word| Untrusted::new(word.get(..PARENTS_WORD_BYTES).unwrap_or(word))).collect();
        Parent { pid: process, program: program.unwrap_or_default(), argv }
    }
}

/// The first words of [`SHOWN_BYTES`] together, and how many are left out.
fn shown(argv: &[Vec<u8>]) -> (Vec<Untrusted>, u32) {
    let mut bytes = 0_usize;
    let fits = |word: &&Vec<u8>| {
        bytes = bytes.saturating_add(word.len()).saturating_add(1);
        bytes <= SHOWN_BYTES
    };
    let shown: Vec<Untrusted> = argv.iter().take_while(fits).map(|word| Untrusted::new(word.clone())).collect();
    let left_out = argv.len().saturating_sub(shown.len());
    (shown, u32::try_from(left_out).unwrap_or(u32::MAX))
}
