use std::rc::Rc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::entry::{Asked, Entry};
use super::keys::Key;
use super::list::Row;
use super::model::{Drawn, Effect, Event, GUARD, Mode, Model, Tab};
use super::view;
use crate::common::access::{Access, Level};
use crate::common::consent::{Answer, Group, Member, Offer, Prompt, Suggestion};
use crate::common::decision::{Lifetime, Term, Width};
use crate::common::exec::{Execution, Parent};
use crate::common::id::{CallId, RequestId, SessionId};
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request, RuleRef, Who};
use crate::common::text::{Untrusted, columns};
use crate::ctl::control::table::Cell;

fn prompt(id: u128, object: &[u8]) -> Prompt {
    let request = Request {
        id: RequestId(id),
        session: SessionId("5e550000".into()),
        call: CallId(1),
        who: Who { pid: 9, program: "/usr/bin/npm".into(), argv: vec![Untrusted::new("npm")], cwd: "/work".into() },
        access: Access::Write,
        operation: Operation::Create,
        object: RawPath::new(object),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 3, reason: None },
        remember: Lifetime::Session,
        remember_for: None,
        group: None,
        execution: None,
        destination: None,
        service: None,
    };
    let offers = [(Width::Exact, "/srv/x"), (Width::Directory, "/srv/*"), (Width::Tree, "/srv/**")];
    let offers = offers.map(|(width, scope)| Offer { width, scope: scope.to_owned() }).to_vec();
    Prompt::new(Rc::new(request), offers, Instant::now() + Duration::from_millis(500_500))
}

fn asked(id: u128) -> Asked {
    Asked::new(0, prompt(id, format!("/srv/{id}").as_bytes()))
}

/// A screen and somebody at it, with a clock that the test turns.
struct Desk {
    model: Model,
    now: Instant,
    terminal: Terminal<TestBackend>,
    drawn: Option<Drawn>,
}

impl Desk {
    fn new(columns: u16, rows: u16) -> Desk {
        let terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        Desk { model: Model::new(0), now: Instant::now(), terminal, drawn: None }
    }

    fn draw(&mut self) -> String {
        let mut drawn = None;
        let (model, now) = (&self.model, self.now);
        self.terminal.draw(|frame| drawn = view::draw(frame.buffer_mut(), model, now, false)).unwrap();
        self.model.drawn(drawn.clone(), self.now);
        self.model.shown(self.now);
        self.drawn = drawn;
        self.terminal.backend().to_string()
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        self.model.event(event, self.now)
    }

    fn key(&mut self, key: char) -> Vec<Effect> {
        self.event(Event::Key { key: Key::Character(key), alone: true })
    }

    fn wait(&mut self) {
        self.now += GUARD;
    }

    /// Drawn, looked at, and pressed.
    fn press(&mut self, key: char) -> Vec<Effect> {
        self.draw();
        self.wait();
        let effects = self.key(key);
        self.draw();
        effects
    }

    fn come(&mut self, asked: Asked) {
        self.event(Event::Asked(Box::new(asked)));
    }
}

fn decided(effects: &[Effect]) -> Option<(&str, &Answer)> {
    match effects {
        [Effect::Decide { key, answer, .. }] => Some((key, answer)),
        _ => None,
    }
}

#[test]
fn each_key_gives_its_answer_to_what_is_selected() {
    let mut desk = Desk::new(80, 24);
    for (id, key, answer) in
        [(1, 'd', Answer::Deny), (2, 'o', Answer::Once(Width::Exact)), (3, 's', Answer::Session(Width::Exact))]
    {
        desk.come(asked(id));
        let effects = desk.press(key);
        assert_eq!(decided(&effects), Some((format!("{id:032x}").as_str(), &answer)));
        desk.event(Event::Answered { key: format!("{id:032x}"), failure: None });
    }
    desk.come(asked(4));
    assert_eq!(desk.press('w'), []);
    assert_eq!(decided(&desk.press('o')).unwrap().1, &Answer::Once(Width::Directory));
}

#[test]
fn what_is_not_offered_is_not_given() {
    let mut desk = Desk::new(80, 24);
    let mut once = prompt(1, b"/srv/x");
    once.longest = Lifetime::Call;
    once.offers.truncate(1);
    desk.come(Asked::new(0, once));
    for key in ['s', 'a', 'f', 'e', '1', 'w', 'W'] {
        assert_eq!(desk.press(key), [], "{key}");
        assert!(desk.model.told.as_ref().unwrap().starts_with("Not offered"), "{key}");
    }
    assert_eq!(decided(&desk.press('o')).unwrap().1, &Answer::Once(Width::Exact));
}

