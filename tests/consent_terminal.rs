//! The terminal consent agent on a real pty: a thread is the person at the other end, reads what is drawn and types.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, ConsentAgent, ConsentError, Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::exec::Execution;
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::Untrusted;
use gated::consent::terminal::{Own, Paused, Screen, Terminal, Timing};
use nix::pty::{Winsize, openpty};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{Termios, tcgetattr};
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(15);

fn prompt() -> Prompt {
    let request = Request {
        id: RequestId(1),
        session: SessionId("00000001".into()),
        call: CallId(1),
        who: Who { pid: 7, program: "/usr/bin/tool".into(), argv: vec![], cwd: "/work".into() },
        access: Access::Write,
        operation: Operation::Create,
        object: "/srv/a/x".into(),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1, reason: None },
        remember: Lifetime::Session,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    };
    let offers = [(Width::Exact, "/srv/a/x"), (Width::Directory, "/srv/a/*"), (Width::Tree, "/srv/a/**")];
    let offers = offers.map(|(width, scope)| Offer { width, scope: scope.to_owned() }).to_vec();
    Prompt::new(Rc::new(request), offers, Instant::now() + Duration::from_secs(60))
}

/// The first command of call 1.
fn command(argv: &[&str]) -> Prompt {
    let mut prompt = prompt();
    let request = Rc::get_mut(&mut prompt.request).unwrap();
    (request.access, request.operation) = (Access::Exec, Operation::Execute);
    request.object = "/usr/bin/git".into();
    request.execution = Some(Box::new(Execution {
        argv: argv.iter().map(|word| Untrusted::new(word.as_bytes())).collect(),
        words_left_out: 0,
        interpreters: vec![],
        variables: vec![],
        parents: vec![],
        is_new: false,
        is_first: true,
        version: None,
    }));
    prompt
}

fn own(argv: &[&str], call: u32) -> Option<Own> {
    let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
    Some(Own { argv: Rc::new(RefCell::new(argv)), call: Rc::new(Cell::new(Some(CallId(call)))) })
}

/// The other end of the terminal.
struct Person {
    master: OwnedFd,
    seen: Vec<u8>,
    /// Of `seen`, what was expected already.
    past: usize,
}

impl Person {
    /// Reads until this is drawn.
    fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let fresh = String::from_utf8_lossy(&self.seen[self.past..]).into_owned();
            if let Some(at) = fresh.find(text) {
                self.past += at + text.len();
                return;
            }
            assert!(Instant::now() < deadline && self.read(), "{text:?} was not drawn, but {fresh:?}");
        }
    }

    /// Takes some output; `false` if there is none for a second, or the other end is closed.
    fn read(&mut self) -> bool {
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        if !matches!(poll(&mut ready, Some(&second)), Ok(1..)) {
            return true;
        }
        let mut buffer = [0; 4096];
        let Ok(count @ 1..) = rustix::io::read(&self.master, &mut buffer) else { return false };
        self.seen.extend_from_slice(&buffer[..count]);
        true
    }

    fn types(&self, keys: &[u8]) {
        assert_eq!(rustix::io::write(&self.master, keys).unwrap(), keys.len());
    }

    /// A key, its echo, and Enter.
    fn answers(&mut self, key: char) {
        self.types(key.to_string().as_bytes());
        self.sees(&format!("> {key}"));
        self.types(b"\r");
    }

    fn enters_nothing(&mut self) {
        self.types(b"\r");
        self.sees("(a key first) > ");
    }

    fn is_asked(&mut self) {
        self.sees("] > ");
    }
}

/// Writes down what the agent does with the relay.
#[derive(Clone, Default)]
struct Relay {
    log: Rc<RefCell<Vec<&'static str>>>,
    alternate: bool,
}

impl Screen for Relay {
    fn pause(&mut self) -> std::io::Result<Paused> {
        self.log.borrow_mut().push("pause");
        Ok(Paused { alternate: self.alternate })
    }

    fn resume(&mut self, overwritten: bool) {
        self.log.borrow_mut().push(if overwritten { "redraw" } else { "resume" });
    }
}

struct Scene {
    term: &'static str,
    relay: Relay,
    window: (u16, u16),
    guard: Duration,
    /// Typed before the agent is even asked.
    before: &'static [u8],
    prompt: Prompt,
    own: Option<Own>,
}

