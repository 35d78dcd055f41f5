//! Reading an audit log while its writers go on, rotate it, and perhaps cut it off. Runs with the caller's rights.
//!
//! The log is `FILE` and, older and older, `FILE.1` to `FILE.8`; rotation renames each to the next. Files are opened newest
//! first, so that a rotation in between shows a file twice (by device and inode, taken once) and never hides one; all of
//! them stay open, so that no inode is used again and what somebody still writes into a renamed file is seen.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many rotated files there can be.
pub const ROTATED: usize = 8;
/// Bytes of a line at the most; a longer one is none of ours and is passed over.
const LONGEST: usize = 4 << 20;

/// One file, read so far.
#[derive(Debug)]
struct Part {
    file: File,
    identity: (u64, u64),
    /// Where the next read begins.
    offset: u64,
    /// A line whose end was not written yet.
    begun: Vec<u8>,
    /// Past the end of a line that was too long.
    skips: bool,
}

/// A log with its rotated files.
#[derive(Debug)]
pub struct AuditReader {
    path: PathBuf,
    /// Oldest first.
    parts: Vec<Part>,
}

impl AuditReader {
    /// Opens what there is. `NotFound` if there is nothing, `PermissionDenied` if any of it may not be read.
    pub fn open(path: &Path) -> io::Result<AuditReader> {
        let mut reader = AuditReader { path: path.to_owned(), parts: Vec::new() };
        if !reader.find()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(reader)
    }

    /// One that finds what is there later, if nothing is now.
    pub fn open_later(path: &Path) -> io::Result<AuditReader> {
        let mut reader = AuditReader { path: path.to_owned(), parts: Vec::new() };
        reader.find()?;
        Ok(reader)
    }

    /// Takes up files that were not known. Whether there are any files at all.
    fn find(&mut self) -> io::Result<bool> {
        let mut new = Vec::new();
        for number in 0..=ROTATED {
            let mut name = self.path.as_os_str().to_owned();
            if number > 0 {
                name.push(format!(".{number}"));
            }
            let file = match File::open(&name) {
                // Within a rotation the newest is not there for a moment.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            let metadata = file.metadata()?;
            let identity = (metadata.dev(), metadata.ino());
            if !metadata.is_file() || new.iter().any(|part: &Part| part.identity == identity) {
                continue;
            }
            if self.parts.iter().any(|part| part.identity == identity) {
                // What is older was seen when this was.
                break;
            }
            new.push(Part { file, identity, offset: 0, begun: Vec::new(), skips: false });
        }
        new.reverse();
        self.parts.append(&mut new);
        Ok(!self.parts.is_empty())
    }

    /// What was written since the last time, line by line, the oldest first. A line is whole, without its newline.
    pub fn read(&mut self, line: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        // Files that were rotated away are read to their end before the ones that came after them.
        loop {
            let known = self.parts.len();
            for part in &mut self.parts {
                part.read(line)?;
            }
            self.find()?;
            if self.parts.len() == known {
                break;
            }
        }
        // Beyond what rotation keeps, nobody writes any more.
        let kept = ROTATED.saturating_add(2);
        let gone = self.parts.len().saturating_sub(kept);
        self.parts.drain(..gone);
        Ok(())
    }
}

impl Part {
    fn read(&mut self, line: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        if self.file.metadata()?.len() < self.offset {
            // Cut off, as a rotation by copy does.
            self.offset = 0;
            self.begun.clear();
            self.skips = false;
        }
        self.file.seek(SeekFrom::Start(self.offset))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = match self.file.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                return Ok(());
            }
            self.offset = self.offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            self.take(buffer.get(..count).unwrap_or_default(), line);
        }
    }

    fn take(&mut self, bytes: &[u8], line: &mut dyn FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            if !self.skips {
                self.begun.extend_from_slice(text);
            }
            if self.begun.len() > LONGEST {
                self.begun.clear();
                self.skips = true;
            }
            if ends {
                if !self.skips && !self.begun.is_empty() {
                    line(&self.begun);
                }
                self.begun.clear();
                self.skips = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn lines(reader: &mut AuditReader) -> Vec<String> {
        let mut lines = Vec::new();
        reader.read(&mut |line| lines.push(String::from_utf8_lossy(line).into_owned())).unwrap();
        lines
    }

    /// As the daemon does it.
    fn rotate(path: &Path) {
        let numbered = |number: usize| PathBuf::from(format!("{}.{number}", path.display()));
        for number in (1..ROTATED).rev() {
            let _missing = fs::rename(numbered(number), numbered(number + 1));
        }
        fs::rename(path, numbered(1)).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn rotated_files_are_read_in_order_and_nothing_twice() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        for number in 0..5 {
            append(&path, &format!("{number}a\n{number}b\n"));
            rotate(&path);
        }
        append(&path, "5a\n");
        let mut reader = AuditReader::open(&path).unwrap();
        assert_eq!(lines(&mut reader).concat(), "0a0b1a1b2a2b3a3b4a4b5a");
        assert!(lines(&mut reader).is_empty());
        append(&path, "5b\n6");
        assert_eq!(lines(&mut reader), ["5b"]);
        append(&path, "a\n");
        rotate(&path);
        append(&path, "7a\n");
        // A session of its own that still has the renamed file open.
        append(Path::new(&format!("{}.1", path.display())), "6b\n");
        rotate(&path);
        rotate(&path);
        append(&path, "9a\n");
        assert_eq!(lines(&mut reader), ["6a", "6b", "7a", "9a"]);
        for round in 0..20 {
            append(&path, &format!("x{round}\n"));
            rotate(&path);
            assert_eq!(lines(&mut reader), [format!("x{round}")]);
        }
        assert!(reader.parts.len() <= ROTATED + 2);
    }

    #[test]
    fn a_log_that_is_cut_off_is_read_from_its_beginning() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        append(&path, "one\ntwo\n");
        let mut reader = AuditReader::open(&path).unwrap();
        assert_eq!(lines(&mut reader), ["one", "two"]);
        fs::write(&path, "x\n").unwrap();
        assert_eq!(lines(&mut reader), ["x"]);
    }

    #[test]
    fn an_endless_line_takes_no_endless_memory() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        append(&path, &"x".repeat(LONGEST + 100_000));
        append(&path, "\nnext\n");
        let mut reader = AuditReader::open(&path).unwrap();
        assert_eq!(lines(&mut reader), ["next"]);
    }

    #[test]
    fn a_log_that_is_not_there_may_come() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        assert_eq!(AuditReader::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let mut reader = AuditReader::open_later(&path).unwrap();
        assert!(lines(&mut reader).is_empty());
        append(&path, "first\n");
        assert_eq!(lines(&mut reader), ["first"]);
    }
}
