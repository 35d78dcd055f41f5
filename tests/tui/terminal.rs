//! The terminal, the shell and the daemon around the screen: whatever ends it, the terminal is as it was.

use crate::answers::{PROFILE, somebody_else};
use crate::seat::Seat;
use crate::world::{PrivateBus, World, run};

/// Whether the terminal echoes and edits lines again, the cursor is there, and the screen is the shell's.
async fn is_restored(seat: &Seat) {
    seat.until("the shell", |screen| !screen.contains("Queue")).await;
    seat.line("stty -a | grep -o ' icanon\\| echo ' | tr '\\n' +; echo modes").await;
    seat.shows(" icanon+ echo +modes").await;
    let flags = seat.tmux(&["display-message", "-p", "-t", ":", "#{cursor_flag} #{alternate_on}"]).await;
    assert_eq!(flags.trim(), "1 0");
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    run(async {
        let bus = PrivateBus::start();
        let _world = World::start(bus.address()).await;
        for signal in ["TERM", "HUP", "INT"] {
            let seat = Seat::new(bus.address(), 80, 24, &[]).await;
            seat.line("echo before; gatedctl tui & fg").await;
            seat.shows("Nothing waits").await;
            let pid = seat.tmux(&["display-message", "-p", "-t", ":", "#{pane_pid}"]).await;
            let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", pid.trim())).unwrap();
            let status = tokio::process::Command::new("kill")
                .arg(format!("-{signal}"))
                .args(children.split_whitespace())
                .status();
            assert!(status.await.unwrap().success());
            is_restored(&seat).await;
            assert!(seat.screen().await.contains("before"));
        }
    });
}

#[test]
fn it_stops_as_a_job_and_comes_back() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let _other = somebody_else(&world).await;
        let mut supervisor = world.session(&client, PROFILE).await;
        let seat = Seat::new(bus.address(), 80, 24, &[]).await;
        seat.tui().await;
        for round in 1..=2 {
            supervisor.ask(round, &format!("/srv/{round}")).await;
            seat.shows(&format!("object     /srv/{round}")).await;
            seat.press(&["C-z"]).await;
            seat.shows("Stopped").await;
            is_restored(&seat).await;
            // What goes on meanwhile is there afterwards.
            seat.line("clear; fg").await;
            seat.shows(&format!("object     /srv/{round}")).await;
            seat.answer("d").await;
            assert!(!supervisor.decided().await.outcome.permits());
        }
        seat.press(&["q"]).await;
        is_restored(&seat).await;
    });
}

/// Names the bus and the object that a daemon in a process of its own is for.
const PLAYED: [&str; 2] = ["GATED_TEST_TUI_BUS", "GATED_TEST_TUI_OBJECT"];

/// A daemon with a request that waits, in a process of its own, which is this program again; dropped, it is killed.
fn daemon(address: &str, object: &str) -> tokio::process::Child {
    let mut command = tokio::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "terminal::another_test_has_its_daemon_here", "--nocapture"]);
    command.env(PLAYED[0], address).env(PLAYED[1], object).kill_on_drop(true);
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

#[test]
fn another_test_has_its_daemon_here() {
    let [Ok(address), Ok(object)] = PLAYED.map(std::env::var) else { return };
    run(async {
        let world = World::start(&address).await;
        let client = world.connect().await;
        let _other = somebody_else(&world).await;
        let mut supervisor = world.session(&client, PROFILE).await;
        supervisor.ask(1, &object).await;
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_daemon_that_is_gone_is_told_and_the_next_one_found() {
    run(async {
        let bus = PrivateBus::start();
        let first = daemon(bus.address(), "/srv/first");
        let seat = Seat::new(bus.address(), 80, 24, &[]).await;
        seat.line("until gatedctl status; do :; done; clear; gatedctl tui").await;
        seat.shows("object     /srv/first").await;
        drop(first);
        let screen = seat.shows("daemon gone").await;
        assert!(!screen.contains("/srv/first"), "{screen}");
        let _second = daemon(bus.address(), "/srv/second");
        let screen = seat.shows("object     /srv/second").await;
        assert!(!screen.contains("daemon gone"), "{screen}");
    });
}
