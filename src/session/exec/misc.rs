//! The formats that root has registered with binfmt_misc (Documentation/admin-guide/binfmt-misc.rst): they come before `#!` and
//! ELF.
//!
//! Runs as the user in the supervisor, on files of the host's kernel that only root can write. Where the registry has
//! changed and this does not know it yet, something else runs than was judged, which is killed.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, Mode, OFlags, openat};

use super::format::HEAD;

/// How long the registry is believed to be as it was.
const FRESH: Duration = Duration::from_secs(1);
/// Of one entry's file; its parts are limited to 128 bytes of magic and a path.
const ENTRY_BYTES: usize = 8192;
const ENTRIES_AT_MOST: usize = 1024;
const BINFMTFS_MAGIC: i64 = 0x4249_4e4d;

/// One registered format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub interpreter: CString,
    /// `P`: argv\[0\] stays behind the path.
    pub keeps_argv0: bool,
    matching: Matching,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matching {
    Extension(Vec<u8>),
    Magic { offset: usize, bytes: Vec<u8>, mask: Vec<u8> },
}

impl Entry {
    /// The file of an enabled entry; `None` for one that is disabled or makes no sense.
    pub fn parse(text: &[u8]) -> Option<Entry> {
        let mut lines = text.split(|byte| *byte == b'\n');
        if lines.next() != Some(b"enabled") {
            return None;
        }
        let mut interpreter = None;
        let (mut keeps_argv0, mut offset) = (false, 0);
        let (mut extension, mut magic, mut mask) = (None, None, None);
        for line in lines {
            let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let (key, value) = line.split_at(end);
            let value = value.get(1..).unwrap_or_default();
            match key {
                b"interpreter" => interpreter = CString::new(value).ok(),
                b"flags:" => keeps_argv0 = value.contains(&b'P'),
                b"offset" => offset = std::str::from_utf8(value).ok()?.parse().ok()?,
                b"extension" => extension = Some(value.strip_prefix(b".").unwrap_or(value).to_vec()),
                b"magic" => magic = Some(bytes_of(value)?),
                b"mask" => mask = Some(bytes_of(value)?),
                _ => {}
            }
        }
        let matching = match (extension, magic) {
            (Some(extension), _) => Matching::Extension(extension),
            (None, Some(bytes)) => Matching::Magic { offset, mask: mask.unwrap_or_default(), bytes },
            (None, None) => return None,
        };
        Some(Entry { interpreter: interpreter?, keeps_argv0, matching })
    }

    /// Whether it is for a file with these first bytes, called by this name.
    pub fn is_for(&self, head: &[u8; HEAD], name: &[u8]) -> bool {
        match &self.matching {
            Matching::Extension(extension) => {
                let dot = name.iter().rposition(|byte| *byte == b'.');
                dot.and_then(|dot| name.get(dot + 1..)) == Some(extension)
            }
            Matching::Magic { offset, bytes, mask } => {
                let at = head.get(*offset..).and_then(|rest| rest.get(..bytes.len()));
                let masked = |(index, byte): (usize, &u8)| byte & mask.get(index).copied().unwrap_or(u8::MAX);
                at.is_some_and(|at| at.iter().enumerate().map(masked).eq(bytes.iter().enumerate().map(masked)))
            }
        }
    }
}

/// Hexadecimal digits.
fn bytes_of(digits: &[u8]) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

/// The registry of the host, as it was a moment ago.
#[derive(Debug, Default)]
pub struct Registry {
    /// Where the host has it mounted.
    directory: Option<OwnedFd>,
    known: Mutex<Option<(Instant, Arc<[Entry]>)>>,
}

impl Registry {
    /// `procfs` is the outer `/proc`.
    pub fn new(procfs: BorrowedFd<'_>) -> Registry {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(procfs, c"sys/fs/binfmt_misc", flags, Mode::empty()).ok();
        let is_one =
            |directory: &OwnedFd| rustix::fs::fstatfs(directory).is_ok_and(|found| found.f_type == BINFMTFS_MAGIC);
        Registry { directory: directory.filter(is_one), known: Mutex::default() }
    }

    /// What runs a file with these first bytes, called by this name.
    pub fn interpreter(&self, head: &[u8; HEAD], name: &[u8]) -> Option<Entry> {
        let directory = self.directory.as_ref()?;
        self.entries(directory.as_fd()).iter().find(|entry| entry.is_for(head, name)).cloned()
    }

    fn entries(&self, directory: BorrowedFd<'_>) -> Arc<[Entry]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((since, entries)) if since.elapsed() < FRESH => Arc::clone(entries),
            _ => {
                let entries: Arc<[Entry]> = read(directory).into();
                *known = Some((Instant::now(), Arc::clone(&entries)));
                entries
            }
        }
    }
}

fn read(directory: BorrowedFd<'_>) -> Vec<Entry> {
    let open = |name: &std::ffi::CStr| openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let status = open(c"status").and_then(contents);
    if !status.is_ok_and(|text| text.starts_with(b"enabled")) {
        return Vec::new();
    }
    let Ok(names) = open(c".").and_then(Dir::new) else { return Vec::new() };
    let is_entry = |name: &std::ffi::CStr| !matches!(name.to_bytes(), b"." | b".." | b"register" | b"status");
    names
        .take(ENTRIES_AT_MOST)
        .flatten()
        .filter(|entry| is_entry(entry.file_name()))
        .filter_map(|entry| Entry::parse(&open(entry.file_name()).and_then(contents).ok()?))
        .collect()
}

fn contents(file: OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut text = vec![0; ENTRY_BYTES];
    let got = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut *text))?;
    text.truncate(got);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &[u8]) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        for (to, from) in head.iter_mut().zip(text) {
            *to = *from;
        }
        head
    }

    #[test]
    fn an_entry_is_found_by_its_magic_under_its_mask() {
        let text = b"enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: POC\noffset 1\nmagic 454c46\nmask ffff00\n";
        let entry = Entry::parse(text).unwrap();
        assert_eq!((entry.interpreter.as_c_str(), entry.keeps_argv0), (c"/usr/bin/qemu-aarch64", true));
        assert!(entry.is_for(&head(b"\x7fELF"), b"/x") && entry.is_for(&head(b"\x7fELx"), b"/x"));
        assert!(!entry.is_for(&head(b"\x7fXLF"), b"/x") && !entry.is_for(&head(b""), b"/x"));
    }

    #[test]
    fn an_entry_is_found_by_the_last_extension() {
        let entry = Entry::parse(b"enabled\ninterpreter /usr/bin/mono\nflags: \nextension .exe\n").unwrap();
        assert!(entry.is_for(&head(b""), b"/a.b/c.exe"));
        assert!(!entry.is_for(&head(b""), b"/a.exe/c") && !entry.is_for(&head(b""), b"exe") && !entry.keeps_argv0);
    }

    #[test]
    fn a_disabled_entry_is_none() {
        assert_eq!(Entry::parse(b"disabled\ninterpreter /x\nflags: \nextension .exe\n"), None);
    }
}
