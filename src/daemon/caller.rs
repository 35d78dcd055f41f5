//! Who calls: a connection of the bus as uid, pid and pid file descriptor, and whether it comes from inside a session. Runs
//! in the daemon, as root but without a capability, on what bus and kernel say; nothing here is the caller's own word.
//!
//! A process inside a session has a second number, that of the session's pid namespace, and a cgroup below `gated.slice`; and
//! what it reaches, it reaches by a connection of its supervisor. Any of these is enough; what cannot be read is an error, and its caller is refused. The daemon reads `/proc/PID` of any user:
//! on a machine whose /proc hides processes, `hidepid=invisible` lets it if it is in the group that `gid=` names, which is
//! root's by default (its unit needs `SupplementaryGroups=root` beside another `Group=`). Otherwise, and with
//! `hidepid=ptraceable`, every caller is refused.
//!
//! A bus that gives no `ProcessFD` names a process that may be another one by now. The bus is asked again once a pidfd holds
//! the process, and the process must have the connection's uid. What is left is a connection whose maker has ended, whose
//! number has been used again by another process of the same user, and which somebody else still holds.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use zbus::Connection;
use zbus::fdo::{ConnectionCredentials, DBusProxy};
use zbus::message::Header;
use zbus::names::{BusName, OwnedUniqueName, UniqueName};
use zbus::proxy::CacheProperties;

/// What every unit of a session is below, and what its own name begins with.
const SLICE: &[u8] = b"gated.slice";
const UNIT: &[u8] = b"gated-session@";
/// The name of the program that supervises a session, proc_pid_comm(5).
const SUPERVISOR: &[u8] = b"gated-session";
/// Bytes of a file of /proc that are read; a longer one is refused.
const MAX_FILE: u64 = 1 << 16;

/// The connection that a message came from.
#[derive(Debug)]
pub struct Caller {
    pub sender: OwnedUniqueName,
    pub uid: u32,
    pub pid: u32,
    /// The process, whatever its number is used for later.
    pub process: OwnedFd,
    /// Whether it runs inside a session, or in any other pid namespace below the daemon's.
    pub inside: bool,
    /// The system's unit that it is part of.
    pub unit: Option<String>,
}

/// Why a caller is not known, and is refused.
#[derive(Debug, thiserror::Error)]
pub enum Unidentified {
    #[error("a message without a sender")]
    NoSender,
    #[error("the bus does not say who {0} is: {1}")]
    Bus(OwnedUniqueName, #[source] zbus::Error),
    #[error("the bus gives no {1} for {0}")]
    Missing(OwnedUniqueName, &'static str),
    #[error("process {0} is gone")]
    Gone(u32),
    #[error("process {0} is not the one that connected")]
    Another(u32),
    #[error("/proc does not say where process {0} is: {1}")]
    Proc(u32, #[source] io::Error),
}

impl Caller {
    /// Who sent the message with this header. Two questions to the bus daemon, none to the caller.
    pub async fn identify(connection: &Connection, header: &Header<'_>) -> Result<Caller, Unidentified> {
        let sender = header.sender().ok_or(Unidentified::NoSender)?;
        Caller::of(connection, sender).await
    }

    /// Who holds this unique name.
    pub async fn of(connection: &Connection, sender: &UniqueName<'_>) -> Result<Caller, Unidentified> {
        let sender = OwnedUniqueName::from(sender.to_owned());
        let failed = |error| Unidentified::Bus(sender.clone(), error);
        let bus = DBusProxy::builder(connection).cache_properties(CacheProperties::No).build().await.map_err(failed)?;
        let ask = async || {
            let answer = bus.get_connection_credentials(BusName::from(sender.as_ref())).await;
            answer.map_err(|error| Unidentified::Bus(sender.clone(), error.into()))
        };
        let first = ask().await?;
        let (uid, pid) = numbers(&sender, &first)?;
        let process = match first.into_process_fd() {
            Some(process) => OwnedFd::from(process),
            None => {
                let process = open(pid)?;
                // A name of a connection is never given again, so this is still the one whose message it is.
                if numbers(&sender, &ask().await?)? != (uid, pid) {
                    return Err(Unidentified::Another(pid));
                }
                process
            }
        };
        let Found { inside, unit } = place(process.as_fd(), pid, uid)?;
        Ok(Caller { sender, uid, pid, process, inside, unit })
    }

    /// Whether the process that connected has ended. Others may hold its connection still.
    pub fn has_ended(&self) -> bool {
        has_ended(self.process.as_fd())
    }
}

fn numbers(sender: &OwnedUniqueName, credentials: &ConnectionCredentials) -> Result<(u32, u32), Unidentified> {
    let missing = |what| Unidentified::Missing(sender.clone(), what);
    let uid = credentials.unix_user_id().ok_or_else(|| missing("UnixUserID"))?;
    let pid = credentials.process_id().ok_or_else(|| missing("ProcessID"))?;
    Ok((uid, pid))
}

fn open(pid: u32) -> Result<OwnedFd, Unidentified> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Unidentified::Gone(pid))?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|_| Unidentified::Gone(pid))
}