impl Default for Scene {
    fn default() -> Scene {
        Scene {
            term: "xterm-256color",
            relay: Relay::default(),
            window: (24, 80),
            guard: Timing::default().guard,
            before: b"",
            prompt: prompt(),
            own: None,
        }
    }
}

struct End {
    /// `None` if the person withdrew the prompt.
    result: Option<Result<Answer, ConsentError>>,
    drawn: String,
}

/// What of the modes a tool would notice.
fn modes(tty: impl AsFd) -> String {
    let Termios { input_modes, output_modes, control_modes, local_modes, special_codes, .. } = tcgetattr(tty).unwrap();
    format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?} {special_codes:?}")
}

impl Scene {
    /// Asks on a new terminal while a thread plays the person, who may withdraw the prompt.
    fn play(self, person: impl FnOnce(&mut Person, oneshot::Sender<()>) + Send + 'static) -> End {
        let window = Winsize { ws_row: self.window.0, ws_col: self.window.1, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&window, None).unwrap();
        let spare = pty.slave.try_clone().unwrap();
        let modes_before = modes(&spare);
        rustix::io::write(&pty.master, self.before).unwrap();
        let (withdraw, withdrawn) = oneshot::channel();
        let actor = std::thread::spawn(move || {
            let mut at_terminal = Person { master: pty.master, seen: Vec::new(), past: 0 };
            person(&mut at_terminal, withdraw);
            at_terminal
        });
        let timing = Timing { guard: self.guard, ..Timing::default() };
        let mut agent = Terminal::new(pty.slave, self.term, "alice", self.relay.clone(), timing).unwrap();
        if let Some(own) = self.own {
            agent = agent.editing(own);
        }
        assert_eq!(agent.name(), "tty:alice");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let prompt = self.prompt;
        let result = runtime.block_on(async {
            let asked = async {
                tokio::select! {
                    Ok(()) = withdrawn => None,
                    result = agent.ask(&prompt) => Some(result),
                }
            };
            tokio::time::timeout(PATIENCE, asked).await.expect("no answer")
        });
        if !matches!(result, Some(Err(ConsentError::Gone(_)))) {
            assert_eq!(modes(&spare), modes_before, "the modes are not what they were");
        }
        let log = self.relay.log.borrow();
        assert!(matches!(log.as_slice(), [] | ["pause", "resume" | "redraw"]), "{log:?}");
        drop((agent, spare));
        let mut actor = actor.join().expect("the person saw something else");
        while actor.read() {}
        End { result, drawn: String::from_utf8_lossy(&actor.seen).into_owned() }
    }
}

fn answer(end: End) -> Answer {
    end.result.expect("withdrawn").expect("an answer")
}

#[test]
fn a_key_and_enter_answer_and_the_screen_is_restored() {
    let scene = Scene::default();
    let log = Rc::clone(&scene.relay.log);
    let end = scene.play(|person, _| {
        person.sees("tool wants to create this file");
        person.sees("/srv/a/x");
        person.is_asked();
        person.answers('o');
    });
    assert!(end.drawn.starts_with("\x1b[?1049h") && end.drawn.ends_with("\x1b[?1049l"), "{:?}", end.drawn);
    assert_eq!(end.drawn.matches("\x1b[?1049h").count(), 1);
    assert_eq!(*log.borrow(), ["pause", "resume"]);
    assert_eq!(answer(end), Answer::Once(Width::Exact));
}

#[test]
fn what_was_typed_before_the_prompt_answers_nothing() {
    let end = Scene { before: b"o\no\r", ..Scene::default() }.play(|person, _| {
        person.sees("wants to create");
        // Within the guard: the prompt is drawn, but nobody can have read it.
        person.types(b"s\r");
        person.is_asked();
        person.enters_nothing();
        person.answers('d');
    });
    assert_eq!(answer(end), Answer::Deny);
}

#[test]
fn replies_that_a_tool_provoked_answer_nothing() {
    let end = Scene { guard: Duration::from_millis(100), ..Scene::default() }.play(|person, _| {
        person.is_asked();
        for reply in [b"\x1b[24;80R".as_slice(), b"\x1b]lo\r\x1b\\", b"\x1bP1$ro\r\x1b\\", b"s\r\x1b[0n", b"oo\r"] {
            person.types(reply);
            person.sees("(ignored");
            person.enters_nothing();
        }
        person.answers('d');
    });
    assert_eq!(answer(end), Answer::Deny);
}

