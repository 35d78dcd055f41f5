//! What the kernel will make of a file that is executed: its first bytes as `fs/binfmt_script.c` and `fs/binfmt_elf.c`
//! (Linux 6.18) read them.
//!
//! Runs as the user in the supervisor on the bytes of a file that a tool may have written. A mistake here shows a person
//! something else than what runs; what runs is compared with it and killed.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use crate::common::errno::Errno;

/// `BINPRM_BUF_SIZE`, linux/binfmts.h.
pub const HEAD: usize = 256;
const PATH_MAX: usize = 4096;
/// Program headers that are looked at; the kernel takes up to 64 KiB of them.
const HEADERS_BYTES: usize = 65536;

/// How a file runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// By this interpreter, with this one argument.
    Script { interpreter: CString, argument: Option<CString> },
    /// By itself, with this loader if it has one.
    Elf { loader: Option<CString> },
    /// As a program with 32 bits: the kernel may know it, the filter does not let it run.
    Foreign,
    /// Not at all, unless binfmt_misc knows it: `ENOEXEC`.
    Unknown,
}

/// What is known of a file's contents.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The first bytes, zeros behind the end.
    pub head: [u8; HEAD],
    pub format: Format,
}

impl Contents {
    /// Reads a file that was opened for reading.
    pub fn read(file: BorrowedFd<'_>) -> Result<Contents, Errno> {
        let mut head = [0; HEAD];
        read_at(file, &mut head, 0)?;
        let format = match script(&head) {
            Some(Some((interpreter, argument))) => Format::Script { interpreter, argument },
            // `#!` and nothing that can be run: no other format begins like that.
            Some(None) => Format::Unknown,
            None => elf(file, &head),
        };
        Ok(Contents { head, format })
    }
}

