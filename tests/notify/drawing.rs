//! What a notification says, against golden files. `GATED_UPDATE_GOLDEN=1` rewrites them; the difference is then to be read.

use std::path::PathBuf;

use gated::common::access::{Access, Level};
use gated::common::decision::Lifetime;
use gated::common::exec::{Execution, Parent};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request};
use gated::common::text::{self, Untrusted};
use gated::consent::notify::draw::{self, Capabilities, Drawing, Person};
use gated::consent::notify::queue::Why;
use gated::consent::told::Told;
use proptest::prelude::*;

use crate::prompts::{HOME, npmrc, prompt, request};

const FULL: Capabilities = Capabilities { actions: true, body: true, body_markup: true };
const PLAIN: Capabilities = Capabilities { body_markup: false, ..FULL };
const SILENT: Capabilities = Capabilities { actions: false, ..FULL };
const BARE: Capabilities = Capabilities { actions: false, body: false, body_markup: false };

fn person() -> Person {
    Person { uid: 1000, home: Some(HOME.into()) }
}

fn golden(name: &str, drawing: &Drawing) {
    let buttons: Vec<&str> = drawing.buttons.iter().map(|(_, label)| *label).collect();
    let text = format!("{}\n--\n{}\n--\n[{}]\n", drawing.summary, drawing.body, buttons.join("] ["));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "differs from {}", path.display());
}

fn draw(request: Request, server: Capabilities) -> Drawing {
    draw::request(&prompt(request), None, &person(), server, Why::New, 0)
}

#[test]
fn an_ordinary_request() {
    golden("notify_ordinary.txt", &draw::request(&npmrc(0x1234_abcd, 1), None, &person(), FULL, Why::New, 0));
}

#[test]
fn a_server_without_buttons() {
    golden("notify_no_buttons.txt", &draw::request(&npmrc(0x1234_abcd, 1), None, &person(), SILENT, Why::New, 0));
    golden("notify_no_body.txt", &draw::request(&npmrc(0x1234_abcd, 1), None, &person(), BARE, Why::New, 0));
}

#[test]
fn a_rename_of_somebody_else_that_is_not_remembered() {
    let mut prompt = prompt(Request {
        operation: Operation::Rename,
        other: Some("/home/alice/.npmrc.new".into()),
        level: Level::Authenticate,
        remember: Lifetime::Attempt,
        ..request(1, 1, b"/home/alice/.npmrc")
    });
    (prompt.attempts, prompt.waiting) = (3, 2);
    golden("notify_rename.txt", &draw::request(&prompt, Some("bob"), &person(), FULL, Why::TooSoon, 1));
}

fn hostile() -> Request {
    let mut hostile =
        request(2, 1, "/tmp/\u{202e}gpj.exe\n\n<b>Allow once</b>&amp;\x1b[2J\u{200b}…(9 bytes)…".as_bytes());
    hostile.object = hostile.object.join(b"\xff\xfe <img src=\"x\"/> 'quoted'");
    hostile.who.program = RawPath::new(b"/tmp/gated<i>\r\x07".to_vec());
    hostile.who.argv =
        vec![Untrusted::new("</body><a href='https://example.org'>Deny</a>"), Untrusted::new("a\u{2066}c")];
    hostile.who.cwd = RawPath::new("/tmp/\u{9b}2J&".as_bytes());
    hostile.rule.reason = Some("Because of <b>this</b>\n& that.".into());
    hostile
}

fn command() -> Request {
    let words = |words: &[&[u8]]| words.iter().map(|word| Untrusted::new(*word)).collect::<Vec<_>>();
    let mut request = request(4, 1, b"/home/alice/project/deploy");
    (request.access, request.operation) = (Access::Exec, Operation::Execute);
    request.execution = Some(Box::new(Execution {
        argv: vec![],
        words_left_out: 0,
        interpreters: vec!["/usr/bin/python3.11".into()],
        variables: words(&[b"LD_PRELOAD=/tmp/<b>.so"]),
        parents: vec![
            Parent { pid: 4600, program: "/usr/bin/make".into(), argv: words(&[b"make", b"release"]) },
            Parent { pid: 4500, program: "/usr/bin/node".into(), argv: words(&[b"claude"]) },
        ],
        is_new: true,
        is_first: false,
        version: None,
    }));
    request
}

fn with_argv(mut request: Request, argv: &[&[u8]]) -> Request {
    request.execution.as_mut().unwrap().argv = argv.iter().map(|word| Untrusted::new(*word)).collect();
    request
}

#[test]
fn a_command() {
    let words: [&[u8]; 4] = [b"./deploy", b"--message", b"it's <b>done</b>\x1b[2J &", "žluť\u{202e}".as_bytes()];
    let request = with_argv(command(), &words);
    golden("notify_exec.txt", &draw(request.clone(), FULL));
    let mut first = with_argv(request, &[b"git", b"push", b"--force"]);
    let execution = first.execution.as_mut().unwrap();
    (execution.is_first, execution.is_new) = (true, false);
    execution.interpreters.clear();
    execution.variables.clear();
    golden("notify_exec_first.txt", &draw(first, PLAIN));
}