#[test]
fn a_lasting_yes_is_asked_for_twice_and_a_time_keeps_its_limit() {
    let mut desk = Desk::new(80, 24);
    let mut lasting = prompt(1, b"/srv/x");
    (lasting.longest, lasting.max_for) = (Lifetime::Persistent, Some(Duration::from_secs(86_400)));
    desk.come(Asked::new(0, lasting.clone()));
    assert_eq!(desk.press('a'), []);
    assert!(matches!(desk.model.mode, Mode::Sure { .. }));
    // Too soon, then no.
    assert_eq!(desk.key('y'), []);
    assert_eq!(desk.press('n'), []);
    assert_eq!(desk.press('a'), []);
    assert_eq!(decided(&desk.press('y')).unwrap().1, &Answer::Always(Width::Exact));
    lasting.id = RequestId(2);
    desk.event(Event::Answered { key: format!("{:032x}", 1), failure: None });
    desk.come(Asked::new(0, lasting));
    desk.press('f');
    for typed in ["x", "2d"] {
        typed.chars().for_each(|key| drop(desk.key(key)));
        assert_eq!(desk.event(Event::Key { key: Key::Enter, alone: true }), [], "{typed}");
        typed.chars().for_each(|_| drop(desk.event(Event::Key { key: Key::Backspace, alone: true })));
    }
    "3h".chars().for_each(|key| drop(desk.key(key)));
    let effects = desk.event(Event::Key { key: Key::Enter, alone: true });
    assert_eq!(decided(&effects).unwrap().1, &Answer::For(Width::Exact, Duration::from_secs(3 * 3600)));
}

#[test]
fn a_key_that_is_held_down_answers_once() {
    let mut desk = Desk::new(80, 24);
    (1..=20).for_each(|id| desk.come(asked(id)));
    desk.draw();
    desk.wait();
    let mut answers = 0;
    for _ in 0..100 {
        answers += desk.key('o').len();
        desk.draw();
        desk.now += Duration::from_millis(33);
    }
    assert_eq!(answers, 1);
}

#[test]
fn an_answer_that_was_not_taken_can_be_given_again() {
    let mut desk = Desk::new(80, 24);
    desk.come(asked(1));
    assert_eq!(desk.press('o').len(), 1);
    assert_eq!(desk.press('o'), []);
    let failure = Some("Not today.".to_owned());
    desk.event(Event::Answered { key: format!("{:032x}", 1), failure });
    assert!(desk.draw().contains("Not today."));
    assert_eq!(desk.press('d').len(), 1);
}

#[test]
fn without_a_daemon_there_is_nothing_to_answer() {
    let mut desk = Desk::new(80, 24);
    desk.come(asked(1));
    desk.event(Event::Daemon(false));
    let screen = desk.draw();
    assert!(screen.contains("daemon gone") && !screen.contains("o = once"), "{screen}");
    assert_eq!(desk.press('o'), []);
    desk.event(Event::Daemon(true));
    assert!(!desk.draw().contains("daemon gone"));
}

#[test]
fn a_session_is_stopped_and_a_grant_revoked_only_after_a_yes() {
    let mut desk = Desk::new(80, 24);
    let entry = |key: &str| Entry::new(key.to_owned(), 0, vec![Cell::own(key)], vec![]);
    desk.event(Event::Sessions(vec![entry("aaaa0000"), entry("bbbb0000")]));
    desk.event(Event::Grants(vec![entry("cccc0000cccc0000")]));
    assert_eq!(desk.event(Event::Key { key: Key::Tab, alone: true }), [Effect::Fetch(Tab::Sessions)]);
    desk.press('j');
    assert_eq!(desk.press('x'), []);
    // Rows may come and go: the question names what it is about.
    desk.event(Event::Sessions(vec![entry("dddd0000")]));
    assert!(desk.draw().contains("Kill everything in session bbbb0000?"));
    assert_eq!(desk.press('y'), [Effect::Stop { session: "bbbb0000".into(), proves: false }]);
    desk.event(Event::Key { key: Key::Tab, alone: true });
    desk.press('x');
    assert_eq!(desk.press('q'), []);
    desk.press('x');
    assert_eq!(desk.press('y'), [Effect::Revoke { grant: "cccc0000cccc0000".into(), proves: false }]);
}

