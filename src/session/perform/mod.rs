//! Carries out what was judged: resolve, ask for a permit, act on the pinned place with the tool's own numbers.
//!
//! Runs as the user in the supervisor: the kernel checks the user's rights as it would for the tool, and its errno is the
//! tool's. Every effect below takes a [`Permit`].

mod attributes;
mod foresee;
mod guarded;
mod names;
mod native;
mod network;
mod open;
mod tree;
mod turns;
mod unix;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, fstatfs, statat};

use super::calls::Call;
use super::decode::Attempt;
use super::exec::{Executor, Found, Judged, arguments};
use super::judge::{Approvals, Halt, Judge, Permit};
use super::listener::Answer;
use super::net::Network;
use super::net::unix::UnixSockets;
use super::reads::Reads;
use super::resolve::{Place, Resolver};
use super::sys;
use super::target::Target;
use crate::common::errno::Errno;

/// Names that were exchanged under us this often are somebody's game, not work.
const TRIES_AT_MOST: u32 = 64;

/// Carries out the attempts of one session. One value, shared by all threads of the pool.
pub struct Performer {
    resolver: Resolver,
    judge: Judge,
    executor: Executor,
    turns: turns::Turns,
    waiting: turns::Waiting,
    /// `None` if the profile holds no reads.
    reads: Option<Arc<Reads>>,
    /// `None` in a session with the host's network.
    unix: Option<UnixSockets>,
    /// `None` if the session is in the host's.
    network: Option<Arc<Network>>,
}

impl Performer {
    pub fn new(
        resolver: Resolver,
        judge: Judge,
        executor: Executor,
        reads: Option<Arc<Reads>>,
        network: Option<Arc<Network>>,
    ) -> Performer {
        let (turns, waiting) = (turns::Turns::default(), turns::Waiting::default());
        Performer { resolver, judge, executor, turns, waiting, reads, network, unix: None }
    }

    /// With the unix sockets of a session that has its own network.
    pub fn with_unix(self, unix: Option<UnixSockets>) -> Performer {
        Performer { unix, ..self }
    }

    /// What the session knows of unix sockets, if their calls are held.
    pub fn unix(&self) -> Option<&UnixSockets> {
        self.unix.as_ref()
    }

    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Nobody is left of a call.
    pub fn end_call(&self, call: &Arc<Call>) {
        self.judge.end_call(call);
        if let Some(reads) = &self.reads {
            reads.over(call);
        }
    }

    /// Whether this may be executed, after whatever asking it takes.
    pub fn judge_program(&self, target: &Target<'_>, attempt: &arguments::Attempt) -> Judged {
        self.executor.judge(&self.resolver, &self.judge, target, attempt)
    }

    /// Has the kernel execute what was permitted, answers, and stays until it is known what came of it.
    pub fn execute(&self, target: &Target<'_>, found: &Found, permit: Permit) {
        self.executor.carry_out(&self.judge, target, found, permit);
    }

    /// The native answer for one path into scratch that has no dots and meets no link, found without an effect and without
    /// pinning anything. `None` says nothing.
    pub fn native_by_text(&self, target: &Target<'_>, attempt: &Attempt) -> Option<Answer> {
        Run { performer: self, target, attempt }.native_by_text()
    }

    /// The tool's answer; `None` if nobody waits for it any more.
    pub fn perform(&self, target: &Target<'_>, attempt: &Attempt) -> Option<Answer> {
        let mut approvals = Approvals::default();
        for _ in 0..TRIES_AT_MOST {
            let run = Run { performer: self, target, attempt };
            match run.once(&mut approvals) {
                Ok(answer) => return Some(answer),
                Err(Halt::Answer(answer)) => return Some(answer),
                Err(Halt::Gone) => return None,
                Err(Halt::Again) => {}
            }
        }
        Some(Answer::Errno(Errno::ACCES))
    }
}

/// One try at one attempt.
struct Run<'a> {
    performer: &'a Performer,
    target: &'a Target<'a>,
    attempt: &'a Attempt,
}

impl<'a> Run<'a> {
    fn once(&self, approvals: &mut Approvals) -> Result<Answer, Halt> {
        let answer = self.pinned(approvals);
        if matches!(answer, Ok(Answer::Native(_))) {
            self.target.expect_in_scratch(true);
        }
        answer
    }