/// Where a process is.
#[derive(Debug)]
struct Found {
    inside: bool,
    unit: Option<String>,
}

/// Where a process is: inside a session, or not. `process` is a pidfd of the process with this number and uid.
fn place(process: BorrowedFd<'_>, pid: u32, uid: u32) -> Result<Found, Unidentified> {
    let unreadable = |error| Unidentified::Proc(pid, error);
    // Of the descriptor itself, so that it needs no number that could be used again.
    let pids = read(&format!("/proc/self/fdinfo/{}", process.as_raw_fd())).and_then(|text| pids(&text));
    let pids = pids.map_err(unreadable)?;
    if pids.first().and_then(|&first| u32::try_from(first).ok()) != Some(pid) {
        return Err(Unidentified::Another(pid));
    }
    let status = read(&format!("/proc/{pid}/status")).map_err(unreadable)?;
    let uids = field(&status, "Uid:").map_err(unreadable)?;
    let cgroups = read(&format!("/proc/{pid}/cgroup")).map_err(unreadable)?;
    let below = is_of_session(&cgroups).map_err(unreadable)?;
    // The process was there all the time, so the two files were its own.
    if has_ended(process) {
        return Err(Unidentified::Gone(pid));
    }
    if !uids.contains(&i64::from(uid)) {
        return Err(Unidentified::Another(pid));
    }
    let inside = below || pids.len() > 1 || is_supervisor(&status);
    Ok(Found { inside, unit: unit_of(&cgroups) })
}

/// The unit of the system's manager that a process with these lines of /proc/PID/cgroup, cgroups(7), is part of: the first
/// name on the way that is no slice. It is that manager's word alone, since the units of a user's own are below `user@UID.service`.
pub fn unit_of(cgroups: &[u8]) -> Option<String> {
    // Of several hierarchies systemd's own, or the only one.
    let lines =
        cgroups.split(|&byte| byte == b'\n').map(|line| line.splitn(3, |&byte| byte == b':').collect::<Vec<_>>());
    let path = lines.filter_map(|fields| match fields.as_slice() {
        [b"0", b"", path] => Some((true, path.to_vec())),
        [_, b"name=systemd", path] => Some((false, path.to_vec())),
        _ => None,
    });
    let (_, path) = path.min_by_key(|(is_unified, _)| *is_unified)?;
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    let unit = names.skip_while(|name| name.ends_with(b".slice")).take(1).find(|name| {
        [b".service".as_slice(), b".scope", b".socket", b".mount", b".swap"].iter().any(|kind| name.ends_with(kind))
    })?;
    // A name that the kernel could take for its own has a line before it (systemd's cg_escape).
    let unit = str::from_utf8(unit).ok()?;
    Some(unit.strip_prefix('_').unwrap_or(unit).to_owned())
}

/// Whether a process with this /proc/PID/status is a supervisor, by its name, which nobody else can change. It makes the
/// connections of its session's tools to unix sockets, and has none of its own on the bus; where it has no unit, nothing
/// else tells.
fn is_supervisor(status: &[u8]) -> bool {
    let first = status.split(|&byte| byte == b'\n').next().unwrap_or_default();
    first.strip_prefix(b"Name:").is_some_and(|name| name.trim_ascii() == SUPERVISOR)
}