/// Long and hostile everything.
fn hostile(id: u128) -> Prompt {
    let nasty = "\u{202e}\x1b[2J\n日本語 \u{1f468}\u{200d}\u{1f469}/".repeat(12);
    let mut prompt = prompt(id, format!("/{nasty}").as_bytes());
    let request = Rc::get_mut(&mut prompt.request).unwrap();
    request.who.program = RawPath::new(format!("/bin/{nasty}"));
    (request.access, request.operation) = (Access::Exec, Operation::Execute);
    request.level = Level::Authenticate;
    request.rule.reason = Some(nasty.clone());
    let parent = || Parent { pid: 4, program: RawPath::new(nasty.clone()), argv: vec![Untrusted::new(nasty.clone())] };
    request.execution = Some(Box::new(Execution {
        argv: (0..20).map(|_| Untrusted::new(nasty.clone())).collect(),
        words_left_out: 3,
        interpreters: vec!["/usr/bin/env".into()],
        variables: vec![Untrusted::new(format!("LD_PRELOAD={nasty}"))],
        parents: (0..16).map(|_| parent()).collect(),
        is_new: true,
        version: None,
        is_first: false,
    }));
    prompt.offers[1].scope = nasty;
    prompt.suggestion = Some(Suggestion { times: 3, width: Width::Directory, term: Term::Session });
    prompt
}

fn group(id: u128) -> Prompt {
    let mut prompt = prompt(id, b"/home/me/.npm/_cacache/0");
    let member = |number: usize| Member {
        operation: Operation::Create,
        object: RawPath::new(format!("/home/me/.npm/_cacache/{number}")),
    };
    let members = (0..64).map(member).collect();
    prompt.group = Some(Group { count: 214, place: "/home/me/.npm/_cacache/*".into(), members });
    prompt
}

#[test]
fn a_group_and_a_suggestion_are_said() {
    let mut desk = Desk::new(80, 24);
    let mut prompt = group(1);
    prompt.suggestion = Some(Suggestion { times: 3, width: Width::Directory, term: Term::Session });
    desk.come(Asked::new(0, prompt));
    let screen = desk.draw();
    for said in [
        "create 214 files in /home/me/.npm/_cacache/*",
        "npm wants to create 214 files in /home/me/.npm/_cacache/*",
        "> these 214 files, and nothing else",
        "You said yes to this 3 times",
        "1 = one by one",
        "and 211 more",
    ] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
    assert_eq!(decided(&desk.press('1')).unwrap().1, &Answer::Split);
}

/// No size makes it fail or lets a tool draw; where the essence has no room there is no yes.
#[test]
fn every_size_is_drawn_and_shows_all_that_matters_or_takes_no_yes() {
    for columns in [1, 2, 19, 20, 33, 44, 80, 250] {
        for rows in [1, 3, 4, 5, 7, 10, 15, 24, 60] {
            for (number, prompt) in [hostile(1), group(2), prompt(3, b"/srv/x")].into_iter().enumerate() {
                let mut desk = Desk::new(columns, rows);
                desk.come(Asked::new(7, prompt));
                for key in ["", "m", "?"] {
                    key.chars().for_each(|key| drop(desk.key(key)));
                    let screen = desk.draw();
                    let is_clean = |c: char| c == ' ' || c == '…' || c == '\n' || crate::common::text::is_showable(c);
                    assert!(screen.chars().all(is_clean), "{columns}x{rows}: {screen:?}");
                }
                desk.key('q');
                desk.key('m');
                let screen = desk.draw();
                desk.wait();
                let is_whole = desk.drawn.as_ref().is_some_and(|drawn| drawn.is_whole);
                let effects = desk.key('o');
                assert_eq!(effects.len(), usize::from(is_whole), "{columns}x{rows}: {screen}");
                if columns >= 80 && rows >= 24 {
                    assert!(is_whole, "{number}: {screen}");
                }
                if is_whole && number == 2 && columns >= 44 {
                    assert!(screen.contains("/srv/x") && screen.contains("this file"), "{screen}");
                }
                if is_whole && number == 0 {
                    assert!(screen.contains("!! NEW"), "{columns}x{rows}: {screen}");
                    assert!(columns < 80 || screen.contains("LD_PRELOAD"), "{columns}x{rows}: {screen}");
                }
            }
        }
    }
}