#[test]
fn enter_alone_and_a_key_alone_do_nothing() {
    let end = Scene::default().play(|person, _| {
        person.is_asked();
        person.enters_nothing();
        person.types(b"s");
        person.sees("> s");
        person.types(b"\x7f");
        person.is_asked();
        person.enters_nothing();
        person.answers('d');
    });
    assert_eq!(answer(end), Answer::Deny);
}

#[test]
fn widening_shows_the_scope_before_it_is_answered() {
    let end = Scene::default().play(|person, _| {
        person.is_asked();
        person.answers('w');
        person.sees("everything directly in its directory: /srv/a/*");
        person.is_asked();
        person.answers('w');
        person.sees("its directory and everything below: /srv/a/**");
        person.is_asked();
        person.answers('s');
    });
    assert_eq!(answer(end), Answer::Session(Width::Tree));
}

const QUICK: Duration = Duration::from_millis(100);

/// The git push that gated-run was given, on a terminal of this kind.
fn push(term: &'static str) -> Scene {
    let words = ["git", "push", "--force", "my fork"];
    Scene { term, guard: QUICK, prompt: command(&words), own: own(&words, 1), ..Scene::default() }
}

fn edit(words: &[&str]) -> Answer {
    Answer::Edit(words.iter().map(|word| word.as_bytes().to_vec()).collect())
}

#[test]
fn the_command_that_gated_run_was_given_is_changed() {
    for term in ["xterm", "dumb"] {
        let end = push(term).play(|person, _| {
            person.sees("gated-run was told to run this command");
            person.is_asked();
            person.answers('e');
            person.sees("change the command");
            person.sees("] > git push --force 'my fork'");
            // To the beginning of `--force`, which goes, and to the end.
            person.types(b"\x1bb\x1bb\x1b[1;5D\x1bd\x1b[3~\x05");
            person.sees("] > git push 'my fork'");
            person.types(" --tags $'\\x1b'é日".as_bytes());
            person.sees("--tags $'\\x1b'é日");
            person.types(b"\r");
        });
        assert_eq!(answer(end), edit(&["git", "push", "my fork", "--tags", "\x1bé日"]));
    }
}

#[test]
fn what_cannot_be_read_stays_to_be_corrected() {
    let end = push("xterm").play(|person, _| {
        person.is_asked();
        person.answers('e');
        person.sees("'my fork'");
        person.types(b" 'x");
        person.sees("'my fork' 'x");
        person.types(b"\r");
        person.sees("Not taken: the quote at column 28 is not closed.");
        person.sees("'my fork' 'x");
        person.types(b"' *.o");
        person.sees("*.o");
        person.types(b"\r");
        person.sees("Not taken: no shell reads this: `*` at column 32 must be quoted.");
        person.types(b"\x17\\*.o");
        person.sees("\\*.o");
        person.types(b"\r");
    });
    assert_eq!(answer(end), edit(&["git", "push", "--force", "my fork", "x", "*.o"]));
}

#[test]
fn leaving_the_editor_answers_nothing() {
    for key in [b"\x03".as_slice(), b"\x1b", b"\r"] {
        let end = push("xterm").play(move |person, _| {
            person.is_asked();
            person.answers('e');
            person.sees("'my fork'");
            if key != b"\r" {
                person.types(b" --more");
                person.sees("--more");
            }
            person.types(key);
            person.sees("gated-run was told to run this command");
            person.is_asked();
            person.answers('o');
        });
        assert_eq!(answer(end), Answer::Once(Width::Exact), "{key:?}");
    }
}

#[test]
fn a_line_end_within_what_is_pasted_takes_nothing() {
    let end = push("xterm").play(|person, _| {
        person.is_asked();
        person.answers('e');
        person.sees("'my fork'");
        for pasted in [b"\x15ls -la\r".as_slice(), b"\x1b[200~\x15ls -la\r\x1b[201~", b"\r\r", b"\x1bP1$rrm\r\x1b\\\r"]
        {
            person.types(pasted);
            person.sees("Not taken: an end of line");
            person.sees("] > ");
        }
        person.types(b"\x15id -u");
        person.sees("> id -u");
        person.types(b"\r");
    });
    assert_eq!(answer(end), edit(&["id", "-u"]));
}

