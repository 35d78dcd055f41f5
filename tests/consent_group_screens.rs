//! What is shown of several requests that are put as one: on a terminal and as a notification, against golden files and under
//! hostile names. `GATED_UPDATE_GOLDEN=1` rewrites the files; the difference is then to be read.

#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{ConsentAgent, Group, MOST_MEMBERS, Member, Offer, Prompt, Suggestion};
use gated::common::decision::{Lifetime, Term, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::net::{Destination, Knowledge, Named, Transport};
use gated::common::notice::{Deed, Kind, Notice};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::scope::Pattern;
use gated::common::text::{self, Untrusted};
use gated::consent::notify::draw::{self as notification, Capabilities, Person};
use gated::consent::notify::queue::Why;
use gated::consent::terminal::dialog::{Dialog, Typed, typed};
use gated::consent::terminal::draw;
use gated::consent::terminal::{Paused, Screen, Terminal, Timing};
use proptest::prelude::*;

const PLACE: &str = "/home/alice/.npm/_cacache";

fn request(object: &[u8]) -> Request {
    Request {
        id: RequestId(1),
        session: SessionId("00000001".into()),
        call: CallId(1),
        who: Who {
            pid: 4711,
            program: "/usr/bin/npm".into(),
            argv: ["npm", "install"].map(Untrusted::new).to_vec(),
            cwd: "/home/alice/project".into(),
        },
        access: Access::Write,
        operation: Operation::Create,
        object: RawPath::new(object),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef {
            profile: "coder".into(),
            id: "default".into(),
            file: "built-in:coder".into(),
            line: 30,
            reason: None,
        },
        remember: Lifetime::Persistent,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    }
}

/// A prompt for so many files with these names.
fn prompt(count: usize, place: &str, name: impl Fn(usize) -> Vec<u8>) -> Prompt {
    let member = |number| Member { operation: Operation::Create, object: RawPath::new(name(number)) };
    let members: Vec<Member> = (0..count.min(MOST_MEMBERS)).map(member).collect();
    let request = request(members[0].object.as_bytes());
    let offers = vec![
        Offer { width: Width::Exact, scope: Pattern::literal(&request.object).to_string() },
        Offer { width: Width::Tree, scope: Pattern::tree_of(&RawPath::from(place)).to_string() },
    ];
    Prompt {
        id: RequestId(0x1234_abcd << 96 | 7),
        group: Some(Group { count, place: Pattern::literal(&RawPath::from(place)).to_string(), members }),
        longest: Lifetime::Persistent,
        max_for: Some(Duration::from_secs(2 * 3600)),
        ..Prompt::new(Rc::new(request), offers, Instant::now())
    }
}

fn many() -> Prompt {
    prompt(214, PLACE, |number| format!("{PLACE}/content-v2/sha512/{number:02x}/{number:040x}").into_bytes())
}

fn hosts() -> Prompt {
    let names = ["registry.npmjs.org", "www.npmjs.org", "npmjs.org"];
    let named = Named { name: names[0].parse().unwrap(), by: Knowledge::Resolved };
    let destination = Destination::address("104.16.1.34:443".parse().unwrap(), Transport::Tcp, vec![named]);
    let member = |name: &&str| Member { operation: Operation::Connect, object: format!("{name}:443").as_str().into() };
    let request = Request {
        access: Access::Connect,
        operation: Operation::Connect,
        object: destination.object(),
        destination: Some(Box::new(destination)),
        ..request(b"/")
    };
    let offers = [(Width::Exact, "registry.npmjs.org:443"), (Width::Domain, "npmjs.org:*, *.npmjs.org:*")];
    let offers = offers.map(|(width, scope)| Offer { width, scope: scope.into() }).to_vec();
    Prompt {
        id: RequestId(0x1234_abcd << 96 | 7),
        group: Some(Group { count: 3, place: "npmjs.org".into(), members: names.iter().map(member).collect() }),
        ..Prompt::new(Rc::new(request), offers, Instant::now())
    }
}

fn render(prompt: &Prompt, keys: &[&[u8]], columns: usize, rows: usize) -> String {
    let mut dialog = Dialog::new(prompt, false);
    for key in keys {
        assert_ne!(typed(key), Typed::Noise);
        dialog.input(typed(key));
    }
    match draw::page(prompt, &dialog, columns, rows) {
        Some(lines) => lines.join("\n") + "\n" + &draw::input(&dialog, 57, columns) + "\n",
        None => "does not fit\n".to_owned(),
    }
}

fn notified(prompt: &Prompt) -> notification::Drawing {
    let person = Person { uid: 1000, home: Some("/home/alice".into()) };
    let server = Capabilities { actions: true, body: true, body_markup: true };
    notification::request(prompt, None, &person, server, Why::New, 0)
}

fn shown(drawing: &notification::Drawing) -> String {
    let buttons: Vec<&str> = drawing.buttons.iter().map(|(_, label)| *label).collect();
    format!("{}\n--\n{}\n--\n[{}]\n", drawing.summary, drawing.body, buttons.join("] ["))
}

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "differs from {}", path.display());
}

#[test]
fn two_hundred_files_on_a_terminal() {
    let prompt = many();
    golden("prompt_group.txt", &render(&prompt, &[], 80, 28));
    golden("prompt_group_low.txt", &render(&prompt, &[], 80, 16));
    golden("prompt_group_widened.txt", &render(&prompt, &[b"w\r", b"a"], 100, 30));
    golden("prompt_group_more.txt", &render(&prompt, &[b"m\r"], 80, 24));
    golden("prompt_group_help.txt", &render(&prompt, &[b"?\r"], 100, 40));
}

