//! What goes over the bus, with a server that the test plays: which signals are believed, and what happens when a part of
//! the desktop comes or goes.

use std::io::Write;
use std::time::Duration;

use gated::common::consent::Answer;
use gated::common::decision::{Lifetime, Width};
use gated::common::request::Request;
use nix::sys::signal::Signal;
use zbus::interface;

use crate::desk::{Bus, Daemon, Desk, READING, Reply, answer, connect, run};
use crate::fake::{Fake, invoke};
use crate::prompts::{npmrc, prompt, request};

const LABELS: [&str; 3] = ["Deny", "Allow once", "Allow for session"];
const ONCE: Reply = Ok(Answer::Once(Width::Exact));
const ALL_DENY: Reply = Ok(Answer::Deny);

async fn desk() -> (Desk, Fake) {
    let mut desk = Desk::bare().await;
    let fake = Fake::with_buttons(&desk.session).await;
    desk.start_notifier();
    desk.daemon.registered().await;
    (desk, fake)
}

fn unavailable() -> Reply {
    Err("org.gated.Gated1.Error.Unavailable".to_owned())
}

#[test]
fn a_request_is_a_critical_notification_with_three_buttons_that_does_not_expire() {
    run(async {
        let (desk, mut fake) = desk().await;
        let asking = desk.daemon.ask(&npmrc(0x1234_abcd, 1));
        let shown = fake.shown().await;
        assert_eq!(shown.labels(), LABELS);
        assert_eq!((shown.replaces, shown.urgency, shown.expires), (0, 2, 0));
        assert_eq!(shown.summary, "npm wants to write /home/alice/.npmrc");
        assert!(shown.body.ends_with("\ngatedctl approve 1234abcd"), "{}", shown.body);
        assert!(shown.actions.iter().all(|(key, _)| key != "default" && key.len() > 32), "{shown:?}");
        tokio::time::sleep(READING).await;
        fake.press(&shown, "Allow once").await;
        assert_eq!(answer(asking).await, ONCE);
    });
}

