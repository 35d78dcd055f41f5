//! The socket for supervisors, to which every user can connect: who is none gets nothing, and keeps nobody from it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gated::common::id::{SessionId, Token};
use gated::common::wire::{self, FromSession, Hello, MAX_FRAME};
use rustix::process::{Gid, Uid};

use super::Test;
use super::machine::Machine;
use super::support::{until, user};

pub const TESTS: &[Test] = &[("who_is_no_supervisor_is_none_and_keeps_nobody_out", strangers)];

const NOBODY: u32 = 65534;

/// Connections of a user, made by a thread that is that user.
fn connections(socket: &Path, uid: u32, count: usize) -> Vec<UnixStream> {
    let socket: PathBuf = socket.to_owned();
    let made = std::thread::spawn(move || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        (0..count).map(|_| UnixStream::connect(&socket).unwrap()).collect()
    });
    made.join().unwrap()
}

/// Whether the daemon hangs up without a word.
fn is_turned_away(mut stream: UnixStream, words: &[u8]) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may hang up on what is still to come.
    let _ = stream.write_all(words);
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn hello(session: &str, token: Option<Token>) -> Vec<u8> {
    let hello = Hello { version: wire::VERSION, session: SessionId(session.to_owned()), token, resumed: None };
    wire::encode(&FromSession::Hello(Box::new(hello))).unwrap()
}

fn strangers() {
    let machine = Machine::new();
    let daemon = machine.daemon();
    let go = machine.sandbox.workspace().join("go");
    let script = format!("while ! test -e {}; do sleep 0.05; done; echo went on", go.display());
    let client = machine.run(&["sh", "-c", &script]);
    let session = until("the session", || machine.sessions().first().cloned());
    let socket = machine.runtime_directory().join("supervisors.sock");
    let state = machine.runtime_directory().join("sessions").join(&session);
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&state).unwrap().permissions()) & 0o777, 0o600);

    let tries: [(&str, Vec<u8>); 6] = [
        ("garbage", b"GET / HTTP/1.0\r\n\r\n".to_vec()),
        ("a giant", u32::try_from(MAX_FRAME).unwrap().to_le_bytes().to_vec()),
        ("another word", wire::encode(&FromSession::Ready { landlock_abi: 6 }).unwrap()),
        ("a session that does not wait", hello(&session, Some(Token([7; 16])))),
        ("without a token", hello(&session, None)),
        ("no session", hello("ffffffff", Some(Token([7; 16])))),
    ];
    for (what, words) in &tries {
        for uid in [NOBODY, user::UID, 0] {
            let stream = connections(&socket, uid, 1).remove(0);
            assert!(is_turned_away(stream, words), "{what} of {uid}");
        }
    }
    // The daemon is replaced while somebody holds the door. The session is found again.
    daemon.pidfd.kill(libc::SIGKILL);
    drop(daemon);
    let door = socket.clone();
    let before = fs::metadata(&door).unwrap().created().unwrap();
    let holders = std::thread::spawn(move || {
        until("the new socket", || {
            let now = fs::metadata(&door).ok()?.created().unwrap();
            (now != before).then_some(())
        });
        // Who waits for the supervisor of this session is told wrong tokens, and nothing at all.
        let mut held = connections(&door, NOBODY, 200);
        for stream in held.iter_mut().take(50) {
            let _ = stream.write_all(&[1]);
        }
        held
    });
    let next = machine.daemon();
    let held = holders.join().unwrap();
    // The start waits for sessions for two seconds, and a stranger may be silent for five.
    assert_eq!(machine.state(&session), "running");
    for uid in [NOBODY, user::UID] {
        for token in [None, Some(Token([0; 16]))] {
            let stream = connections(&socket, uid, 1).remove(0);
            assert!(is_turned_away(stream, &hello(&session, token)));
        }
    }
    fs::write(&go, "").unwrap();
    let done = client.finish();
    done.assert_code(0);
    assert_eq!(done.out(), "went on\n");
    drop(held);
    machine.over();
    drop(next);
}
