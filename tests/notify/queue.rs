//! Which requests are shown and which clicks count, with a clock of the test's own.

use std::time::{Duration, Instant};

use gated::common::id::SessionId;
use gated::consent::notify::queue::{Choice, Effect, Event, Key, Limits, Queue, Why};
use proptest::prelude::*;

/// A queue and its clock.
struct Desk {
    queue: Queue,
    now: Instant,
    asked: u64,
}

fn session(number: u32) -> SessionId {
    SessionId(format!("{number:08x}"))
}

impl Desk {
    fn new() -> Desk {
        let mut desk = Desk::without_server();
        desk.step(Event::Server { buttons: true });
        desk
    }

    fn without_server() -> Desk {
        Desk { queue: Queue::new(Limits::default()), now: Instant::now(), asked: 0 }
    }

    fn pass(&mut self, milliseconds: u64) -> &mut Desk {
        self.now += Duration::from_millis(milliseconds);
        self
    }

    /// What is to be done; a server takes at once what is to be shown.
    fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut all = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in self.queue.step(self.now, event) {
                if let Effect::Show(key, _) = effect {
                    events.push(Event::Drawn(key));
                }
                all.push(effect);
            }
        }
        all
    }

    fn ask(&mut self, of: u32) -> (Key, Vec<Effect>) {
        self.asked += 1;
        let key = Key(self.asked);
        (key, self.step(Event::Asked { key, session: session(of), may_session: true }))
    }

    fn click(&mut self, key: Key, choice: Choice) -> Vec<Effect> {
        self.step(Event::Clicked(key, choice))
    }
}

fn new(key: Key) -> Effect {
    Effect::Show(key, Why::New)
}

fn again(key: Key) -> Effect {
    Effect::Show(key, Why::Again)
}

fn answered(key: Key, choice: Choice) -> Vec<Effect> {
    vec![Effect::Answer(key, choice), Effect::Close(key)]
}

#[test]
fn a_session_has_one_prompt_and_the_desktop_three() {
    let mut desk = Desk::new();
    let (a, shown) = desk.ask(1);
    assert_eq!(shown, [new(a)]);
    let (b, shown) = desk.ask(1);
    assert_eq!(shown, []);
    let (c, shown) = desk.ask(2);
    assert_eq!(shown, [new(c)]);
    let (d, shown) = desk.ask(3);
    assert_eq!(shown, [new(d)]);
    let (e, shown) = desk.ask(4);
    assert_eq!(shown, [], "a fourth at once");
    desk.pass(1000);
    // Whose session has had none goes first.
    assert_eq!(desk.click(a, Choice::Deny), [answered(a, Choice::Deny), vec![new(e)]].concat());
    assert_eq!(desk.pass(1000).step(Event::Withdrawn(c)), [Effect::Close(c), new(b)]);
}

#[test]
fn six_new_prompts_a_minute_and_one_session_leaves_one_to_others() {
    let mut desk = Desk::new();
    let keys: Vec<Key> = (0..9).map(|_| desk.ask(1).0).collect();
    for key in &keys[..4] {
        desk.pass(1000);
        assert!(desk.click(*key, Choice::Once).iter().any(|effect| matches!(effect, Effect::Show(..))));
    }
    desk.pass(1000);
    assert_eq!(desk.click(keys[4], Choice::Once), answered(keys[4], Choice::Once), "a sixth of one session");
    let (other, shown) = desk.ask(2);
    assert_eq!(shown, [new(other)], "another session is locked out");
    assert_eq!(desk.ask(3).1, [], "a seventh in a minute");
    // The first was at 0 s.
    let wake = desk.queue.wake().expect("something waits");
    assert_eq!(wake - desk.now, Duration::from_secs(55));
    assert_eq!(desk.pass(54_999).step(Event::Tick), []);
    let shown = desk.pass(1).step(Event::Tick);
    assert_eq!(shown, [new(Key(11))], "the session that had none");
}

