//! What the screen looks like, and what it makes of hostile names, other sizes, and terminals without colour.

use gated::common::access::{Access, Level};
use gated::common::exec::{Execution, Parent};
use gated::common::request::Operation;
use gated::common::text::Untrusted;
use gated::common::wire::FromSession;

use crate::answers::{PROFILE, somebody_else};
use crate::seat::{Seat, plain};
use crate::world::{PrivateBus, Supervisor, World, run, waiting};

/// Compares with `tests/golden/NAME`, or makes it.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{name}");
}

fn words(words: &[&str]) -> Vec<Untrusted> {
    words.iter().map(|word| Untrusted::new(*word)).collect()
}

/// An ordinary file, a command with its ancestors, and a name that tries to be more than a name.
async fn three(supervisor: &mut Supervisor) {
    supervisor.ask(1, "/home/me/src/elsewhere/notes.txt").await;
    let mut request = supervisor.request(2, "/usr/bin/git");
    (request.access, request.operation) = (Access::Exec, Operation::Execute);
    request.level = Level::Authenticate;
    request.rule.reason = Some("pushes leave this machine".into());
    let parent = |pid, program: &str, argv: &[&str]| Parent { pid, program: program.into(), argv: words(argv) };
    request.execution = Some(Box::new(Execution {
        argv: words(&["git", "push", "--force", "my remote"]),
        words_left_out: 0,
        interpreters: vec![],
        variables: vec![],
        parents: vec![parent(90, "/usr/bin/dash", &["sh", "-c", "git push"]), parent(80, "/usr/bin/node", &["claude"])],
        is_new: false,
        version: None,
        is_first: false,
    }));
    supervisor.send(FromSession::Ask(Box::new(request))).await;
    supervisor.ask(3, "/srv/\x1b[2J\x1b]0;owned\x07\u{202e}gpj.\n> 日本語\u{200b}").await;
}

#[test]
fn the_queue_looks_as_it_does() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let _other = somebody_else(&world).await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let session = supervisor.session.0.clone();
        three(&mut supervisor).await;
        world.until("three requests", |core| waiting(core) == 3).await;
        for (columns, rows) in [(80, 24), (120, 40)] {
            let seat = Seat::new(bus.address(), columns, rows, &[]).await;
            seat.tui().await;
            let golden = |part: &str, screen: &str| {
                golden(&format!("tui_{part}_{columns}x{rows}.txt"), &plain(screen, &[&session]));
            };
            golden(
                "file",
                &seat
                    .until("the file", |screen| screen.contains("[Queue 3] Sessions 1") && screen.contains("notes.txt"))
                    .await,
            );
            seat.press(&["j"]).await;
            golden("command", &seat.shows("called by").await);
            seat.press(&["j"]).await;
            let screen = seat.shows("object     /srv/").await;
            assert!(
                !screen.contains("owned\n") && screen.contains("\\x1b]0;owned\\x07\\u{202e}gpj.\\n> 日本語\\u{200b}"),
                "{screen}"
            );
            golden("hostile", &screen);
            seat.press(&["?"]).await;
            golden("help", &seat.shows("any key = back").await);
            seat.press(&["Space"]).await;
            seat.press(&["Tab"]).await;
            let screen =
                seat.until("sessions", |screen| screen.contains("[Sessions 1]") && screen.contains("directory")).await;
            assert!(screen.contains("/work") && screen.contains("x = stop"), "{screen}");
            seat.press(&["q"]).await;
            seat.until("the shell", |screen| !screen.contains("Queue")).await;
        }
    });
}

#[test]
fn another_size_is_drawn_anew_and_a_small_one_takes_no_yes() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let _other = somebody_else(&world).await;
        let mut supervisor = world.session(&client, PROFILE).await;
        supervisor.ask(1, "/home/me/notes.txt").await;
        let seat = Seat::new(bus.address(), 80, 24, &[]).await;
        seat.tui().await;
        seat.shows("object     /home/me/notes.txt").await;
        for (columns, rows) in [(40, 10), (30, 5), (10, 3), (100, 30), (20, 4)] {
            seat.resize(columns, rows).await;
            let screen = seat.until("a screen of this size", |screen| match (columns, rows) {
                (10, 3) => screen.contains("too small"),
                (_, 10..) => screen.contains("notes.txt") && screen.contains("d = deny"),
                _ => screen.contains("[Queue 1]") && screen.contains("d = deny"),
            });
            let screen = screen.await;
            assert!(screen.lines().count() <= usize::from(rows), "{screen}");
        }
        // 20 columns of 4 rows have no room for what matters.
        seat.answer("o").await;
        seat.resize(80, 24).await;
        seat.shows("too small to show what is asked").await;
        assert!(world.audited().is_empty(), "{:?}", world.audited());
        seat.answer("o").await;
        assert!(supervisor.decided().await.outcome.permits());
    });
}

/// NO_COLOR: what is drawn says it without colours. tmux can tell what it was sent.
#[test]
fn without_colours_there_are_none() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let _other = somebody_else(&world).await;
        let mut supervisor = world.session(&client, PROFILE).await;
        three(&mut supervisor).await;
        let coloured = |screen: &str| screen.contains("[38;5;");
        for (environment, has_colours) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
            let seat = Seat::new(bus.address(), 80, 24, environment).await;
            seat.tui().await;
            seat.shows("> this file").await;
            let screen = seat.tmux(&["capture-pane", "-p", "-e", "-t", ":"]).await;
            assert_eq!(coloured(&screen), has_colours, "{screen:?}");
        }
    });
}

#[test]
fn a_terminal_that_cannot_draw_is_refused_with_a_hint() {
    run(async {
        let bus = PrivateBus::start();
        let _world = World::start(bus.address()).await;
        let seat = Seat::new(bus.address(), 80, 24, &[("TERM", "dumb")]).await;
        seat.line("gatedctl tui; echo status $?").await;
        let screen = seat.shows("status 2").await;
        assert!(screen.contains("gatedctl ask --plain"), "{screen}");
        seat.line("clear; TERM=xterm gatedctl tui < /dev/null; echo status $?").await;
        assert!(seat.shows("status 2").await.contains("gatedctl ask --plain"));
    });
}

/// Grants come, are looked at, and are taken back; sessions are stopped.
#[test]
fn grants_are_revoked_and_sessions_stopped_from_the_screen() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let seat = Seat::new(bus.address(), 80, 24, &[]).await;
        seat.tui().await;
        supervisor.ask(1, "/srv/a").await;
        seat.shows("object     /srv/a").await;
        seat.answer("s").await;
        let grant = supervisor.granted().await;
        seat.press(&["Tab"]).await;
        seat.shows("[Sessions").await;
        seat.press(&["Tab"]).await;
        seat.until("the grant", |screen| {
            screen.contains("[Grants]") && screen.contains("> /srv/a") || screen.contains("/srv/a")
        })
        .await;
        seat.press(&["x"]).await;
        seat.shows("y = yes").await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        seat.press(&["y"]).await;
        seat.shows("Taken back").await;
        assert!(matches!(supervisor.message().await, gated::common::wire::ToSession::Revoke(id) if id == grant.id));
        seat.press(&["BTab"]).await;
        seat.shows("x = stop").await;
        seat.press(&["x"]).await;
        seat.shows("Kill everything in session").await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        seat.press(&["y"]).await;
        seat.shows("Stopped session").await;
        let ended = &supervisor.session;
        world.until("the end", |core| core.sessions.borrow().is_empty() || world.killed.borrow().contains(ended)).await;
    });
}
