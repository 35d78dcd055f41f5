//! Bytes of a keyboard, or of a terminal that a tool made to reply: however they are cut, they are the same keys, and what they
//! leave in a line draws only itself.

use std::rc::Rc;
use std::time::Instant;

use gated::common::access::{Access, Level};
use gated::common::consent::{Answer, Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text;
use gated::consent::terminal::dialog::{Dialog, Step, typed};
use gated::consent::terminal::draw;
use gated::consent::terminal::editor::{Edit, Editor};
use gated::consent::terminal::keys::Keys;
use gated::consent::terminal::sequences::Keyed;
use gated::ctl::control::tui::keys as screen;

use super::feed::Feed;
use super::text::is_clean;

/// Where to cut, how wide the line is, and the bytes.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    let (cut, columns) = (usize::from(feed.byte()), usize::from(feed.byte()));
    let bytes = feed.0;
    same_keys::<gated::consent::terminal::keys::Key>(bytes, cut);
    same_keys::<screen::Key>(bytes, cut);
    edited(bytes, columns);
    answered(bytes, columns);
}

fn same_keys<K: Keyed + PartialEq + std::fmt::Debug>(bytes: &[u8], cut: usize) {
    type Read<K> = gated::consent::terminal::sequences::Keys<K>;
    let mut whole: Read<K> = Read::default();
    let all = whole.read(bytes);
    assert!(all.len() <= bytes.len());
    let mut pieces: Read<K> = Read::default();
    let (first, rest) = bytes.split_at(cut.min(bytes.len()));
    let mut read = pieces.read(first);
    read.extend(pieces.read(rest));
    assert_eq!(read, all);
    assert_eq!(whole.is_within(), pieces.is_within());
    assert_eq!(whole.pause(), pieces.pause());
    assert!(!whole.is_within());
}

fn edited(bytes: &[u8], columns: usize) {
    let mut editor = Editor::new([b"git".as_slice(), b"push", b"two words"]);
    for key in Keys::default().read(bytes) {
        if editor.key(key) == Edit::Leave {
            break;
        }
        let (shown, before) = editor.view(columns);
        assert!(is_clean(&shown) && shown.starts_with(&before), "{shown:?} {before:?}");
        let wide = text::columns(&shown);
        assert!(wide <= columns.max(3), "{wide} of {columns}: {shown:?}");
    }
    if let Ok(words) = editor.words() {
        assert!(words.first().is_some_and(|name| !name.is_empty()));
    }
}

fn prompt() -> Prompt {
    let offer = |width, scope: &str| Offer { width, scope: scope.to_owned() };
    let request = Request {
        id: RequestId(1),
        session: SessionId("0000000a".to_owned()),
        call: CallId(1),
        who: Who { pid: 1, program: "/bin/sh".into(), argv: Vec::new(), cwd: "/".into() },
        access: Access::Write,
        operation: Operation::Create,
        object: "/srv/a/b".into(),
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
    let offers =
        vec![offer(Width::Exact, "/srv/a/b"), offer(Width::Directory, "/srv/a/*"), offer(Width::Tree, "/srv/a/**")];
    Prompt::new(Rc::new(request), offers, Instant::now())
}

/// A yes needs a key and Enter; nothing that comes in one burst of more is one.
fn answered(bytes: &[u8], columns: usize) {
    let prompt = prompt();
    let mut dialog = Dialog::new(&prompt, false);
    for burst in bytes.split(|&byte| byte == 0xff) {
        let before = dialog.key;
        let typed = typed(burst);
        let step = dialog.input(typed);
        if let Step::Done(answer) = &step {
            let is_offered = |width: Width| prompt.offers.iter().any(|offer| offer.width == width);
            assert!(answer.width().is_none_or(is_offered), "{answer:?}");
            assert!(burst.len() <= 2);
            assert!(!answer.says_yes() || before.is_some() || burst.len() == 2, "{answer:?} of {burst:?}");
            assert!(!matches!(answer, Answer::Edit(_)), "nothing was edited");
            return;
        }
        let lines = draw::page(&prompt, &dialog, columns, 24).unwrap_or_default();
        assert!(lines.iter().all(|line| is_clean(line) && text::columns(line) <= columns), "{columns}: {lines:?}");
        assert!(is_clean(&draw::input(&dialog, 9, columns)));
    }
}
