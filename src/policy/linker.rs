//! A run-time linker that is called as a program, ld.so(8): `ld-linux-x86-64.so.2 [OPTION]... PROGRAM [WORD]...`. Pure, on
//! words that a tool chose.

use crate::common::exec::Program;

use super::reading::Words;

/// Options of glibc's and musl's linkers that take the next word as their value.
const WITH_VALUE: [&[u8]; 7] = [
    b"--library-path",
    b"--inhibit-rpath",
    b"--audit",
    b"--preload",
    b"--argv0",
    b"--glibc-hwcaps-prepend",
    b"--glibc-hwcaps-mask",
];

/// Options with which nothing is run.
const RUNS_NOTHING: [&[u8]; 6] =
    [b"--list", b"--verify", b"--help", b"--version", b"--list-tunables", b"--list-diagnostics"];

/// What a linker is told to run.
pub(super) struct Loaded<'a> {
    pub file: &'a [u8],
    /// Its argv\[0\].
    pub called: &'a [u8],
    pub words: Words<'a>,
}

/// Whether a file of this name is a run-time linker. musl's is its C library, `libc.so`, and a link to it.
pub(super) fn is_linker(name: &[u8]) -> bool {
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    // musl's linker is the C library, and on some systems goes by that name alone.
    name == b"ld.so"
        || is_libc(name)
        || name.starts_with(b"ld") && has(b".so") && (has(b"ld-") || has(b"ld64.so") || has(b"ld.so"))
}

/// Whether this is a linker that came with the system, so that it says nothing about what it loads.
pub(super) fn is_of_system(loader: &Program) -> bool {
    loader.is_of_system && loader.is_named && is_linker(loader.path.file_name())
}

fn is_libc(name: &[u8]) -> bool {
    name == b"libc.so" || name.starts_with(b"libc.") || name.starts_with(b"libc-")
}

/// Whether a linker of this name runs nothing where `LD_TRACE_LOADED_OBJECTS` is set: glibc's, not musl's.
pub(super) fn may_trace(name: &[u8]) -> bool {
    !name.starts_with(b"libc") && !name.windows(4).any(|window| window == b"musl")
}

/// What these words make a linker run; `None` if nothing.
pub(super) fn loaded<'a>(words: Words<'a>) -> Option<Loaded<'a>> {
    let (mut at, mut called) = (0_usize, None);
    loop {
        let word = words.get(at)?;
        at = at.saturating_add(1);
        if RUNS_NOTHING.contains(&word) {
            return None;
        } else if word == b"--argv0" {
            called = words.get(at);
            at = at.saturating_add(1);
        } else if let Some(value) = word.strip_prefix(b"--argv0=") {
            called = Some(value);
        } else if WITH_VALUE.contains(&word) {
            at = at.saturating_add(1);
        } else if word == b"--" {
            let file = words.get(at)?;
            return Some(Loaded { file, called: called.unwrap_or(file), words: words.after(at.saturating_add(1)) });
        } else if !word.starts_with(b"--") {
            return Some(Loaded { file: word, called: called.unwrap_or(word), words: words.after(at) });
        }
    }
}