/// A pidfd is readable from its process's end on, pidfd_open(2). One that cannot be looked at counts as ended.
fn has_ended(process: BorrowedFd<'_>) -> bool {
    let mut look = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    !matches!(poll(&mut look, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE).read_to_end(&mut text)?;
    let whole = u64::try_from(text.len()).is_ok_and(|length| length < MAX_FILE);
    if whole { Ok(text) } else { Err(unexpected("longer than any such file is")) }
}

fn unexpected(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The numbers behind a name in a file of lines `Name:\tnumber\tnumber`.
fn field(text: &[u8], name: &str) -> io::Result<Vec<i64>> {
    let text = str::from_utf8(text).map_err(|_| unexpected("not text"))?;
    let values =
        text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| unexpected("a line is missing"))?;
    let numbers: Option<Vec<i64>> = values.split_ascii_whitespace().map(|number| number.parse().ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty()).ok_or_else(|| unexpected("numbers were expected"))
}

/// What the numbers of a pidfd's process are, from the pid namespace of /proc down to its own; -1 once it has ended.
fn pids(fdinfo: &[u8]) -> io::Result<Vec<i64>> {
    let (pid, all) = (field(fdinfo, "Pid:")?, field(fdinfo, "NSpid:")?);
    if all.starts_with(&pid) { Ok(all) } else { Err(unexpected("two numbers of one process differ")) }
}

/// Whether a process with these lines of /proc/PID/cgroup, cgroups(7), belongs to a session.
fn is_of_session(cgroups: &[u8]) -> io::Result<bool> {
    let mut found = false;
    for line in cgroups.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let path = line.splitn(3, |&byte| byte == b':').nth(2).ok_or_else(|| unexpected("a line without a path"))?;
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        found |= path.split(|&byte| byte == b'/').any(|name| name == SLICE || name.starts_with(UNIT));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_of_a_session_is_known_in_either_hierarchy() {
        let inside = [
            "0::/gated.slice/gated-session@0123abcd.service\n",
            "0::/gated.slice/gated-session@0123abcd.service/calls/1\n",
            "5:memory:/\n1:name=systemd:/system.slice/gated-session@0123abcd.service\n0::/\n",
            "0::/../gated.slice\n",
            "0::/gated.slice (deleted)\n",
            "0::/a:b/gated.slice/x",
        ];
        for text in inside {
            assert!(is_of_session(text.as_bytes()).unwrap(), "{text}");
        }
        let outside = [
            "",
            "0::/\n",
            "0::/user.slice/user-1000.slice/session-2.scope\n",
            "0::/system.slice/gatedd.service\n",
            "0::/not-gated.slice/x-gated-session@1.service\n",
            "1:gated.slice:/\n",
        ];
        for text in outside {
            assert!(!is_of_session(text.as_bytes()).unwrap(), "{text}");
        }
        assert!(is_of_session(b"0:\n").is_err());
    }

    #[test]
    fn the_unit_is_the_first_name_that_is_no_slice() {
        let cases = [
            ("0::/system.slice/ci-hook.service\n", Some("ci-hook.service")),
            ("0::/system.slice/system-ci\\x2dhook.slice/ci-hook@7.service/inner\n", Some("ci-hook@7.service")),
            ("0::/ci.slice/ci-hook.service", Some("ci-hook.service")),
            ("0::/system.slice/_tasks.service", Some("tasks.service")),
            ("4:memory:/x.service\n1:name=systemd:/system.slice/a.service\n0::/\n", Some("a.service")),
            // What a user's own manager calls its units is the user's word.
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/ci-hook.service", Some("user@1000.service")),
            ("0::/user.slice/user-1000.slice/session-2.scope/ci-hook.service", Some("session-2.scope")),
            ("0::/system.slice/inner/ci-hook.service", None),
            ("0::/", None),
            ("0::/../system.slice/ci-hook.service", None),
            ("0::/system.slice", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(unit_of(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_supervisor_is_known_by_its_name() {
        assert!(is_supervisor(b"Name:\tgated-session\nUmask:\t0022\n"));
        for other in ["", "Name:\tgated-sessions\n", "Umask:\t0022\nName:\tgated-session\n", "Name:\tx\n"] {
            assert!(!is_supervisor(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn numbers_of_a_process_are_read_or_refused() {
        assert_eq!(pids(b"pos:\t0\nPid:\t12\nNSpid:\t12\n").unwrap(), [12]);
        assert_eq!(pids(b"pos:\t0\nPid:\t12\nNSpid:\t12\t1\n").unwrap(), [12, 1]);
        for odd in ["", "Pid:\t12\n", "Pid:\t12\nNSpid:\n", "Pid:\t12\nNSpid:\tx\n", "Pid:\t12\nNSpid:\t13\n"] {
            assert!(pids(odd.as_bytes()).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_process_that_ended_is_not_taken_for_another() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        let process = open(pid).unwrap();
        let uid = rustix::process::getuid().as_raw();
        assert!(!place(process.as_fd(), pid, uid).unwrap().inside);
        assert!(matches!(place(process.as_fd(), pid, uid + 1), Err(Unidentified::Another(_))));
        assert!(matches!(place(process.as_fd(), pid + 1, uid), Err(Unidentified::Another(_))));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(place(process.as_fd(), pid, uid), Err(Unidentified::Another(_))));
        assert!(has_ended(process.as_fd()));
    }
}
