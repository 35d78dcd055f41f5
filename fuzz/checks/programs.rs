//! Files that are executed, and what the kernel says of processes whose names a tool chose.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use gated::common::procstat;
use gated::daemon::caller::unit_of;
use gated::session::exec::format::{Contents, Format, HEAD};
use gated::session::exec::misc::Entry;
use gated::session::procthread::words_of;
use gated::session::target::parse_status;

use super::feed::Feed;

/// The first byte says what the rest is.
pub fn check(input: &[u8]) {
    let mut feed = Feed(input);
    match feed.byte() {
        0xff => texts(feed.0),
        0xfe => registered(feed.0),
        _ => executed(feed.0),
    }
}

thread_local! {
    static FILE: File = File::from(
        rustix::fs::memfd_create(c"executed", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory"),
    );
}

fn executed(bytes: &[u8]) {
    let contents = FILE.with(|mut file| {
        file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).expect("an empty file");
        file.write_all(bytes).expect("a file in memory takes it");
        Contents::read(file.as_fd()).expect("a file that can be read")
    });
    let mut head = [0; HEAD];
    let length = bytes.len().min(HEAD);
    head[..length].copy_from_slice(&bytes[..length]);
    assert_eq!(contents.head, head);
    match (first_line(&head), &contents.format) {
        (Some(Some((name, argument))), Format::Script { interpreter, argument: own }) => {
            assert_eq!((interpreter.to_bytes(), own.as_ref().map(|own| own.to_bytes().to_vec())), (&*name, argument));
        }
        (Some(None), Format::Unknown) | (None, Format::Foreign | Format::Unknown) => {}
        (None, Format::Elf { loader }) => {
            assert!(head.starts_with(b"\x7fELF\x02"));
            if let Some(loader) = loader {
                let loader = loader.to_bytes();
                assert!(
                    loader.len() <= 4096 && bytes.windows(loader.len().max(1)).any(|part| part.starts_with(loader))
                );
            }
        }
        (line, format) => panic!("{format:?} where the line is {line:?}"),
    }
}

/// An interpreter and its one argument.
type Interpreter = (Vec<u8>, Option<Vec<u8>>);

/// Name and argument of a `#!` line as execve(2) describes it ("Interpreter scripts"), one byte after the other; `Some(None)`
/// where it names nothing, `None` where there is no such line.
fn first_line(head: &[u8; HEAD]) -> Option<Option<Interpreter>> {
    if head[0] != b'#' || head[1] != b'!' {
        return None;
    }
    let is_blank = |at: usize| head[at] == b' ' || head[at] == b'\t';
    // The end of the line, before which no NUL stands; or else the last byte of the buffer, which is not part of it.
    let mut end = 0;
    for (at, byte) in head.iter().enumerate() {
        if *byte == b'\n' {
            end = at;
            break;
        }
        if *byte == 0 {
            break;
        }
    }
    if end == 0 {
        // The name might have been cut.
        let mut at = 2;
        while at < HEAD && is_blank(at) {
            at += 1;
        }
        while at < HEAD && !is_blank(at) && head[at] != 0 {
            at += 1;
        }
        if at == HEAD {
            return Some(None);
        }
        end = HEAD - 1;
    }
    while end > 2 && is_blank(end - 1) {
        end -= 1;
    }
    let mut at = 2;
    while at < end && is_blank(at) {
        at += 1;
    }
    if at >= end {
        return Some(None);
    }
    let begin = at;
    while at < end && !is_blank(at) && head[at] != 0 {
        at += 1;
    }
    let name = head[begin..at].to_vec();
    if at == end || head[at] == 0 {
        return Some(Some((name, None)));
    }
    while at < end && is_blank(at) {
        at += 1;
    }
    let argument: Vec<u8> = head[at..end].iter().copied().take_while(|byte| *byte != 0).collect();
    Some(Some((name, (at < end).then_some(argument))))
}

/// The file of an entry of binfmt_misc; then, behind a NUL, the name and the beginning of a file that it may be for.
fn registered(input: &[u8]) {
    let mut feed = Feed(input);
    let text = feed.up_to(0);
    let name = feed.up_to(0);
    let mut head = [0; HEAD];
    let bytes = feed.bytes(HEAD);
    head[..bytes.len()].copy_from_slice(bytes);
    let Some(entry) = Entry::parse(text) else { return };
    assert!(text.starts_with(b"enabled"));
    assert_eq!(Entry::parse(text).as_ref(), Some(&entry));
    let is_for = entry.is_for(&head, name);
    assert_eq!(is_for, entry.is_for(&head, name));
}

fn texts(text: &[u8]) {
    if let Some(stat) = procstat::parse(text) {
        // However the process calls itself.
        let renamed = [b"1 () R 1 2 3) ) ".as_slice(), text].concat();
        assert_eq!(procstat::parse(&renamed), Some(stat));
    }
    let status = parse_status(text);
    assert!(text.windows(6).any(|key| key == b"Umask:") || status.umask == 0o077);
    let words = words_of(text);
    assert!(words.len() <= 64 && words.iter().all(|word| word.as_bytes().len() <= 4096));
    if let Some(unit) = unit_of(text) {
        assert!(!unit.contains('/'), "{unit}");
    }
}