/// As many bytes as there are.
fn read_at(file: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while let Some(room @ [_, ..]) = into.get_mut(filled..) {
        match rustix::io::pread(file, room, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled = filled.saturating_add(count),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(filled)
}

/// The interpreter of a `#!` line; `Some(None)` if the line names none, `None` without such a line (`load_script`).
fn script(head: &[u8; HEAD]) -> Option<Option<(CString, Option<CString>)>> {
    let rest = head.strip_prefix(b"#!")?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let is_end = |byte: &u8| is_blank(byte) || *byte == 0;
    let text = head.split(|byte| *byte == 0).next().unwrap_or_default();
    let line = match text.iter().position(|byte| *byte == b'\n') {
        Some(end) => head.get(2..end)?,
        None => {
            // Without an end of the line the name must end within the buffer, or it may have been cut. The last byte is not
            // the line's.
            let Some(name) = rest.iter().position(|byte| !is_blank(byte)) else { return Some(None) };
            if !rest.get(name..)?.iter().any(is_end) {
                return Some(None);
            }
            head.get(2..HEAD - 1)?
        }
    };
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    let line = line.get(..end)?;
    let Some(start) = line.iter().position(|byte| !is_blank(byte)) else { return Some(None) };
    let line = line.get(start..)?;
    let name_end = line.iter().position(is_end).unwrap_or(line.len());
    let (name, behind) = line.split_at(name_end);
    // A NUL ends the line, a blank only the name.
    let argument = match behind.first() {
        Some(separator) if *separator != 0 => {
            let start = behind.iter().position(|byte| !is_blank(byte));
            start.and_then(|start| behind.get(start..)).map(until_nul)
        }
        _ => None,
    };
    let name = until_nul(name);
    // An empty name is a NUL where it should stand; the kernel then opens the path "".
    Some(Some((name, argument)))
}

fn until_nul(bytes: &[u8]) -> CString {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Little-endian, as all machines that sessions run on.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let part: [u8; N] = bytes.get(at..at.checked_add(N)?)?.try_into().ok()?;
    Some(part.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(target_arch = "x86_64")]
const OUR_MACHINE: u16 = libc::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const OUR_MACHINE: u16 = libc::EM_AARCH64;

fn elf(file: BorrowedFd<'_>, head: &[u8; HEAD]) -> Format {
    if !head.starts_with(b"\x7fELF") {
        return Format::Unknown;
    }
    const ELFCLASS64: u8 = 2;
    let machine = number::<2>(head, 18);
    let is = |of: u16| machine == Some(u64::from(of));
    if head.get(4) != Some(&ELFCLASS64) {
        return if is(libc::EM_386) || is(libc::EM_ARM) || is(OUR_MACHINE) { Format::Foreign } else { Format::Unknown };
    }
    if !is(OUR_MACHINE) {
        return Format::Unknown;
    }
    Format::Elf { loader: loader_of(file, head).unwrap_or_default() }
}

/// The name in the first `PT_INTERP`, elf(5). `None` if this cannot be read: the kernel says what that means.
fn loader_of(file: BorrowedFd<'_>, head: &[u8; HEAD]) -> Option<Option<CString>> {
    const PT_INTERP: u64 = 3;
    let offset = number::<8>(head, 32)?;
    let size = usize::try_from(number::<2>(head, 54)?).ok()?;
    let count = usize::try_from(number::<2>(head, 56)?).ok()?;
    if size != 56 || size.checked_mul(count)? > HEADERS_BYTES {
        return None;
    }
    let mut headers = vec![0; size.checked_mul(count)?];
    let got = read_at(file, &mut headers, offset).ok()?;
    for header in headers.get(..got)?.chunks_exact(size) {
        if number::<4>(header, 0)? == PT_INTERP {
            let length = usize::try_from(number::<8>(header, 32)?).ok()?.min(PATH_MAX);
            let mut name = vec![0; length];
            let got = read_at(file, &mut name, number::<8>(header, 8)?).ok()?;
            return Some(Some(until_nul(name.get(..got)?)));
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &[u8]) -> Option<Option<(String, Option<String>)>> {
        let mut head = [0; HEAD];
        for (to, from) in head.iter_mut().zip(text) {
            *to = *from;
        }
        let text = |text: CString| text.into_string().unwrap_or_default();
        script(&head).map(|found| found.map(|(name, argument)| (text(name), argument.map(text))))
    }

    fn found(name: &str, argument: Option<&str>) -> Option<Option<(String, Option<String>)>> {
        Some(Some((name.to_owned(), argument.map(str::to_owned))))
    }

    #[test]
    fn a_first_line_is_read_as_the_kernel_reads_it() {
        assert_eq!(line(b"#!/bin/sh\necho"), found("/bin/sh", None));
        assert_eq!(line(b"#! \t/bin/sh \t\n"), found("/bin/sh", None));
        assert_eq!(line(b"#!/usr/bin/env  python3 -u \n"), found("/usr/bin/env", Some("python3 -u")));
        assert_eq!(line(b"#!/bin/sh"), found("/bin/sh", None));
        assert_eq!(line(b"#!/bin/sh -e"), found("/bin/sh", Some("-e")));
        assert_eq!(line(b"#!/bin/sh\0x\n"), found("/bin/sh", None));
        assert_eq!(line(b"#!/bin/sh\r\n"), found("/bin/sh\r", None));
        assert_eq!(line(b"#!\n"), Some(None));
        assert_eq!(line(b"#!  \n/bin/sh"), Some(None));
        assert_eq!(line(b"#"), None);
        assert_eq!(line(b" #!/bin/sh\n"), None);
    }

    #[test]
    fn a_name_that_does_not_end_within_the_buffer_is_none() {
        let long = [b"#!/".as_slice(), &[b'a'; 300]].concat();
        assert_eq!(line(&long), Some(None));
        let argument = [b"#!/bin/sh ".as_slice(), &[b'a'; 300]].concat();
        assert_eq!(line(&argument), found("/bin/sh", Some(&"a".repeat(HEAD - 1 - 10))));
        assert_eq!(line(&[b"#!".as_slice(), &[b' '; 300]].concat()), Some(None));
    }
}
