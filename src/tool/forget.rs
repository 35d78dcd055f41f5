//! Makes a process that was forked from the supervisor forget a secret of the supervisor's, wherever copies of it are: on
//! the heap, in what was freed, on the stack. Runs in init before it leaves root, with one thread, on its own memory.

use std::fs::{File, OpenOptions, read_to_string};
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are looked through at a time.
const CHUNK: usize = 1 << 16;

/// Overwrites every copy of these bytes in this process with zeros, these included.
pub fn forget(secret: &mut [u8]) -> io::Result<()> {
    // What is looked for must not be found where it is kept, before the rest was.
    let mut pattern: Vec<u8> = secret.iter().map(|byte| !byte).collect();
    secret.fill(0);
    std::hint::black_box(&mut *secret);
    let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
    let mut buffer = vec![0; CHUNK];
    for line in read_to_string("/proc/self/maps")?.lines() {
        if let Some((from, to)) = writable_range(line) {
            forget_within(&memory, from, to, &pattern, &mut buffer)?;
        }
    }
    pattern.fill(0);
    buffer.fill(0);
    std::hint::black_box((&mut pattern, &mut buffer));
    Ok(())
}

/// A private mapping that was written to, of a line of proc_pid_maps(5).
fn writable_range(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let address = |digits: &str| u64::from_str_radix(digits, 16).ok();
    words.next()?.starts_with("rw").then_some((address(from)?, address(to)?))
}

fn forget_within(memory: &File, from: u64, to: u64, pattern: &[u8], buffer: &mut [u8]) -> io::Result<()> {
    let overlap = pattern.len().saturating_sub(1) as u64;
    let Some(first) = pattern.first() else { return Ok(()) };
    let mut at = from;
    while at < to {
        let length = usize::try_from(to.saturating_sub(at)).map_or(buffer.len(), |left| left.min(buffer.len()));
        let part = buffer.get_mut(..length).unwrap_or_default();
        // A page that cannot be read holds nothing.
        let Ok(got) = memory.read_at(part, at) else { return Ok(()) };
        let part = part.get(..got).unwrap_or_default();
        for (index, byte) in part.iter().enumerate() {
            let is_here = !byte == *first
                && part.get(index..).is_some_and(|rest| {
                    rest.len() >= pattern.len() && rest.iter().zip(pattern).all(|(byte, wanted)| !byte == *wanted)
                });
            if is_here {
                memory.write_all_at(&vec![0; pattern.len()], at.saturating_add(index as u64))?;
            }
        }
        if got == 0 || at.saturating_add(got as u64) >= to {
            return Ok(());
        }
        at = at.saturating_add((got as u64).saturating_sub(overlap).max(1));
    }
    Ok(())
}
