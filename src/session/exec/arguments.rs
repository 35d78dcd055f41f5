//! execve(2) and execveat(2) from registers to words: path and argv, each copied out of the tool once.
//!
//! Runs as the user in the supervisor on hostile numbers and memory. The limits are the kernel's (`copy_strings`, fs/exec.c);
//! what it would refuse for the sum of argv and environment it refuses itself.

use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::errno::Errno;
use crate::session::target::{Target, Unreadable};

/// `MAX_ARG_STRLEN`, linux/binfmts.h: a word with its NUL.
const WORD_BYTES: usize = 32 * 4096;
/// The most that the kernel takes, whatever the limit of the stack is: 3/4 of `_STK_LIM`.
const ALL_BYTES: usize = 6 << 20;
const PAGE: u64 = 4096;
/// Most words are shorter than this.
const GUESS: usize = 128;
/// Words in one call; `IOV_MAX` is 1024.
const AT_ONCE: usize = 128;

/// Bytes of argv and environment that all threads of the supervisor hold at the most.
const HELD_BYTES: usize = 64 << 20;
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Words of a tool, and their share of what the supervisor may hold.
#[derive(Debug, Default)]
pub struct Words {
    words: Vec<Vec<u8>>,
    held: usize,
}

impl Words {
    pub fn as_slice(&self) -> &[Vec<u8>] {
        &self.words
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Unreadable> {
        self.held = self.held.saturating_add(bytes);
        let before = HELD.fetch_add(bytes, Ordering::Relaxed);
        if self.held > ALL_BYTES {
            return Err(Errno::TOOBIG.into());
        }
        if before.saturating_add(bytes) > HELD_BYTES {
            return Err(Errno::NOMEM.into());
        }
        Ok(())
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        HELD.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// The words of an argv or environment: pointers up to a null one. A null pointer to all of them is none.
pub fn words(target: &Target<'_>, address: u64) -> Result<Words, Unreadable> {
    let mut all = Words::default();
    if address == 0 {
        return Ok(all);
    }
    let pointers = pointers(target, address, &mut all)?;
    for group in pointers.chunks(AT_ONCE) {
        let mut guessed = vec![[0; GUESS]; group.len()];
        let sizes = group.iter().map(|at| GUESS.min((PAGE - at % PAGE) as usize));
        let mut blocks: Vec<(u64, &mut [u8])> = group
            .iter()
            .zip(&mut guessed)
            .zip(sizes)
            .map(|((at, block), size)| (*at, block.get_mut(..size).unwrap_or_default()))
            .collect();
        // What could not be had here is read once more by itself, with the error that it has.
        let mut got = match target.scattered(&mut blocks) {
            Err(Unreadable::Native(Errno::FAULT)) => 0,
            got => got?,
        };
        let sizes: Vec<usize> = blocks.iter().map(|(_, block)| block.len()).collect();
        for ((at, block), size) in group.iter().zip(&guessed).zip(sizes) {
            let here = block.get(..size.min(got)).unwrap_or_default();
            got -= here.len();
            let word = match here.iter().position(|byte| *byte == 0) {
                Some(end) => here.get(..end).unwrap_or_default().to_vec(),
                None => word(target, *at)?,
            };
            all.hold(word.len() + size_of::<Vec<u8>>())?;
            all.words.push(word);
        }
    }
    Ok(all)
}

/// The addresses of the words.
fn pointers(target: &Target<'_>, address: u64, all: &mut Words) -> Result<Vec<u64>, Unreadable> {
    const SIZE: u64 = size_of::<u64>() as u64;
    let mut found = Vec::new();
    let mut at = address;
    let mut room = [0; PAGE as usize];
    // Enough for most, and a page from then on.
    let mut most = 64 * SIZE;
    loop {
        // Up to the end of the page; an address that is no multiple of 8 may have one across it.
        let to_page_end = (PAGE - at % PAGE) / SIZE * SIZE;
        let size = if to_page_end == 0 { SIZE } else { to_page_end.min(most) } as usize;
        let part = room.get_mut(..size).unwrap_or_default();
        let got = target.scattered(&mut [(at, part)])?;
        for pointer in part.get(..got).unwrap_or_default().chunks_exact(SIZE as usize) {
            match pointer.try_into().map(u64::from_ne_bytes) {
                Ok(0) => return Ok(found),
                Ok(pointer) => found.push(pointer),
                Err(_) => return Err(Errno::FAULT.into()),
            }
        }
        if got < size {
            return Err(Errno::FAULT.into());
        }
        all.hold(size)?;
        at = at.checked_add(size as u64).ok_or(Errno::FAULT)?;
        most = PAGE;
    }
}

/// One word, of any length.
fn word(target: &Target<'_>, address: u64) -> Result<Vec<u8>, Unreadable> {
    let mut word = Vec::new();
    let mut part = [0; PAGE as usize];
    while word.len() < WORD_BYTES {
        let at = address.checked_add(word.len() as u64).ok_or(Errno::FAULT)?;
        let part = part.get_mut(..(PAGE - at % PAGE) as usize).unwrap_or_default();
        let got = target.scattered(&mut [(at, part)])?;
        let got = part.get(..got).unwrap_or_default();
        match got.iter().position(|byte| *byte == 0) {
            Some(end) => {
                word.extend_from_slice(got.get(..end).unwrap_or_default());
                return if word.len() < WORD_BYTES { Ok(word) } else { Err(Errno::TOOBIG.into()) };
            }
            None if got.len() < part.len() => return Err(Errno::FAULT.into()),
            None => word.extend_from_slice(got),
        }
    }
    Err(Errno::TOOBIG.into())
}

/// An attempt to execute.
#[derive(Debug)]
pub struct Attempt {
    pub directory: i32,
    pub path: CString,
    pub flags: u32,
    pub argv: u64,
    pub environment: u64,
}

/// `EFAULT`, `ENAMETOOLONG` and the like for a path that cannot be had, `None` for another call.
pub fn decode(target: &Target<'_>) -> Option<Result<Attempt, Unreadable>> {
    let notification = target.notification();
    let [a, b, c, d, e, _] = notification.args;
    let (directory, path, argv, environment, flags) = match notification.number {
        libc::SYS_execve => (libc::AT_FDCWD, a, b, c, 0),
        libc::SYS_execveat => (a as i32, b, c, d, e as u32),
        _ => return None,
    };
    Some(target.path(path).map(|path| Attempt { directory, path, flags, argv, environment }))
}
