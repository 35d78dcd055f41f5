//! The command itself, judged before it runs: what a person may write in its place, and what is found in its memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gated::common::access::Access;
use gated::common::decision::{Decision, Outcome};
use gated::common::request::Request;
use gated::common::wire::{Ended, Ends, FromCaller};

use crate::Test;
use crate::broker::{SOON, Supervised, TOKEN, launch, rendezvous, sh};
use crate::support::{PidFd, Sandbox};
use gated::common::wire::ToSession;

pub const TESTS: &[Test] = &[
    ("another_command_may_be_written_in_place_of_the_first", edited),
    ("what_was_written_is_looked_for_and_judged_like_any_other", edited_and_judged),
    ("only_the_first_command_may_be_edited", only_the_first),
    ("a_signal_ends_a_command_that_waits_for_its_answer", signalled),
    ("a_caller_that_goes_takes_a_command_along_that_waits", gone_caller),
    ("a_command_that_waits_holds_no_secret_of_the_supervisors", no_secret),
];

/// Every program is asked for.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.profile("schema = 1\n[profile]\nname = \"asked\"\n[defaults]\nwrite = \"allow\"\nexec = \"ask\"\n");
    sandbox
}

fn decide(session: &Supervised<'_>, request: &Request, outcome: Outcome, edited: Option<&[&str]>) {
    let edited = edited.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
    session.broker.send(ToSession::Decided(Decision {
        request: request.id,
        outcome,
        grant: None,
        authenticated: false,
        by: "test".into(),
        edited,
    }));
}

/// The next question, which is about a command with these words.
#[track_caller]
fn question(session: &Supervised<'_>, words: &[&str]) -> Request {
    let question = session.broker.question();
    assert_eq!(question.access, Access::Exec);
    let execution = question.execution.as_ref().expect("a command");
    let asked: Vec<&[u8]> = execution.argv.iter().map(|word| word.as_bytes()).collect();
    assert_eq!(asked, words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    question
}

fn is_first(question: &Request) -> bool {
    question.execution.as_ref().is_some_and(|execution| execution.is_first)
}

fn edited() {
    let sandbox = sandbox();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&["echo", "this"]);
    call.started();
    let asked = question(&session, &["echo", "this"]);
    assert!(is_first(&asked));
    decide(&session, &asked, Outcome::Edited, Some(&["printf", "%s\n", "that", ""]));
    let asked = question(&session, &["printf", "%s\n", "that", ""]);
    assert!(is_first(&asked) && asked.object.as_bytes().ends_with(b"/printf"));
    decide(&session, &asked, Outcome::Approved, None);
    assert_eq!(call.rest(), "that\n\n");
    assert_eq!(call.ended(), Ended::Exited(0));
}

fn edited_and_judged() {
    let sandbox = sandbox();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&["echo", "this"]);
    call.started();
    decide(&session, &question(&session, &["echo", "this"]), Outcome::Edited, Some(&["echo", "that"]));
    decide(&session, &question(&session, &["echo", "that"]), Outcome::Denied, None);
    assert_eq!((call.rest().as_str(), call.ended()), ("", Ended::NotExecuted(libc::EACCES)));
    let mut call = session.call(&["echo", "this"]);
    call.started();
    decide(&session, &question(&session, &["echo", "this"]), Outcome::Edited, Some(&["no-such-program"]));
    assert_eq!((call.rest().as_str(), call.ended()), ("", Ended::NotExecuted(libc::ENOENT)));
}

fn only_the_first() {
    let sandbox = sandbox();
    let session = Supervised::start(&sandbox);
    let mut call = session.call(&sh("/bin/echo this; echo $?"));
    call.started();
    let asked = question(&session, &["sh", "-c", "/bin/echo this; echo $?"]);
    decide(&session, &asked, Outcome::Approved, None);
    let asked = question(&session, &["/bin/echo", "this"]);
    assert!(!is_first(&asked));
    assert_eq!(asked.execution.as_ref().map(|execution| execution.parents.len()), Some(1), "the shell");
    decide(&session, &asked, Outcome::Edited, Some(&["/bin/echo", "that"]));
    assert_eq!(call.rest().lines().next_back(), Some("126"), "a no");
    assert_eq!(call.ended(), Ended::Exited(0));
}

fn signalled() {
    let sandbox = sandbox();
    let session = Supervised::start(&sandbox);
    let call = session.call(&["echo", "this"]);
    call.started();
    question(&session, &["echo", "this"]);
    call.link.send(&FromCaller::Signal(libc::SIGTERM), &[]).expect("the supervisor listens");
    assert_eq!(call.ended(), Ended::Signaled(libc::SIGTERM));
}

fn gone_caller() {
    let sandbox = sandbox();
    let session = Supervised::start(&sandbox);
    let call = session.call(&["echo", "this"]);
    call.started();
    let asked = question(&session, &["echo", "this"]);
    let child = PidFd::open(asked.who.pid).expect("the command's child");
    drop(call);
    assert!(child.ends_within(SOON));
}

fn no_secret() {
    let sandbox = sandbox();
    let mut launch = launch(&sandbox, Ends::WhenStopped);
    launch.rendezvous = Some(rendezvous(&sandbox.control().join("socket")));
    let session = Supervised::launch(&sandbox, &launch);
    session.broker.ready();
    let call = session.call(&["echo", "a word to be found"]);
    call.started();
    let asked = question(&session, &["echo", "a word to be found"]);
    let process = format!("/proc/{}", asked.who.pid);
    assert!(holds(Path::new(&process), b"a word to be found"), "the search finds what is there");
    assert!(!holds(Path::new(&process), &TOKEN.0), "the token is nowhere");
    let supervisor = format!("/proc/{}", session.pidfd.pid);
    assert!(holds(Path::new(&supervisor), &TOKEN.0), "but the supervisor has it");
}

/// Whether these bytes stand anywhere in the writable memory of a process.
fn holds(process: &Path, bytes: &[u8]) -> bool {
    let maps = std::fs::read_to_string(process.join("maps")).expect("maps");
    let memory = File::open(process.join("mem")).expect("mem");
    maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next().expect("a range"), words.next().expect("rights"));
        let (from, to) = range.split_once('-').expect("a range");
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).expect("an address"));
        let mut content = vec![0; (to - from) as usize];
        rights.starts_with("rw")
            && memory
                .read_at(&mut content, from)
                .is_ok_and(|got| content[..got].windows(bytes.len()).any(|window| window == bytes))
    })
}