#[test]
fn an_edit_that_is_withdrawn_leaves_no_trace() {
    let end = push("xterm").play(|person, withdraw| {
        person.is_asked();
        person.answers('e');
        person.sees("'my fork'");
        withdraw.send(()).unwrap();
    });
    assert!(end.result.is_none());
    assert!(end.drawn.ends_with("\x1b[?1049l"));
}

#[test]
fn only_ones_own_first_command_is_changed() {
    let words = ["git", "push", "--force", "my fork"];
    let first = |is_first: bool| {
        let mut prompt = command(&words);
        Rc::get_mut(&mut prompt.request).unwrap().execution.as_mut().unwrap().is_first = is_first;
        prompt
    };
    for (prompt, own) in [
        (first(true), None),
        (first(false), own(&words, 1)),
        (first(true), own(&words, 2)),
        (first(true), own(&["git", "push"], 1)),
    ] {
        let scene = Scene { guard: QUICK, prompt, own, ..Scene::default() };
        let end = scene.play(|person, _| {
            person.is_asked();
            person.answers('e');
            person.sees("(not offered");
            person.answers('d');
        });
        assert!(!end.drawn.contains("e = edit"), "{:?}", end.drawn);
        assert_eq!(answer(end), Answer::Deny);
    }
}

/// Over the bus a prompt comes with its secrets masked; what is changed is the command as it was given.
#[test]
fn a_masked_command_is_changed_as_it_was_given() {
    let words = ["curl", "--token", "abc", "host"];
    let prompt = command(&["curl", "--token", "***", "host"]);
    let end = Scene { guard: QUICK, prompt, own: own(&words, 1), ..Scene::default() }.play(|person, _| {
        person.sees("curl --token '***' host");
        person.is_asked();
        person.answers('e');
        person.sees("> curl --token abc host");
        person.types(b"name");
        person.sees("hostname");
        person.types(b"\r");
    });
    assert_eq!(answer(end), edit(&["curl", "--token", "abc", "hostname"]));
}

#[test]
fn a_long_command_is_read_page_by_page() {
    let words: Vec<String> = (0..400).map(|number| format!("word-{number}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let end = Scene { guard: QUICK, prompt: command(&words), ..Scene::default() }.play(|person, _| {
        person.is_asked();
        person.answers('m');
        person.sees("all of it, page 1 of");
        person.sees("word-99 ");
        person.is_asked();
        person.answers('m');
        person.sees("page 2 of");
        person.sees("word-200 ");
        person.is_asked();
        person.answers('m');
        person.sees("page 3 of");
        person.sees("word-399");
        person.is_asked();
        person.answers('m');
        person.sees("yes covers");
        person.is_asked();
        person.answers('d');
    });
    assert_eq!(answer(end), Answer::Deny);
}

#[test]
fn an_interrupt_denies() {
    let end = Scene::default().play(|person, _| {
        person.is_asked();
        person.types(b"\x03");
    });
    assert_eq!(answer(end), Answer::Deny);
}

#[test]
fn a_prompt_that_is_withdrawn_leaves_no_trace() {
    let end = Scene::default().play(|person, withdraw| {
        person.is_asked();
        person.types(b"o");
        person.sees("> o");
        withdraw.send(()).unwrap();
    });
    assert!(end.result.is_none());
    assert!(end.drawn.ends_with("\x1b[?1049l"));
}

#[test]
fn a_terminal_that_hangs_up_answers_nothing() {
    let scene = Scene::default();
    let log = Rc::clone(&scene.relay.log);
    let end = scene.play(|person, _| {
        person.is_asked();
        // The line goes dead: the master is closed, and something else is held in its place.
        person.master = std::fs::File::open("/dev/null").unwrap().into();
    });
    assert!(matches!(end.result, Some(Err(ConsentError::Gone(_)))), "{:?}", end.result);
    assert_eq!(log.borrow().last(), Some(&"resume"));
}

