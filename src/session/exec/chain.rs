//! From a pinned program to all that would run for it, with the argv that each gets: the loop of `exec_binprm`, fs/exec.c
//! (Linux 6.18).
//!
//! Runs as the user in the supervisor, on files that a tool may have written.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::arguments::{Attempt, words};
use super::format::Format;
use super::misc::Registry;
use super::program::{Identity, Pinned, Programs};
use crate::common::access::{Access, Level};
use crate::common::errno::Errno;
use crate::common::exec::{Command, Program, Step, Version};
use crate::common::id::CallId;
use crate::policy::grants::Grants;
use crate::policy::{Policy, operand};
use crate::session::decode::{At, Links};
use crate::session::resolve::Resolver;
use crate::session::target::{Target, Unreadable};

/// Interpreters of one program; with more the kernel says `ELOOP`.
const INTERPRETERS_AT_MOST: usize = 5;

/// What would run, to be judged and compared.
#[derive(Debug)]
pub struct Found {
    pub command: Arc<Command>,
    /// The file that the new process will execute.
    pub runs: Identity,
    /// Where an interpreter runs: where it will find what was asked for, and what that is.
    pub script: Option<(CString, Identity)>,
    /// Of the program and all interpreters, the latest; inode(7) `ctime`.
    pub changed: (i64, i64),
    /// No format that the kernel has.
    pub is_unknown: bool,
    /// Whether [`Command::variables`] was filled.
    pub has_environment: bool,
}

impl Found {
    /// The argv that the new process gets.
    pub fn argv(&self) -> &[Vec<u8>] {
        &self.command.interpreters.last().unwrap_or(&self.command.asked).argv
    }
}

/// What of a chain is not the system's: the first file, and the latest change of any.
#[derive(Debug, Default)]
struct Own(Option<Version>);

impl Own {
    fn add(&mut self, program: &Program, (device, inode): Identity, changed: (i64, i64)) {
        if !program.is_of_system {
            let known = self.0.get_or_insert(Version { device, inode, changed });
            known.changed = known.changed.max(changed);
        }
    }
}

/// A file, which it is, and when it was changed last.
type Followed = (Program, Identity, (i64, i64));

/// What a chain is found with.
pub struct Around<'a> {
    pub programs: &'a Programs,
    pub registry: &'a Registry,
    pub resolver: &'a Resolver,
    pub target: &'a Target<'a>,
    pub policy: &'a Policy,
}