    fn pinned(&self, approvals: &mut Approvals) -> Result<Answer, Halt> {
        match self.attempt {
            Attempt::Open { at, how, strict } => self.open(at, *how, *strict, approvals),
            Attempt::MakeDirectory { at, mode } => self.make_directory(at, *mode, approvals),
            Attempt::Remove { at, flags } => self.remove(at, *flags, approvals),
            Attempt::Rename { from, to, flags } => self.rename(from, to, *flags, approvals),
            Attempt::Link { from, to, flags } => self.link(from, to, *flags, approvals),
            Attempt::Symlink { text, at } => self.symlink(text, at, approvals),
            Attempt::MakeNode { at, mode, device } => self.make_node(at, *mode, *device, approvals),
            Attempt::Truncate { at, length } => self.truncate(at, *length, approvals),
            Attempt::Change { subject, change } => self.change(subject, change, approvals),
            Attempt::MakeSocket { domain, kind, protocol } => self.make_socket(*domain, *kind, *protocol),
            Attempt::OnSocket { file, asked } => self.on_socket(file, asked, approvals),
            Attempt::Nothing => Ok(Answer::Value(0)),
        }
    }

    fn resolver(&self) -> &'a Resolver {
        &self.performer.resolver
    }

    fn judge(&self) -> &'a Judge {
        &self.performer.judge
    }

    /// The last look before an effect: a tool that is gone must leave nothing behind that it did not see happen.
    fn still_wanted(&self) -> Result<(), Halt> {
        Ok(self.target.confirm()?)
    }

    /// Takes over the tool's umask for what this thread creates next, after [`Run::still_wanted`].
    fn take_umask(&self) -> Result<(), Halt> {
        sys::set_umask(self.target.umask()?);
        Ok(())
    }
}

/// What stands there now, a link itself.
fn file_type(place: &Place) -> Option<FileType> {
    let stat = statat(&place.directory, place.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
    stat.ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Refuses to make what would give root's rights to whoever runs it. A session of root's has no capability, but its files
/// are root's.
fn refuse_set_id(mode: u32) -> Result<(), Halt> {
    let sets_id = mode & (libc::S_ISUID | libc::S_ISGID) != 0;
    if sets_id && rustix::process::geteuid().is_root() { Err(Errno::PERM.into()) } else { Ok(()) }
}

/// The answer for a call that returns nothing but success.
fn done(result: Result<i64, Errno>) -> Result<Answer, Halt> {
    match result {
        Ok(_) => Ok(Answer::Value(0)),
        Err(errno) => Err(errno.into()),
    }
}

const PROC: i64 = 0x9fa0;

/// File systems whose files act on whoever opened or writes them, or on the machine: procfs, sysfs, cgroup and their like
/// (statfs(2)). A file of theirs that the supervisor opened would act with the supervisor's identity.
const ACTING: [i64; 14] = [
    PROC,
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x6265_6570, // configfs
    0xf97c_ff8c, // selinuxfs
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
];

/// What a file system means to whoever opens a file of it for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Proc,
    /// The others of [`ACTING`].
    Acting,
}

fn kind_of(descriptor: BorrowedFd<'_>) -> Result<Kind, Errno> {
    Ok(match fstatfs(descriptor)?.f_type & 0xffff_ffff {
        PROC => Kind::Proc,
        kind if ACTING.contains(&kind) => Kind::Acting,
        _ => Kind::Plain,
    })
}

fn is_proc(descriptor: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(kind_of(descriptor)? == Kind::Proc)
}

/// Refuses an object or directory on a file system that acts, procfs among them.
fn refuse_acting(descriptor: BorrowedFd<'_>, errno: Errno) -> Result<(), Halt> {
    if kind_of(descriptor)? == Kind::Plain { Ok(()) } else { Err(errno.into()) }
}

/// As [`refuse_acting`], for a name in a directory. No name can be made or removed in procfs, so the kernel may say how it
/// fails.
fn refuse_acting_name(place: &Place) -> Result<(), Halt> {
    if kind_of(place.directory.as_fd())? == Kind::Acting { Err(Errno::ACCES.into()) } else { Ok(()) }
}
