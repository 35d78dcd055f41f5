//! `gatedctl ask`: question and answer line by line, at a terminal and in a pipe.

use std::process::Stdio;
use std::time::Duration;

use gated::common::decision::{Lifetime, Outcome};
use gated::common::id::RequestId;
use gated::common::wire::FromSession;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::answers::{PROFILE, somebody_else};
use crate::seat::Seat;
use crate::world::{PrivateBus, World, run, within};

/// `gatedctl ask --plain` with pipes.
struct Asked {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Asked {
    async fn start(bus: &PrivateBus) -> Asked {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatedctl"));
        command.args(["ask", "--plain"]).env("DBUS_SYSTEM_BUS_ADDRESS", bus.address()).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut asked = Asked { stdin: child.stdin.take(), child, lines };
        asked.says("Questions are asked here").await;
        asked
    }

    /// The next line that has these words; those before it are passed over.
    async fn says(&mut self, words: &str) -> String {
        loop {
            let line =
                within(self.lines.next_line()).await.unwrap().unwrap_or_else(|| panic!("it ended before {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    async fn types(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }
}

#[test]
fn numbers_and_words_of_a_pipe_answer_one_question_each() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let mut asked = Asked::start(&bus).await;
        supervisor.ask(1, "/srv/\x1b[31mx").await;
        assert_eq!(asked.says("Question 1").await, "Question 1: tool wants to create this file.");
        assert_eq!(asked.says("object").await, "object: /srv/\\x1b[31mx");
        assert_eq!(asked.says("1. ").await, "1. deny");
        asked.says("Type a number").await;
        asked.types("what\n").await;
        asked.says("That is no answer").await;
        asked.types("1\n").await;
        asked.says("Answer to question 1: deny.").await;
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        // What stands ready in the pipe is read when its question is there, one line each.
        asked.types("session directory\nonce\n").await;
        supervisor.ask(2, "/srv/a/x").await;
        let grant = supervisor.granted().await;
        assert_eq!((grant.lifetime, grant.scope().as_str()), (Lifetime::Session, "/srv/a/*"));
        supervisor.ask(3, "/srv/b/x").await;
        let decision = supervisor.decided().await;
        assert_eq!((decision.request, decision.outcome), (RequestId(3), Outcome::Approved));
        assert!(decision.by.starts_with("plain:"), "{}", decision.by);
        // The end of the input is the end.
        supervisor.ask(4, "/srv/c/x").await;
        asked.says("Question 4").await;
        asked.stdin.take();
        assert!(within(asked.child.wait()).await.unwrap().success());
        assert!(!supervisor.decided().await.outcome.permits());
    });
}

#[test]
fn a_question_that_is_withdrawn_is_said_to_be() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let _other = somebody_else(&world).await;
        let mut asked = Asked::start(&bus).await;
        supervisor.ask(1, "/srv/first").await;
        asked.says("Type a number").await;
        supervisor.send(FromSession::Cancel(RequestId(1))).await;
        asked.says("Question 1 is withdrawn").await;
        // What is written between two questions answers neither.
        asked.types("session\n").await;
        // It has been read when the next thing that it says is there.
        tokio::time::sleep(Duration::from_millis(300)).await;
        supervisor.ask(2, "/srv/second").await;
        asked.says("Question 2").await;
        asked.says("Type a number").await;
        asked.types("2\n").await;
        asked.says("Answer to question 2: allow once: this file.").await;
        assert_eq!(supervisor.granted().await.lifetime, Lifetime::Call);
    });
}

#[test]
fn what_was_typed_before_a_question_answers_it_not() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let _other = somebody_else(&world).await;
        let seat = Seat::new(bus.address(), 80, 40, &[("TERM", "dumb")]).await;
        // On such a terminal it is plain without being told.
        seat.line("gatedctl ask").await;
        seat.shows("Questions are asked here").await;
        seat.line("2").await;
        supervisor.ask(1, "/srv/x").await;
        seat.shows("Type a number").await;
        // Within the first half second.
        seat.line("2").await;
        seat.shows("Ignored: that came too soon").await;
        assert!(world.audited().is_empty(), "{:?}", world.audited());
        tokio::time::sleep(Duration::from_millis(600)).await;
        seat.line("2").await;
        assert_eq!(supervisor.granted().await.lifetime, Lifetime::Call);
    });
}

#[test]
fn a_capable_terminal_has_the_dialog_of_gated_run() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let seat = Seat::new(bus.address(), 80, 24, &[]).await;
        seat.line("gatedctl ask").await;
        seat.shows("Questions are asked here").await;
        supervisor.ask(1, "/srv/x").await;
        seat.shows("gated: tool wants to create this file").await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        seat.press(&["o"]).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        seat.press(&["Enter"]).await;
        assert_eq!(supervisor.granted().await.lifetime, Lifetime::Call);
        seat.until("the screen from before", |screen| screen.contains("Questions are asked here")).await;
    });
}
