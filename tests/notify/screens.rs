//! Real notification servers on a real X server, and a pointer that clicks.

use gated::common::consent::Answer;
use gated::common::decision::{Lifetime, Width};
use gated::common::request::Request;
use nix::sys::signal::Signal;

use crate::desk::{Desk, READING, XFCE, answer, run};
use crate::prompts::{npmrc, prompt, request};

const XFCE_CLASS: &str = "Xfce4-notifyd";

/// The middle of one of `count` buttons of a notification of Xfce: they share its last row.
fn button(window: [i32; 4], at: i32, count: i32) -> (i32, i32) {
    let [x, y, width, height] = window;
    (x + width * (2 * at + 1) / (2 * count), y + height - 31)
}

async fn one_click(at: i32, expected: Answer) {
    let desk = Desk::with_server(XFCE).await;
    let asking = desk.daemon.ask(&npmrc(0x1234_abcd, 1));
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