#[test]
fn a_yes_that_nobody_can_have_read_is_asked_again_and_a_no_counts() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    for choice in [Choice::Once, Choice::Session, Choice::Once] {
        desk.pass(799);
        assert_eq!(desk.click(a, choice), [Effect::Close(a), Effect::Show(a, Why::TooSoon)]);
    }
    desk.pass(800);
    assert_eq!(desk.click(a, Choice::Once), answered(a, Choice::Once));
    let (b, _) = desk.ask(1);
    assert_eq!(desk.click(b, Choice::Deny), answered(b, Choice::Deny));
}

#[test]
fn a_click_on_what_has_just_moved_under_the_pointer_is_no_yes() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    let (b, _) = desk.ask(2);
    desk.pass(5000);
    assert_eq!(desk.click(a, Choice::Once), answered(a, Choice::Once));
    // The second click of a double click.
    desk.pass(200);
    assert_eq!(desk.click(b, Choice::Once), [Effect::Close(b), Effect::Show(b, Why::TooSoon)]);
    desk.pass(800);
    assert_eq!(desk.click(b, Choice::Session), answered(b, Choice::Session));
}

#[test]
fn an_answer_counts_once_and_for_what_is_shown() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    let (hidden, _) = desk.ask(1);
    desk.pass(1000);
    assert_eq!(desk.click(hidden, Choice::Deny), [], "of what nobody sees");
    assert_eq!(desk.click(Key(99), Choice::Once), []);
    assert_eq!(desk.click(a, Choice::Once).first(), Some(&Effect::Answer(a, Choice::Once)));
    assert_eq!(desk.pass(1000).click(a, Choice::Session), [], "a second answer");
    assert_eq!(desk.step(Event::Withdrawn(a)), []);
}

#[test]
fn a_session_answer_that_the_rule_forbids_is_none() {
    let mut desk = Desk::new();
    let key = Key(7);
    desk.step(Event::Asked { key, session: session(1), may_session: false });
    desk.pass(1000);
    assert!(!desk.click(key, Choice::Session).iter().any(|effect| matches!(effect, Effect::Answer(..))));
}

#[test]
fn what_is_put_away_waits_unseen_and_what_the_server_takes_away_comes_back() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    let (b, _) = desk.ask(1);
    assert_eq!(desk.pass(1000).step(Event::Lost(a)), [new(a)]);
    assert_eq!(desk.pass(1000).step(Event::Dismissed(a)), [new(b)], "and makes room");
    assert_eq!(desk.pass(120_000).step(Event::Tick), []);
    assert_eq!(desk.click(a, Choice::Deny), []);
    assert_eq!(desk.step(Event::Server { buttons: true }), [again(b)], "put away is put away");
    assert_eq!(desk.step(Event::Withdrawn(a)), []);
}

#[test]
fn a_server_that_takes_everything_away_is_given_six_a_minute() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    let (b, _) = desk.ask(2);
    let mut shown = 2;
    for round in 0..20 {
        let lost = if round % 2 == 0 { a } else { b };
        shown += desk.pass(10).step(Event::Lost(lost)).len();
    }
    assert_eq!(shown, 6);
}

#[test]
fn another_server_shows_everything_again_beyond_the_six() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    let (b, _) = desk.ask(2);
    for _ in 0..5 {
        desk.pass(1000);
        assert_eq!(desk.step(Event::NoServer), []);
        assert_eq!(desk.click(a, Choice::Deny), [], "an old notification");
        assert_eq!(desk.step(Event::Server { buttons: true }), [again(a), again(b)]);
        assert_eq!(desk.step(Event::Server { buttons: true }), [again(a), again(b)]);
    }
    assert_eq!(desk.pass(1000).click(a, Choice::Once), answered(a, Choice::Once));
}

