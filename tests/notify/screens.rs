//! Real notification servers on a real X server, and a pointer that clicks. What the screen shows is kept in
//! target/artefacts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use gated::common::consent::{Answer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, Who};
use gated::common::text::Untrusted;
use nix::sys::signal::Signal;

use crate::desk::{DUNST, Desk, NOTIFY_OSD, READING, XFCE, answer, run, until};
use crate::prompts::{npmrc, prompt, request};

const XFCE_CLASS: &str = "Xfce4-notifyd";

/// npm at a file in the person's own home.
fn in_home(desk: &Desk, number: u32, session: u32) -> Prompt {
    let file = RawPath::from(desk.home()).join(b".npmrc");
    prompt(request(number, session, file.as_bytes()))
}

/// The middle of one of `count` buttons of a notification of Xfce: they share its last row.
fn button(window: [i32; 4], at: i32, count: i32) -> (i32, i32) {
    let [x, y, width, height] = window;
    (x + width * (2 * at + 1) / (2 * count), y + height - 31)
}

/// A notification, a person who reads it, and a click.
async fn one_click(at: i32, expected: Answer) {
    let desk = Desk::with_server(XFCE).await;
    let asking = desk.daemon.ask(&in_home(&desk, 0x1234_abcd, 1));
    let window = desk.sees(XFCE_CLASS, 1).await[0];
    tokio::time::sleep(READING).await;
    if at == 0 {
        desk.screenshot("notification-xfce");
    }
    let (x, y) = button(window, at, 3);
    desk.click(x, y);
    assert_eq!(answer(asking).await, Ok(expected));
    desk.sees(XFCE_CLASS, 0).await;
}

#[test]
fn deny_is_clicked() {
    run(one_click(0, Answer::Deny));
}

#[test]
fn allow_once_is_clicked() {
    run(one_click(1, Answer::Once(Width::Exact)));
}

#[test]
fn allow_for_session_is_clicked() {
    run(one_click(2, Answer::Session(Width::Exact)));
}

#[test]
fn a_click_beside_the_buttons_is_no_answer() {
    run(async {
        let desk = Desk::with_server(XFCE).await;
        let asked = in_home(&desk, 1, 1);
        let asking = desk.daemon.ask(&asked);
        let [x, y, ..] = desk.sees(XFCE_CLASS, 1).await[0];
        tokio::time::sleep(READING).await;
        desk.click(x + 40, y + 60);
        desk.notifier().says("put away without an answer", 1).await;
        desk.sees(XFCE_CLASS, 0).await;
        assert!(!asking.is_finished());
        desk.daemon.cancel(asked.request.id).await;
    });
}

#[test]
fn what_is_decided_elsewhere_disappears_and_the_next_is_shown() {
    run(async {
        let desk = Desk::with_server(XFCE).await;
        let brief = Request { remember: Lifetime::Call, ..request(2, 1, b"/srv/shared/notes") };
        let (first, second) = (in_home(&desk, 1, 1), prompt(brief));
        let _first = desk.daemon.ask(&first);
        desk.sees(XFCE_CLASS, 1).await;
        let asking = desk.daemon.ask(&second);
        desk.notifier().says("asked", 2).await;
        desk.daemon.cancel(first.request.id).await;
        desk.notifier().says("shown", 2).await;
        let window = desk.sees(XFCE_CLASS, 1).await[0];
        tokio::time::sleep(READING).await;
        desk.screenshot("notification-xfce-two-buttons");
        // Deny and Allow once: this rule lets nothing hold for the session.
        let (x, y) = button(window, 1, 2);
        desk.click(x, y);
        assert_eq!(answer(asking).await, Ok(Answer::Once(Width::Exact)));
    });
}