#[test]
fn a_command_of_any_length_fits() {
    let long = vec![b'x'; 60_000];
    let drawing = draw(with_argv(command(), &[b"cc", &long, b"-o", b"name"]), FULL);
    assert!(text::columns(&drawing.summary) < 60 && drawing.summary.ends_with("-o name"), "{}", drawing.summary);
    assert!(drawing.body.contains("bytes)…") && drawing.body.len() < 4000, "{}", drawing.body.len());
}

#[test]
fn what_was_done_is_told() {
    let told = |program: &str, operation: &str, object: &str, exec: &str| {
        let access = if exec.is_empty() { "write" } else { "exec" };
        let line = format!(
            r#"{{"event":"notified","program":"{program}","access":"{access}","operation":"{operation}","object":"{object}"{exec}}}"#
        );
        Told::of(line.as_bytes()).expect("told")
    };
    let one = told("/usr/bin/npm", "create", "/home/alice/.cache/<x>", "");
    golden("notify_done_one.txt", &draw::done(std::slice::from_ref(&one), 1, &person(), FULL));
    let more: Vec<Told> = (0..8)
        .map(|number| told("/usr/bin/cc", "create", &format!("/srv/{number}"), ""))
        .chain([told("/usr/bin/dash", "execute", "/usr/bin/git", r#","exec":{"argv":["git","fetch","a b\\\\x1b"]}"#)])
        .collect();
    golden("notify_done_many.txt", &draw::done(&more, 40, &person(), FULL));
    golden("notify_done_no_body.txt", &draw::done(&more, 40, &person(), BARE));
}

#[test]
fn hostile_names() {
    golden("notify_hostile.txt", &draw(hostile(), FULL));
    golden("notify_hostile_plain.txt", &draw(hostile(), PLAIN));
}

#[test]
fn a_path_of_ten_kilobytes_keeps_its_file_name() {
    let long = format!("/home/alice/{}authorized_keys", "very/deep/".repeat(1000));
    let drawing = draw(request(3, 1, long.as_bytes()), FULL);
    assert!(drawing.summary.ends_with("authorized_keys"), "{}", drawing.summary);
    golden("notify_long_path.txt", &drawing);
}

#[test]
fn home_is_shortened_by_component_and_never_invented() {
    let summary = |object: &str| draw(request(1, 1, object.as_bytes()), FULL).summary;
    assert_eq!(summary("/home/alice/.ssh/config"), "npm wants to write ~/.ssh/config");
    assert_eq!(summary("/home/alice"), "npm wants to write ~");
    assert_eq!(summary("/home/alicex/.ssh"), "npm wants to write /home/alicex/.ssh");
    assert_eq!(summary("/~/.ssh"), "npm wants to write /~/.ssh");
    assert_eq!(summary("/home/alice/ x"), "npm wants to write ~/\\x20x");
}

/// What a reader of markup makes of a body: fails on anything but text and the five entities.
fn read_markup(body: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = body;
    while let Some(first) = rest.chars().next() {
        if "<>\"'".contains(first) {
            return Err(format!("markup at {rest:?}"));
        }
        let entities = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&#39;", '\'')];
        let entity = entities.iter().find(|(entity, _)| rest.starts_with(entity));
        match (first, entity) {
            ('&', None) => return Err(format!("a bare & at {rest:?}")),
            (_, Some((entity, character))) => {
                text.push(*character);
                rest = &rest[entity.len()..];
            }
            (plain, None) => {
                text.push(plain);
                rest = &rest[plain.len_utf8()..];
            }
        }
    }
    Ok(text)
}

proptest! {
    #[test]
    fn whatever_a_tool_calls_its_files_is_text(
        name in "\\PC{1,40}|[<>&\"'\\\\\n\r\u{202e}\u{2066}\u{200b}\u{85}a/]{1,60}|(<b>|&lt;|]]>|&#0;){1,9}",
        argv in prop::collection::vec("\\PC{0,30}|[<>&\"'\n]{1,20}", 0..5),
        other in prop::option::of("[<>&\"'\n\u{202e}a]{1,20}"),
    ) {
        let mut request = request(1, 1, format!("/home/alice/{name}").as_bytes());
        request.who.program = RawPath::new(format!("/usr/bin/{name}").into_bytes());
        request.who.argv = argv.into_iter().map(Untrusted::new).collect();
        request.other = other.map(|other| RawPath::new(format!("/{other}").into_bytes()));
        let marked = draw(request.clone(), FULL);
        let body = read_markup(&marked.body).map_err(TestCaseError::fail)?;
        let plain = draw(request, PLAIN);
        let own = |shown: char| text::is_showable(shown) || "… \n".contains(shown);
        for said in [&marked.summary, &body, &plain.body] {
            prop_assert!(said.chars().all(own), "{said:?}");
        }
        for said in [&marked.summary, &plain.summary, &plain.body] {
            prop_assert!(!said.contains(['<', '>', '&']), "{said:?}");
        }
        prop_assert!(!marked.summary.contains('\n'));
        // Lines are ours: none of a name's makes a new one.
        let labels = ["object: ", "other end: ", "program: ", "call: ", "in: ", "reason: ", "a yes covers: ", "gatedctl approve "];
        prop_assert!(body.lines().all(|line| labels.iter().any(|label| line.starts_with(label))), "{body:?}");
        prop_assert!(text::columns(&marked.summary) <= 86, "{}", marked.summary);
    }
}