#[test]
fn nothing_counts_and_nothing_is_shown_while_the_screen_is_locked() {
    let mut desk = Desk::new();
    let (a, _) = desk.ask(1);
    desk.pass(1000);
    assert_eq!(desk.step(Event::Locked), [Effect::Close(a)]);
    assert_eq!(desk.click(a, Choice::Once), []);
    assert_eq!(desk.click(a, Choice::Deny), []);
    let (b, shown) = desk.ask(2);
    assert_eq!(shown, []);
    let (c, _) = desk.ask(3);
    assert_eq!(desk.step(Event::Withdrawn(c)), []);
    assert_eq!(desk.queue.wake(), None);
    assert_eq!(desk.pass(1000).step(Event::Unlocked), [Effect::TellMissed(1), again(a), new(b)]);
    assert!(desk.click(a, Choice::Once).contains(&Effect::Show(a, Why::TooSoon)));
    assert_eq!(desk.step(Event::Withdrawn(b)), [Effect::Close(b)]);
    assert_eq!(desk.step(Event::Locked), [Effect::Close(a)]);
    assert_eq!(desk.step(Event::Unlocked), [again(a)], "told once");
}

#[test]
fn without_buttons_a_request_is_told_once() {
    let mut desk = Desk::without_server();
    let (a, shown) = desk.ask(1);
    assert_eq!(shown, []);
    assert_eq!(desk.step(Event::Server { buttons: false }), [new(a)]);
    assert_eq!(desk.step(Event::Lost(a)), []);
    assert_eq!(desk.pass(60_000).step(Event::Tick), []);
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let key = || (1..12u64).prop_map(Key);
    let choice = prop_oneof![Just(Choice::Deny), Just(Choice::Once), Just(Choice::Session)];
    let event = prop_oneof![
        6 => (key(), 1..5u32, any::<bool>())
            .prop_map(|(key, of, may_session)| Event::Asked { key, session: session(of), may_session }),
        2 => key().prop_map(Event::Withdrawn),
        6 => key().prop_map(Event::Drawn),
        6 => (key(), choice).prop_map(|(key, choice)| Event::Clicked(key, choice)),
        1 => key().prop_map(Event::Dismissed),
        1 => key().prop_map(Event::Lost),
        2 => any::<bool>().prop_map(|buttons| Event::Server { buttons }),
        1 => Just(Event::NoServer),
        1 => Just(Event::Locked),
        2 => Just(Event::Unlocked),
        2 => Just(Event::Tick),
    ];
    (prop_oneof![0..50u64, 0..3000u64, 0..70_000u64], event)
}

proptest! {
    /// Whatever happens in whichever order, a yes needs a notification that stood for 800 ms on an unlocked screen.
    #[test]
    fn no_order_of_events_makes_a_yes_of_what_nobody_read(events in prop::collection::vec(event(), 1..200)) {
        let mut desk = Desk::new();
        let mut asked = std::collections::HashSet::new();
        let mut drawn: std::collections::HashMap<Key, Instant> = Default::default();
        let mut drawing = std::collections::HashSet::new();
        let mut of: std::collections::HashMap<Key, SessionId> = Default::default();
        let (mut locked, mut shown) = (false, Vec::new());
        for (pass, event) in events {
            desk.pass(pass);
            if let Event::Asked { key, session, .. } = &event {
                // Keys are never used again.
                if !asked.insert(*key) {
                    continue;
                }
                of.insert(*key, session.clone());
            }
            match &event {
                Event::Locked => locked = true,
                Event::Unlocked => locked = false,
                // Once for each time that it is shown.
                Event::Drawn(key) if drawing.remove(key) => { drawn.insert(*key, desk.now); }
                _ => {}
            }
            for effect in desk.queue.step(desk.now, event.clone()) {
                match effect {
                    Effect::Show(key, why) => {
                        prop_assert!(!locked, "{event:?} shows {key:?} on a locked screen");
                        // Drawn now at the earliest.
                        drawn.insert(key, desk.now);
                        drawing.insert(key);
                        if why == Why::New {
                            shown.push(desk.now);
                        }
                    }
                    Effect::Answer(key, choice) => {
                        prop_assert_eq!(&event, &Event::Clicked(key, choice));
                        prop_assert!(!locked);
                        if choice != Choice::Deny {
                            prop_assert!(desk.now - drawn[&key] >= Duration::from_millis(800));
                        }
                    }
                    Effect::Close(_) | Effect::TellMissed(_) => {}
                }
            }
            let in_minute = shown.iter().filter(|at| desk.now - **at < Duration::from_secs(60)).count();
            prop_assert!(in_minute <= 6, "{in_minute} in a minute");
        }
    }
}