#[test]
fn what_is_done_without_a_question_is_told_in_passing() {
    run(async {
        let mut desk = Desk::bare().await;
        let mut fake = Fake::with_buttons(&desk.session).await;
        let mut events = desk.daemon.events();
        desk.start_notifier();
        desk.daemon.registered().await;
        let line = |event: &str, object: &str| {
            format!(
                "{{\"event\":\"{event}\",\"program\":\"/usr/bin/npm\",\"access\":\"write\",\"operation\":\"create\",\"object\":\"{object}\"}}\n"
            )
        };
        for (event, object) in [("denied", "/a"), ("notified", "/b"), ("allowed_by_grant", "/c"), ("notified", "/d")] {
            events.write_all(line(event, object).as_bytes()).unwrap();
        }
        let shown = fake.shown().await;
        assert_eq!(shown.summary, "gated let npm do 2 things");
        assert_eq!(shown.body, "npm: create /b\nnpm: create /d");
        assert_eq!((shown.urgency, shown.expires), (0, -1));
        assert!(shown.actions.is_empty());
        // A request is not held up by it.
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let asked = fake.shown().await;
        fake.press(&asked, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn the_session_is_offered_only_where_the_rule_lets_it() {
    run(async {
        let (desk, mut fake) = desk().await;
        let brief = Request { remember: Lifetime::Call, ..request(1, 1, b"/home/alice/.npmrc") };
        let asking = desk.daemon.ask_for(&prompt(brief), 0);
        let shown = fake.shown().await;
        assert_eq!(shown.labels(), ["Deny", "Allow once"]);
        assert!(shown.summary.starts_with("npm of root wants"), "{}", shown.summary);
        fake.press(&shown, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn a_yes_within_800_ms_is_asked_again_and_a_no_counts() {
    run(async {
        let (desk, mut fake) = desk().await;
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let first = fake.shown().await;
        fake.press(&first, "Allow for session").await;
        assert_eq!(fake.closed().await, first.id);
        let second = fake.shown().await;
        assert!(second.body.starts_with("Not counted: "), "{}", second.body);
        assert!(!asking.is_finished());
        // What the first drawing's buttons are called means nothing any more, under either id.
        tokio::time::sleep(READING).await;
        invoke(&fake.connection, &first, first.key("Allow once")).await;
        invoke(&fake.connection, &second, first.key("Allow once")).await;
        desk.notifier().says("counts for nothing", 4).await;
        assert!(!asking.is_finished());
        fake.press(&second, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn a_forged_signal_is_not_believed() {
    run(async {
        let (desk, mut fake) = desk().await;
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        tokio::time::sleep(READING).await;
        // Another program of the person's, which has even seen what the buttons are called.
        let forger = connect(&desk.session).await;
        for label in LABELS {
            invoke(&forger, &shown, shown.key(label)).await;
        }
        let closed = ("org.freedesktop.Notifications", "NotificationClosed");
        forger
            .emit_signal(None::<&str>, "/org/freedesktop/Notifications", closed.0, closed.1, &(shown.id, 2u32))
            .await
            .unwrap();
        // It cannot make itself the server either.
        let owners = ("org.freedesktop.DBus", "NameOwnerChanged");
        let name = forger.unique_name().unwrap().to_string();
        let change = ("org.freedesktop.Notifications", fake.connection.unique_name().unwrap().to_string(), name);
        forger
            .emit_signal(Some(shown.caller.as_str()), "/org/freedesktop/DBus", owners.0, owners.1, &change)
            .await
            .unwrap();
        invoke(&forger, &shown, shown.key("Allow once")).await;
        // The server, but for ids and buttons that are not there.
        for key in ["once", "default", "", "allow", &format!("{}0", shown.key("Allow once"))] {
            invoke(&fake.connection, &shown, key).await;
        }
        desk.notifier().says("counts for nothing", 10).await;
        assert!(!asking.is_finished());
        fake.is_quiet();
        fake.press(&shown, "Allow once").await;
        assert_eq!(answer(asking).await, ONCE);
        assert_eq!(
            desk.notifier().said().matches("counts for nothing").count(),
            10,
            "only the server's are even looked at"
        );
    });
}

#[test]
fn another_server_is_shown_everything_again_and_the_old_ids_are_dead() {
    run(async {
        let (desk, mut fake) = desk().await;
        let (one, two) = (desk.daemon.ask(&npmrc(1, 1)), desk.daemon.ask(&npmrc(2, 2)));
        let old = [fake.shown().await, fake.shown().await];
        tokio::time::sleep(READING).await;
        // The old one goes on talking after it has lost its name.
        fake.connection.release_name("org.freedesktop.Notifications").await.unwrap();
        let mut next = Fake::with_buttons(&desk.session).await;
        let new = [next.shown().await, next.shown().await];
        assert_eq!([new[0].id, new[1].id], [old[0].id, old[1].id], "as after a restart");
        invoke(&fake.connection, &old[0], old[0].key("Allow once")).await;
        // The new one talks of what the old one had drawn.
        invoke(&next.connection, &new[1], old[1].key("Allow once")).await;
        desk.notifier().says("counts for nothing", 2).await;
        tokio::time::sleep(READING).await;
        assert!(!one.is_finished() && !two.is_finished());
        next.press(&new[1], "Allow for session").await;
        assert_eq!(answer(two).await, Ok(Answer::Session(Width::Exact)));
        assert!(!one.is_finished(), "the answer to one is not the answer to the other");
        assert_eq!(next.closed().await, new[1].id);
        next.press(&new[0], "Deny").await;
        assert_eq!(answer(one).await, ALL_DENY);
    });
}

#[test]
fn what_is_decided_elsewhere_is_closed_and_its_buttons_are_dead() {
    run(async {
        let (desk, mut fake) = desk().await;
        let prompts = [npmrc(1, 1), npmrc(2, 1)];
        let first = desk.daemon.ask(&prompts[0]);
        let shown = fake.shown().await;
        let second = desk.daemon.ask(&prompts[1]);
        desk.notifier().says("asked", 2).await;
        fake.is_quiet();
        desk.daemon.cancel(prompts[0].request.id).await;
        let _ = answer(first).await;
        assert_eq!(fake.closed().await, shown.id);
        let next = fake.shown().await;
        tokio::time::sleep(READING).await;
        fake.press(&shown, "Allow once").await;
        desk.notifier().says("counts for nothing", 1).await;
        assert!(!second.is_finished());
        fake.press(&next, "Allow once").await;
        assert_eq!(answer(second).await, ONCE);
    });
}

#[test]
fn what_is_put_away_is_no_answer_and_what_expires_is_shown_again() {
    run(async {
        let (desk, mut fake) = desk().await;
        let asked = npmrc(1, 1);
        let asking = desk.daemon.ask(&asked);
        let shown = fake.shown().await;
        fake.close(&shown, 1).await;
        let again = fake.shown().await;
        fake.close(&again, 2).await;
        desk.notifier().says("put away without an answer", 1).await;
        tokio::time::sleep(READING).await;
        fake.is_quiet();
        assert!(!asking.is_finished());
        // It is still there for gatedctl; then the daemon withdraws it.
        desk.daemon.cancel(asked.request.id).await;
        let _ = answer(asking).await;
        fake.is_quiet();
    });
}

#[test]
fn a_flood_of_one_session_is_five_notifications_and_another_session_gets_its_own() {
    run(async {
        let (desk, mut fake) = desk().await;
        let flood: Vec<_> = (0..100).map(|number| npmrc(number, 1)).collect();
        let asking: Vec<_> = flood.iter().map(|prompt| desk.daemon.ask(prompt)).collect();
        for _ in 0..5 {
            let shown = fake.shown().await;
            fake.press(&shown, "Deny").await;
            let _ = fake.closed().await;
        }
        let other = desk.daemon.ask(&npmrc(500, 2));
        let shown = fake.shown().await;
        assert!(shown.body.contains("gatedctl approve 000001f4"), "{}", shown.body);
        tokio::time::sleep(READING).await;
        fake.press(&shown, "Allow once").await;
        assert_eq!(answer(other).await, ONCE);
        assert_eq!(asking.iter().filter(|asking| asking.is_finished()).count(), 5);
        let _ = fake.closed().await;
        fake.is_quiet();
    });
}

#[test]
fn a_server_without_buttons_is_told_how_to_answer() {
    run(async {
        let mut desk = Desk::bare().await;
        let mut fake = Fake::start(&desk.session, &["body"]).await;
        desk.start_notifier();
        desk.daemon.registered().await;
        let asked = prompt(request(0x1234_abcd, 1, b"/home/alice/<b>"));
        let asking = desk.daemon.ask(&asked);
        let shown = fake.shown().await;
        assert_eq!(shown.actions, []);
        assert!(shown.expires > 10_000 && shown.expires <= 60_000, "{}", shown.expires);
        assert!(shown.body.contains("To answer: gatedctl approve 1234abcd") && shown.body.contains("\\x3cb\\x3e"));
        // It can send what it likes.
        for key in ["once", "default", "session"] {
            invoke(&fake.connection, &shown, key).await;
        }
        desk.notifier().says("counts for nothing", 6).await;
        assert!(!asking.is_finished());
        desk.daemon.cancel(asked.request.id).await;
        assert_eq!(fake.closed().await, shown.id);
    });
}

#[test]
fn without_a_server_nobody_registers_and_with_its_end_requests_are_left_to_others() {
    run(async {
        let mut desk = Desk::bare().await;
        desk.start_notifier();
        desk.notifier().says("no notification server; requests are left to gatedctl", 1).await;
        assert!(desk.daemon.is_quiet(), "registered without a server");
        let mut fake = Fake::with_buttons(&desk.session).await;
        desk.daemon.registered().await;
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        fake.connection.release_name("org.freedesktop.Notifications").await.unwrap();
        desk.daemon.unregistered().await;
        // Whatever comes back counts for nothing: the daemon has struck it off.
        assert_ne!(answer(asking).await, ONCE);
        desk.notifier().says("left to gatedctl", 2).await;
        let mut next = Fake::with_buttons(&desk.session).await;
        desk.daemon.registered().await;
        let asking = desk.daemon.ask(&npmrc(2, 1));
        let again = next.shown().await;
        next.press(&again, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
        drop(shown);
    });
}

/// A screen saver that the test plays.
struct Saver(bool);

#[interface(name = "org.gnome.ScreenSaver")]
impl Saver {
    fn get_active(&self) -> bool {
        self.0
    }
}

#[test]
fn while_the_screen_is_locked_nothing_is_shown_and_nothing_counts() {
    run(async {
        let (desk, mut fake) = desk().await;
        let saver = connect(&desk.session).await;
        saver.object_server().at("/org/gnome/ScreenSaver", Saver(false)).await.unwrap();
        saver.request_name("org.gnome.ScreenSaver").await.unwrap();
        let lock = async |locked: bool, told: bool| {
            let object = saver.object_server().interface::<_, Saver>("/org/gnome/ScreenSaver").await.unwrap();
            object.get_mut().await.0 = locked;
            if told {
                let path = "/org/gnome/ScreenSaver";
                saver.emit_signal(None::<&str>, path, "org.gnome.ScreenSaver", "ActiveChanged", &locked).await.unwrap();
            }
        };
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        tokio::time::sleep(READING).await;
        // Locked without a word: the click is what makes it look.
        lock(true, false).await;
        fake.press(&shown, "Allow once").await;
        assert_eq!(fake.closed().await, shown.id, "left on a locked screen");
        let unseen = npmrc(2, 2);
        let missed = desk.daemon.ask(&unseen);
        desk.notifier().says("asked", 2).await;
        desk.daemon.cancel(unseen.request.id).await;
        let _ = answer(missed).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        fake.is_quiet();
        assert!(!asking.is_finished());
        lock(false, true).await;
        let told = fake.shown().await;
        assert_eq!(told.summary, "1 request was not seen while the screen was locked");
        assert_eq!((told.labels(), told.urgency, told.expires), (vec![], 1, -1));
        let again = fake.shown().await;
        tokio::time::sleep(READING).await;
        fake.press(&again, "Allow once").await;
        assert_eq!(answer(asking).await, ONCE);
    });
}

/// A session of logind's that the test plays.
struct Login;

#[interface(name = "org.freedesktop.login1.User")]
impl Login {
    #[zbus(property)]
    fn display(&self) -> (String, zbus::OwnedObjectPath) {
        ("c1".to_owned(), "/org/freedesktop/login1/session/c1".try_into().unwrap())
    }
}

struct LoginSession(bool);

#[interface(name = "org.freedesktop.login1.Session")]
impl LoginSession {
    #[zbus(property)]
    fn locked_hint(&self) -> bool {
        self.0
    }
}

#[test]
fn a_session_that_logind_calls_locked_is_locked() {
    run(async {
        let (desk, mut fake) = desk().await;
        let login = connect(&desk.system).await;
        login.object_server().at("/org/freedesktop/login1/user/self", Login).await.unwrap();
        login.object_server().at("/org/freedesktop/login1/session/c1", LoginSession(true)).await.unwrap();
        login.request_name("org.freedesktop.login1").await.unwrap();
        let asking = desk.daemon.ask(&npmrc(1, 1));
        desk.notifier().says("locked=true", 1).await;
        fake.is_quiet();
        let object =
            login.object_server().interface::<_, LoginSession>("/org/freedesktop/login1/session/c1").await.unwrap();
        object.get_mut().await.0 = false;
        drop(object);
        // Nobody tells: it looks again by itself.
        let shown = fake.shown().await;
        fake.press(&shown, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn a_new_daemon_is_registered_with_and_what_the_old_one_asked_is_gone() {
    run(async {
        let (mut desk, mut fake) = desk().await;
        let _asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        desk.daemon.connection.clone().close().await.unwrap();
        assert_eq!(fake.closed().await, shown.id);
        desk.daemon = Daemon::start(&desk.system).await;
        desk.daemon.registered().await;
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let again = fake.shown().await;
        fake.press(&again, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn a_second_notifier_of_a_desktop_waits_for_the_end_of_the_first() {
    run(async {
        let (mut desk, mut fake) = desk().await;
        let command = desk.command(desk.notifier_program());
        let second = desk.start(command);
        second.says("another gated-notify serves this desktop", 1).await;
        assert!(desk.daemon.is_quiet(), "registered twice");
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        // Told to end, the first takes its notification with it.
        let mut first = desk.notifier.take().unwrap();
        first.stop(Signal::SIGTERM);
        assert!(first.child.wait().unwrap().success());
        assert_eq!(fake.closed().await, shown.id);
        assert_ne!(answer(asking).await, ONCE);
        desk.daemon.registered().await;
        let asking = desk.daemon.ask(&npmrc(2, 1));
        let shown = fake.shown().await;
        fake.press(&shown, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn a_notifier_that_is_killed_brings_no_answer() {
    run(async {
        let (mut desk, mut fake) = desk().await;
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        desk.notifier.as_mut().unwrap().stop(Signal::SIGKILL);
        let reply = answer(asking).await;
        assert!(reply.is_err() && reply != unavailable(), "{reply:?}");
        desk.start_notifier();
        desk.daemon.registered().await;
        tokio::time::sleep(READING).await;
        // The old notification is still drawn.
        let asking = desk.daemon.ask(&npmrc(2, 1));
        let new = fake.shown().await;
        tokio::time::sleep(READING).await;
        invoke(&fake.connection, &shown, shown.key("Allow once")).await;
        invoke(&fake.connection, &crate::fake::Shown { caller: new.caller.clone(), ..shown }, "once").await;
        assert!(!asking.is_finished());
        fake.press(&new, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn both_buses_may_be_started_anew() {
    run(async {
        let (mut desk, mut fake) = desk().await;
        let asking = desk.daemon.ask(&npmrc(1, 1));
        let shown = fake.shown().await;
        desk.restart(Bus::System).await;
        assert!(answer(asking).await.is_err());
        assert_eq!(fake.closed().await, shown.id);
        desk.daemon = Daemon::start(&desk.system).await;
        desk.daemon.registered().await;
        desk.restart(Bus::Session).await;
        // A new server comes in time: nobody need be told.
        let mut fake = Fake::with_buttons(&desk.session).await;
        let asking = desk.daemon.ask(&npmrc(2, 1));
        let shown = fake.shown().await;
        fake.press(&shown, "Deny").await;
        assert_eq!(answer(asking).await, ALL_DENY);
    });
}

#[test]
fn root_is_refused() {
    run(async {
        let mut desk = Desk::bare().await;
        let mut command = desk.command(desk.notifier_program());
        std::os::unix::process::CommandExt::uid(&mut command, 0);
        let mut program = desk.start(command);
        let ended = program.child.wait().unwrap();
        assert_eq!(ended.code(), Some(1));
        assert!(program.said().contains("does not run as root"), "{}", program.said());
    });
}