#[test]
fn three_sessions_are_shown_at_once_and_hostile_names_do_no_harm() {
    run(async {
        let desk = Desk::with_server(XFCE).await;
        let mut hostile = request(2, 2, "/srv/\u{202e}fdp.exe\n<b>bold</b> <a href='x'>&amp;".as_bytes());
        hostile.who.program = RawPath::new(b"/tmp/<i>npm wants to read nothing</i>\x1b[1m".to_vec());
        hostile.who.argv = vec![Untrusted::new("sh"), Untrusted::new("-c"), Untrusted::new("\n\n\n\nDeny &#10; <big>")];
        let long = format!("/srv/{}end-of-it", "<deep>/".repeat(500));
        let rename = Request {
            operation: Operation::Rename,
            other: Some(RawPath::new(b"/srv/<other>".to_vec())),
            ..request(3, 3, long.as_bytes())
        };
        let asking = [in_home(&desk, 1, 1), prompt(hostile), prompt(rename)].map(|prompt| desk.daemon.ask(&prompt));
        desk.sees(XFCE_CLASS, 3).await;
        let fourth = desk.daemon.ask(&npmrc(4, 4));
        desk.notifier().says("asked", 4).await;
        tokio::time::sleep(READING).await;
        let windows = desk.sees(XFCE_CLASS, 3).await;
        desk.screenshot("notification-xfce-hostile");
        // Each click is an answer to the request that it is on.
        let (x, y) = button(windows[1], 0, 3);
        desk.click(x, y);
        until("one answer", || asking.iter().any(|asking| asking.is_finished()).then_some(())).await;
        assert_eq!(asking.iter().filter(|asking| asking.is_finished()).count(), 1);
        desk.notifier().says("shown", 4).await;
        desk.sees(XFCE_CLASS, 3).await;
        assert!(!fourth.is_finished());
    });
}

#[test]
fn a_server_that_is_started_anew_shows_it_again() {
    run(async {
        let mut desk = Desk::with_server(XFCE).await;
        let asking = desk.daemon.ask(&in_home(&desk, 1, 1));
        desk.sees(XFCE_CLASS, 1).await;
        desk.server.as_mut().unwrap().stop(Signal::SIGKILL);
        desk.sees(XFCE_CLASS, 0).await;
        desk.start_server(XFCE).await;
        let window = desk.sees(XFCE_CLASS, 1).await[0];
        tokio::time::sleep(READING).await;
        let (x, y) = button(window, 1, 3);
        desk.click(x, y);
        assert_eq!(answer(asking).await, Ok(Answer::Once(Width::Exact)));
    });
}

/// dunst draws no buttons; its menu has the actions in the order in which they were sent.
#[test]
fn an_action_of_the_menu_of_dunst_is_an_answer() {
    run(async {
        let mut desk = Desk::bare().await;
        // The program that shows the menu, as a person who picks the second entry.
        let (offered, menu) = (desk.home().join("offered"), desk.home().join("menu"));
        let script = format!("#!/bin/sh\ncat > {0}.part\nmv {0}.part {0}\nsed -n 2p {0}\n", offered.display());
        fs::write(&menu, script).unwrap();
        fs::set_permissions(&menu, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(desk.home().join(".config/dunst")).unwrap();
        let settings = format!("[global]\n    dmenu = {}\n", menu.display());
        fs::write(desk.home().join(".config/dunst/dunstrc"), settings).unwrap();
        desk.start_screen().await;
        desk.start_server(DUNST).await;
        desk.start_notifier();
        desk.daemon.registered().await;
        let plain = Request {
            who: Who { argv: vec![Untrusted::new("npm")], ..request(1, 1, b"/").who },
            ..request(1, 1, RawPath::from(desk.home()).join(b".npmrc").as_bytes())
        };
        let asking = desk.daemon.ask(&prompt(plain));
        desk.sees("Dunst", 1).await;
        tokio::time::sleep(READING).await;
        desk.screenshot("notification-dunst");
        // Its default action; there is none, so this opens the menu.
        let mut command = desk.command("dunstctl");
        command.arg("action");
        let _dunstctl = desk.start(command);
        let answered = answer(asking).await;
        let offered = fs::read_to_string(&offered).unwrap();
        assert_eq!(answered, Ok(Answer::Once(Width::Exact)), "{offered}");
        let places: Vec<_> = ["Deny", "Allow once", "Allow for session"].map(|label| offered.find(label)).to_vec();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{offered}");
        desk.sees("Dunst", 0).await;
    });
}

/// notify-osd has no buttons, and turns what shall not expire into a dialogue with an "OK" that means nothing.
#[test]
fn a_server_without_buttons_shows_how_to_answer() {
    run(async {
        let desk = Desk::with_server(NOTIFY_OSD).await;
        let asked = in_home(&desk, 0x1234_abcd, 1);
        let asking = desk.daemon.ask(&asked);
        desk.sees("Notify-osd", 1).await;
        // Its dialogue would have the application's name.
        assert_eq!(desk.x("xdotool", &["search", "--onlyvisible", "--name", "gated"]), "");
        assert!(!asking.is_finished());
        desk.daemon.cancel(asked.request.id).await;
        desk.sees("Notify-osd", 0).await;
    });
}