impl Around<'_> {
    pub fn chain(&self, attempt: &Attempt, asked: Pinned, argv: &[Vec<u8>]) -> Result<Found, Unreadable> {
        let mut argv = argv.to_vec();
        if argv.is_empty() {
            // Since Linux 5.18.
            argv.push(Vec::new());
        }
        let first = Step { program: self.judged(asked.program.clone()), argv };
        let (mut runs, mut changed, mut is_unknown) = (asked.identity, asked.changed, false);
        let mut interpreters: Vec<Step> = Vec::new();
        let mut own = Own::default();
        own.add(&first.program, asked.identity, asked.changed);
        let mut name = self.name(attempt);
        let asked_identity = asked.identity;
        let mut current = asked;
        let loader = loop {
            let contents = self.programs.contents(&current)?;
            let registered = self.registry.interpreter(&contents.head, &name);
            let argv = &interpreters.last().unwrap_or(&first).argv;
            let (interpreter, argv) = match (registered, &contents.format) {
                (Some(entry), _) => {
                    let kept = if entry.keeps_argv0 { argv.as_slice() } else { argv.get(1..).unwrap_or_default() };
                    let before = [entry.interpreter.to_bytes().to_vec(), name];
                    (entry.interpreter, before.into_iter().chain(kept.iter().cloned()).collect())
                }
                (None, Format::Script { interpreter, argument }) => {
                    let argument = argument.as_ref().map(|argument| argument.to_bytes().to_vec());
                    let before = [Some(interpreter.to_bytes().to_vec()), argument, Some(name)].into_iter().flatten();
                    (interpreter.clone(), before.chain(argv.iter().skip(1).cloned()).collect())
                }
                (None, Format::Elf { loader }) => break loader.clone(),
                (None, Format::Foreign) => break None,
                (None, Format::Unknown) => {
                    is_unknown = true;
                    break None;
                }
            };
            if interpreters.is_empty() && self.is_inaccessible_later(attempt)? {
                return Err(Errno::NOENT.into());
            }
            if interpreters.len() >= INTERPRETERS_AT_MOST {
                return Err(Errno::LOOP.into());
            }
            current = self.programs.find(self.resolver, self.target, libc::AT_FDCWD, interpreter.clone(), 0)?;
            runs = current.identity;
            changed = changed.max(current.changed);
            name = interpreter.into_bytes();
            let program = self.judged(current.program.clone());
            own.add(&program, current.identity, current.changed);
            interpreters.push(Step { program, argv });
        };
        let is_script = !interpreters.is_empty() && attempt.directory == libc::AT_FDCWD;
        let script = is_script.then(|| (attempt.path.clone(), asked_identity));
        let loader = loader.map(|path| self.programs.loader(self.resolver, self.target, &path)).transpose()?;
        let loader = loader.map(|loader| self.judged(loader));
        let operand = self.operand(&first)?;
        if let Some((program, identity, changed_then)) = &operand {
            own.add(program, *identity, *changed_then);
            changed = changed.max(*changed_then);
        }
        let operand = operand.map(|(program, ..)| program);
        let cwd = self.target.cwd_text()?;
        let mut command =
            Command { asked: first, interpreters, loader, operand, variables: Vec::new(), cwd, version: own.0 };
        let has_environment = self.policy.asks_for_environment(&command);
        if has_environment {
            let all = words(self.target, attempt.environment)?;
            command.variables = judged_variables(self.policy, all.as_slice().iter().map(Vec::as_slice));
        }
        Ok(Found { command: Arc::new(command), runs, script, changed, is_unknown, has_environment })
    }

    /// In a session of root's, what the tool makes is root's too: the system's is what nobody can write there without a yes.
    fn judged(&self, mut program: Program) -> Program {
        if program.is_of_system && rustix::process::geteuid().is_root() {
            let verdict = self.policy.decide(Access::Write, &program.path, CallId(0), &Grants::new());
            program.is_of_system = verdict.level > Level::Notify;
        }
        program
    }

    /// The file among the words of a command that its program would open as another program's, at this moment.
    fn operand(&self, asked: &Step) -> Result<Option<Followed>, Unreadable> {
        let Some(path) = operand(asked).and_then(|path| CString::new(path).ok()) else { return Ok(None) };
        let at = At { directory: libc::AT_FDCWD, path: Ok(path), links: Links::All };
        match self.resolver.object(self.target, &at, true) {
            Ok(object) => {
                let Ok(stat) = rustix::fs::fstat(&object.handle) else { return Ok(None) };
                let changed = (stat.st_ctime, stat.st_ctime_nsec as i64);
                let program = self.programs.called(&object).ok().map(|program| self.judged(program));
                Ok(program.map(|program| (program, (stat.st_dev, stat.st_ino), changed)))
            }
            Err(Unreadable::Native(_)) => Ok(None),
            Err(Unreadable::Gone) => Err(Unreadable::Gone),
        }
    }

    /// `bprm->filename`: what an interpreter is told to open.
    fn name(&self, attempt: &Attempt) -> Vec<u8> {
        let path = attempt.path.to_bytes();
        match path.first() {
            Some(b'/') => path.to_vec(),
            _ if attempt.directory == libc::AT_FDCWD => path.to_vec(),
            None => format!("/dev/fd/{}", attempt.directory).into_bytes(),
            Some(_) => [format!("/dev/fd/{}/", attempt.directory).as_bytes(), path].concat(),
        }
    }

    /// `BINPRM_FLAGS_PATH_INACCESSIBLE`: by a descriptor that is closed by then.
    fn is_inaccessible_later(&self, attempt: &Attempt) -> Result<bool, Unreadable> {
        let is_absolute = attempt.path.to_bytes().first() == Some(&b'/');
        if attempt.directory == libc::AT_FDCWD || is_absolute {
            return Ok(false);
        }
        self.target.is_closed_on_exec(attempt.directory)
    }
}

/// The variables that are judged, sorted.
pub fn judged_variables<'a>(policy: &Policy, all: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut variables: Vec<Vec<u8>> =
        all.filter(|variable| policy.judges_variable(variable)).map(<[u8]>::to_vec).collect();
    variables.sort_unstable();
    variables
}

/// The path of a script as a process that stands at its exec stop would find it, below the outer `/proc`; `None` where that
/// may mean something else to it than to us.
pub fn seen_by(process: i32, path: &CString) -> Option<Vec<u8>> {
    let bytes = path.to_bytes();
    let leads_through_proc = bytes.starts_with(b"/proc") || bytes.starts_with(b"/dev");
    if leads_through_proc {
        return None;
    }
    let seen = Path::new(&format!("{process}/cwd")).join(OsStr::from_bytes(bytes));
    Some(seen.into_os_string().as_bytes().to_vec())
}