/// What is asked of each frame is the same whatever waits: of a thousand rows those that have room are looked at. The least of
/// many times, because machines have other things to do.
#[test]
fn a_frame_with_a_thousand_requests_takes_less_than_sixteen_milliseconds() {
    let mut desk = Desk::new(120, 40);
    desk.event(Event::Queue((0..1000).map(|id| Asked::new(0, hostile(id))).collect()));
    let mut least = Duration::MAX;
    for _ in 0..30 {
        desk.key('w');
        desk.key('j');
        // The first one makes the details.
        desk.draw();
        let before = Instant::now();
        desk.draw();
        least = least.min(before.elapsed());
    }
    println!("a frame: {least:?}");
    assert!(least < Duration::from_millis(16), "{least:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Key(char, bool),
    Come(u128),
    Over(u128),
    Snapshot(Vec<u128>),
    Draw,
    Wait(u64),
    Failed(u128),
    Gone,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop::sample::select("doswWjkgGafy1/xme\u{1b}".chars().collect::<Vec<_>>());
    prop_oneof![
        6 => (keys, prop::bool::weighted(0.9)).prop_map(|(key, alone)| Step::Key(key, alone)),
        3 => (1u128..12).prop_map(Step::Come),
        2 => (1u128..12).prop_map(Step::Over),
        1 => prop::collection::vec(1u128..12, 0..8).prop_map(Step::Snapshot),
        6 => Just(Step::Draw),
        4 => (0u64..600).prop_map(Step::Wait),
        1 => (1u128..12).prop_map(Step::Failed),
        1 => Just(Step::Gone),
    ]
}

proptest! {
    /// Whatever comes, goes and is pressed: an answer names the request and the scope of the frame that was on the screen, and
    /// a request that came under the cursor by itself had been there for the guard's time.
    #[test]
    fn an_answer_names_what_was_on_the_screen(steps in prop::collection::vec(step(), 1..120)) {
        let mut desk = Desk::new(80, 24);
        let mut since: Option<(String, Instant)> = None;
        let mut by_person = false;
        for step in steps {
            let effects = match step {
                Step::Key('\u{1b}', alone) => desk.event(Event::Key { key: Key::Leave, alone }),
                Step::Key(key, alone) => {
                    by_person |= "jkgG".contains(key);
                    desk.event(Event::Key { key: Key::Character(key), alone })
                }
                Step::Come(id) => {
                    let mut prompt = prompt(id, b"/srv/x");
                    prompt.longest = Lifetime::Persistent;
                    desk.event(Event::Asked(Box::new(Asked::new(0, prompt))))
                }
                Step::Over(id) => desk.event(Event::Over(format!("{id:032x}"))),
                Step::Snapshot(ids) => desk.event(Event::Queue(ids.into_iter().map(asked).collect())),
                Step::Draw => {
                    desk.draw();
                    let key = desk.drawn.as_ref().map(|drawn| drawn.key.clone());
                    if since.as_ref().map(|(key, _)| key) != key.as_ref() {
                        // Where a person walked to it, it is seen at once.
                        let at = if by_person { desk.now.checked_sub(GUARD).unwrap_or(desk.now) } else { desk.now };
                        since = key.map(|key| (key, at));
                    }
                    by_person = false;
                    vec![]
                }
                Step::Wait(milliseconds) => {
                    desk.now += Duration::from_millis(milliseconds);
                    vec![]
                }
                Step::Failed(id) => desk.event(Event::Answered { key: format!("{id:032x}"), failure: Some("no".into()) }),
                Step::Gone => desk.event(Event::Daemon(false)).into_iter().chain(desk.event(Event::Daemon(true))).collect(),
            };
            for effect in effects {
                let Effect::Decide { key, answer, .. } = effect else { continue };
                let drawn = desk.drawn.clone().expect("something was on the screen");
                prop_assert_eq!(&drawn.key, &key);
                if let Some((width, _)) = answer.allows() {
                    prop_assert_eq!(width, drawn.width);
                    prop_assert!(drawn.is_whole);
                }
                let (shown, at) = since.clone().expect("it was drawn");
                prop_assert_eq!(shown, key);
                prop_assert!(desk.now >= at + GUARD, "answered after {:?}", desk.now - at);
            }
        }
        prop_assert!(desk.model.queue.selected().is_none_or(|asked| desk.model.queue.get(asked.key()).is_some()));
    }

    /// Lines never overflow, whatever the words and the width.
    #[test]
    fn rows_keep_their_columns(object in prop::collection::vec(any::<u8>(), 0..200), width in 20u16..150) {
        let mut desk = Desk::new(width, 24);
        let object = object.into_iter().filter(|byte| *byte != 0).collect::<Vec<_>>();
        desk.come(Asked::new(0, prompt(1, &[b"/".as_slice(), &object].concat())));
        let shown = desk.model.queue.selected().unwrap();
        prop_assert!(columns(&shown.wish) <= 400);
        desk.draw();
    }
}

/// No daemon of ours does that; what is shown and what is answered must be one thing all the same.
#[test]
fn another_request_of_the_same_name_is_drawn_anew_and_guarded() {
    let mut desk = Desk::new(80, 24);
    desk.come(Asked::new(0, prompt(1, b"/srv/first")));
    desk.draw();
    desk.wait();
    desk.come(Asked::new(0, prompt(1, b"/srv/second")));
    assert_eq!(desk.key('o'), []);
    let screen = desk.draw();
    assert!(screen.contains("object     /srv/second") && !screen.contains("first"), "{screen}");
    // The same again is nothing new.
    desk.wait();
    desk.come(Asked::new(0, prompt(1, b"/srv/second")));
    desk.draw();
    desk.wait();
    assert_eq!(desk.key('o').len(), 1);
}