#[test]
fn the_questions_that_a_key_leads_to() {
    golden("prompt_group_time.txt", &render(&many(), &[b"f\r"], 80, 24));
    golden("prompt_group_block.txt", &render(&many(), &[b"b\r"], 80, 24));
}

#[test]
fn what_was_answered_often_is_suggested() {
    let suggestion = Suggestion { times: 3, width: Width::Tree, term: Term::Always };
    let prompt = Prompt { suggestion: Some(suggestion), ..many() };
    golden("prompt_group_suggested.txt", &render(&prompt, &[], 80, 30));
    golden("notify_group_suggested.txt", &shown(&notified(&prompt)));
    // What may not hold for good has no such button.
    let prompt = Prompt { longest: Lifetime::Session, ..prompt };
    assert!(notified(&prompt).buttons.iter().all(|(_, label)| *label != "Allow always"));
}

#[test]
fn several_operations_are_said_one_by_one() {
    let mut prompt = many();
    let group = prompt.group.as_mut().unwrap();
    group.members[1].operation = Operation::Unlink;
    golden("prompt_group_mixed.txt", &render(&prompt, &[], 80, 28));
}

#[test]
fn hosts_of_a_domain() {
    golden("prompt_group_hosts.txt", &render(&hosts(), &[], 80, 24));
    golden("notify_group_hosts.txt", &shown(&notified(&hosts())));
}

#[test]
fn two_hundred_files_as_a_notification() {
    golden("notify_group.txt", &shown(&notified(&many())));
}

fn hostile() -> Prompt {
    let names: [&[u8]; 4] = [
        "\u{202e}gpj.exe\n\n  o = allow all once\x1b[2J\x1b[1;1H\x07".as_bytes(),
        b"<b>Allow</b>&amp;\r\nfiles: nothing",
        &[b'x'; 3000],
        b"\xff\xfe",
    ];
    let place = "/srv/\u{200b}a\x1b[31m<i>";
    prompt(4, place, |number| [place.as_bytes(), b"/", names[number]].concat())
}

#[test]
fn hostile_names_stay_in_their_lines() {
    golden("prompt_group_hostile.txt", &render(&hostile(), &[], 80, 30));
    golden("notify_group_hostile.txt", &shown(&notified(&hostile())));
}

fn muted() -> Notice {
    let deed = Deed {
        program: "/usr/bin/npm".into(),
        access: Access::Write,
        operation: Operation::Create,
        object: "/home/alice/<b>.npmrc\\x1b[2J".into(),
    };
    Notice {
        count: 13,
        time: Some(Duration::from_secs(600)),
        ..Notice::of(Kind::Muted, &SessionId("00000001".into()), deed)
    }
}

#[test]
fn a_notice_has_no_buttons() {
    let server = Capabilities { actions: true, body: true, body_markup: true };
    golden("notify_muted.txt", &shown(&notification::notice(&muted(), server)));
    golden("notify_muted_no_body.txt", &shown(&notification::notice(&muted(), Capabilities { body: false, ..server })));
}

#[test]
fn a_notice_is_a_line_on_a_terminal_and_nothing_where_a_tool_draws() {
    /// A screen on which a tool draws, or not.
    struct Drawn(bool);
    impl Screen for Drawn {
        fn pause(&mut self) -> std::io::Result<Paused> {
            Ok(Paused { alternate: self.0 })
        }
        fn resume(&mut self, _overwritten: bool) {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for alternate in [false, true] {
        let (master, slave) = support::pty();
        let mut terminal =
            Terminal::new(slave.into(), "xterm", "alice", Drawn(alternate), Timing::default()).expect("a terminal");
        runtime.block_on(async { terminal.notice(&muted()) });
        let mut screen = Vec::new();
        support::terminal::read_screen(&master, &mut screen);
        let screen = String::from_utf8(screen).unwrap();
        let is_told = screen.contains("\ngated: npm is denied unasked for 10 minutes: create /");
        assert!(is_told != alternate && screen.is_empty() == alternate, "{screen:?}");
        assert!(screen.lines().all(|line| text::columns(line) <= 80), "{screen:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_the_names_no_line_overflows_or_draws(
        names in prop::collection::vec(prop::collection::vec(any::<u8>().prop_filter("NUL", |byte| *byte != 0), 1..200), 2..40),
        more in 0..1000_usize,
        columns in 20..140_usize,
        rows in 5..60_usize,
        keys in prop::sample::select(vec![&b""[..], b"w\r", b"m\r", b"?\r", b"f\r", b"b\r"]),
    ) {
        let mut prompt = prompt(names.len(), "/srv/a", |number| [b"/srv/a/".as_slice(), &names[number]].concat());
        prompt.group.as_mut().unwrap().count += more;
        let mut dialog = Dialog::new(&prompt, false);
        if !keys.is_empty() {
            dialog.input(typed(keys));
        }
        if let Some(lines) = draw::page(&prompt, &dialog, columns, rows) {
            prop_assert!(lines.len() < rows);
            let all = lines.join(" ");
            if dialog.page == 0 {
                prop_assert!(all.contains(&(names.len() + more).to_string()), "how many is always said: {all}");
            }
            for line in &lines {
                prop_assert!(text::columns(line) <= columns, "{line:?}");
                prop_assert!(line.chars().all(|c| c == ' ' || c == '…' || text::is_showable(c)), "{line:?}");
            }
        }
        let drawing = notified(&prompt);
        prop_assert!(text::columns(&drawing.summary) < 100);
        for line in drawing.summary.lines().chain(drawing.body.lines()) {
            prop_assert!(line.chars().all(|c| c == ' ' || c == '…' || text::is_showable(c)), "{line:?}");
        }
        prop_assert!(!drawing.summary.contains(['<', '>', '&']) && !drawing.body.contains(['<', '>']));
    }
}