#[test]
fn over_the_alternate_screen_of_a_tool_the_tool_draws_again() {
    let scene = Scene { relay: Relay { alternate: true, ..Relay::default() }, ..Scene::default() };
    let log = Rc::clone(&scene.relay.log);
    let end = scene.play(|person, _| {
        person.is_asked();
        person.answers('o');
    });
    assert!(!end.drawn.contains("1049"), "a second switch would lose the tool's screen");
    assert_eq!(log.borrow().last(), Some(&"redraw"));
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    for term in ["dumb", "", "linux"] {
        let end = Scene { term, ..Scene::default() }.play(|person, _| {
            person.sees("/srv/a/x");
            person.is_asked();
            person.answers('o');
        });
        assert!(!end.drawn.contains('\x1b'), "{:?}", end.drawn);
        assert_eq!(answer(end), Answer::Once(Width::Exact));
    }
}

#[test]
fn a_terminal_too_small_for_the_question_is_not_touched() {
    let end = Scene { window: (3, 80), ..Scene::default() }.play(|_, _| {});
    assert!(matches!(end.result, Some(Err(ConsentError::Unavailable(_)))));
    assert_eq!(end.drawn, "");
}

#[test]
fn a_window_that_changes_is_drawn_anew() {
    let end = Scene::default().play(|person, _| {
        person.is_asked();
        let window = rustix::termios::Winsize { ws_row: 30, ws_col: 34, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&person.master, window).unwrap();
        person.sees("object: /srv/a/x");
        person.is_asked();
        person.answers('d');
    });
    assert_eq!(answer(end), Answer::Deny);
}

/// The child of the next test: stdin is its terminal, a byte on stderr its end.
#[test]
#[ignore = "a process of its own, started by a_panic_that_aborts_leaves_the_terminal_as_it_was"]
fn child_that_panics_at_a_prompt() {
    // As with `panic = "abort"`: nothing is unwound, nothing is dropped.
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    let tty: OwnedFd = std::fs::File::options().read(true).write(true).open("/proc/self/fd/0").unwrap().into();
    let mut agent = Terminal::new(tty, "xterm", "alice", Relay::default(), Timing::default()).unwrap();
    std::thread::spawn(|| {
        rustix::io::read(rustix::stdio::stderr(), &mut [0; 1]).unwrap();
        panic!("in another thread");
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(agent.ask(&prompt())).unwrap();
}

#[test]
fn a_panic_that_aborts_leaves_the_terminal_as_it_was() {
    let window = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&window, None).unwrap();
    let before = modes(&pty.slave);
    let (word, end) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_that_panics_at_a_prompt", "--nocapture"])
        .stdin(pty.slave.try_clone().unwrap())
        .stdout(std::process::Stdio::null())
        .stderr(OwnedFd::from(end))
        .spawn()
        .unwrap();
    let mut person = Person { master: pty.master, seen: Vec::new(), past: 0 };
    person.is_asked();
    assert_ne!(modes(&pty.slave), before);
    rustix::io::write(&word, b"x").unwrap();
    assert!(!child.wait().unwrap().success());
    person.sees("\x1b[?1049l");
    assert_eq!(modes(&pty.slave), before);
}

/// The child of the next test: in the background of its controlling terminal, where reading would stop it.
#[test]
#[ignore = "a process of its own, started by from_the_background_nobody_is_asked"]
fn child_in_the_background() {
    let tty: OwnedFd = std::fs::File::options().read(true).write(true).open("/dev/tty").unwrap().into();
    let relay = Relay::default();
    let log = Rc::clone(&relay.log);
    let mut agent = Terminal::new(tty, "xterm", "alice", relay, Timing::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(agent.ask(&prompt()));
    assert!(matches!(result, Err(ConsentError::Unavailable(_))));
    assert!(log.borrow().is_empty());
}

#[test]
fn from_the_background_nobody_is_asked() {
    let pty = openpty(None, None).unwrap();
    // With job control the shell gives the child a process group of its own and stays in the foreground; `wait` also
    // returns when the child is stopped.
    let script = r#"set -m; "$0" --ignored --exact child_in_the_background & wait $!"#;
    let status = std::process::Command::new("setsid")
        .args(["--ctty", "--wait", "bash", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .stdin(pty.slave)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}
