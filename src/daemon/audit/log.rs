//! The file of the audit log. What is too long is renamed to `audit.jsonl.1`, what was there to `.2`, and so on; the oldest
//! goes. Any number of processes append to the same log and rename it, without waiting for each other:
//!
//! * a record is one write(2) to a file that was opened under the log's name, so it is in one of the files, whole;
//! * who renames holds flock(2) on the file that is renamed, and gives the name away last, so two never do it at once; who
//!   cannot goes on appending;
//! * who finds another file under the name opens that one. The one before is synchronised all the same with what is in it;
//! * who finds its file deleted after a write, because it slept through all the renaming, writes the record once more.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, renameat, statat};
use rustix::io::Errno;
use tracing::{info, warn};

use super::{Audit, AuditError, AuditRecord};

/// A file is renamed before a record would make it longer than this.
pub const MAX_BYTES: u64 = 64 << 20;
/// Files that are kept besides the one that is written.
pub const KEPT: u32 = 8;

/// An open audit log.
#[derive(Debug)]
pub struct AuditLog {
    /// Where the name of the log is; `None` for a file that the caller opened, which stays the one.
    place: Option<Place>,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    /// The file may end within a line, which the next record must end first.
    torn: bool,
    /// Files with records that are not known to be on disk, besides the current one.
    before: Vec<Arc<File>>,
    /// Names have changed since the directory was synchronised.
    renamed: bool,
    /// The last attempt to rename failed, and that was said.
    stuck: bool,
}

/// The names of a log's files, the oldest first and the one that is written last; not all of them need to be there.
pub fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let older = path.to_owned();
    (1..=KEPT).rev().map(move |number| PathBuf::from(numbered(older.as_os_str(), number))).chain([path.to_owned()])
}

fn numbered(name: &OsStr, number: u32) -> OsString {
    let mut name = name.to_owned();
    name.push(format!(".{number}"));
    name
}

impl AuditLog {
    /// Opens or creates the log with mode 0640, and its directory with mode 0750. A symbolic link as the last component is
    /// refused. Uses the rights of the calling process: for the default path, as root. A process that gives its rights up
    /// afterwards and cannot rename the log any more goes on writing to the file that it has.
    pub fn open(path: &Path) -> Result<AuditLog, AuditError> {
        let failed = |error| AuditError::Open { path: path.to_owned(), error };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o750).create(parent).map_err(failed)?;
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?.to_owned();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A directory without the right to list it can still hold a log, but cannot be synchronised.
        let directory = match openat(CWD, parent, flags | OFlags::RDONLY, Mode::empty()) {
            Err(Errno::ACCESS) => openat(CWD, parent, flags | OFlags::PATH, Mode::empty()),
            other => other,
        };
        let place = Place { directory: directory.map_err(|errno| failed(errno.into()))?, name };
        let log = AuditLog::of(place.open().map_err(failed)?, Some(place))?;
        // The name must outlast a crash as the records do.
        log.lock().renamed = true;
        Ok(log)
    }

    /// A log that the caller has opened for writing, with whichever rights. `O_APPEND` is set on it; it is never renamed.
    pub fn from_file(file: File) -> Result<AuditLog, AuditError> {
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|errno| AuditError::Write(errno.into()))?;
        rustix::fs::fcntl_setfl(&file, flags | OFlags::APPEND).map_err(|errno| AuditError::Write(errno.into()))?;
        AuditLog::of(file, None)
    }

    /// The same log with another limit to its files.
    pub fn with_max_bytes(self, max_bytes: u64) -> AuditLog {
        AuditLog { max_bytes, ..self }
    }

    fn of(mut file: File, place: Option<Place>) -> Result<AuditLog, AuditError> {
        let kind = file.metadata().map_err(AuditError::Write)?.file_type();
        if !kind.is_file() && !kind.is_char_device() {
            return Err(AuditError::NotAFile);
        }
        // Devices have no name to be given away.
        let place = place.filter(|_| kind.is_file());
        let torn = kind.is_file() && ends_within_a_line(&mut file);
        let state = State { file: Arc::new(file), torn, before: Vec::new(), renamed: false, stuck: false };
        Ok(AuditLog { place, max_bytes: MAX_BYTES, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No state in between can be seen: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the last byte of a file is something else than a newline. A log that cannot be read is taken to end well.
fn ends_within_a_line(file: &mut File) -> bool {
    let mut last = [b'\n'];
    file.seek(SeekFrom::End(-1)).is_ok() && file.read_exact(&mut last).is_ok() && last != *b"\n"
}

impl Place {
    /// The file under the name of the log, created if there is none.
    fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from(openat(&self.directory, &self.name, flags, Mode::from_raw_mode(0o640))?))
    }

    /// Whether this file has the name of the log still. `None` if that cannot be seen.
    fn names(&self, file: &Stat) -> Option<bool> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Some((named.st_dev, named.st_ino) == (file.st_dev, file.st_ino)),
            Err(Errno::NOENT) => Some(false),
            Err(_) => None,
        }
    }

    /// Gives the name of the log away, from `file`. `false` if somebody else is at it, or was.
    fn turn(&self, file: &File, state: &Stat) -> io::Result<bool> {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        let turned = if self.names(state) == Some(true) { self.shift().map(|()| true) } else { Ok(false) };
        // Closing would do it as well, but the file is held for as long as it is to be synchronised.
        let _ = flock(file, FlockOperation::Unlock);
        turned
    }

    /// Moves every file one up, as far as there is one in the way, and the log's own last.
    fn shift(&self) -> io::Result<()> {
        let is_free = |number: u32| {
            let at = statat(&self.directory, numbered(&self.name, number), AtFlags::SYMLINK_NOFOLLOW);
            matches!(at, Err(Errno::NOENT))
        };
        let free = (1..KEPT).find(|&number| is_free(number)).unwrap_or(KEPT);
        for to in (1..=free).rev() {
            let from = match to.checked_sub(1) {
                Some(0) | None => self.name.clone(),
                Some(number) => numbered(&self.name, number),
            };
            renameat(&self.directory, from, &self.directory, numbered(&self.name, to))?;
        }
        Ok(())
    }
}

impl State {
    /// Goes over to the file under the log's name. The one before stays, if that does not work.
    fn follow(&mut self, place: &Place) -> io::Result<()> {
        let mut file = place.open()?;
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.torn = ends_within_a_line(&mut file);
        self.before.push(std::mem::replace(&mut self.file, Arc::new(file)));
        self.renamed = true;
        Ok(())
    }

    /// Sees to it that the current file is the one to write a line of this length to.
    fn settle(&mut self, place: &Place, line: usize, max_bytes: u64) -> io::Result<()> {
        let state = fstat(&self.file)?;
        if place.names(&state) == Some(false) {
            return self.follow(place);
        }
        let (length, line) = (u64::try_from(state.st_size).unwrap_or(0), u64::try_from(line).unwrap_or(u64::MAX));
        if length == 0 || length.saturating_add(line) <= max_bytes {
            return Ok(());
        }
        if place.turn(&self.file, &state)? {
            info!(bytes = length, "the audit log goes on in a new file");
        } else if place.names(&state) == Some(true) {
            // Somebody renames it at this moment.
            return Ok(());
        }
        self.follow(place)
    }

    fn write(&mut self, record: &[u8]) -> Result<(), AuditError> {
        let torn: &[u8] = if self.torn { b"\n" } else { b"" };
        let line = [torn, record, b"\n"].concat();
        let written = loop {
            match (&*self.file).write(&line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(AuditError::Write)?,
            }
        };
        if written == line.len() {
            self.torn = false;
            return Ok(());
        }
        // End the fragment at once, for the other writers of the log; where that fails too, before our next record.
        self.torn = (&*self.file).write(b"\n").ok() != Some(1);
        Err(AuditError::Short(written, line.len()))
    }
}

impl Audit for AuditLog {
    fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        let line = serde_json::to_vec(record)?;
        let mut state = self.lock();
        let Some(place) = &self.place else { return state.write(&line) };
        let settled = state.settle(place, line.len(), self.max_bytes);
        if let Err(error) = &settled
            && !state.stuck
        {
            warn!(%error, "the audit log cannot go on in a new file, and goes on in the old one");
        }
        state.stuck = settled.is_err();
        state.write(&line)?;
        // Nobody finds a record in a file without a name.
        if fstat(&state.file).map_err(|errno| AuditError::Write(errno.into()))?.st_nlink == 0 {
            state.follow(place).map_err(AuditError::Write)?;
            state.write(&line)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), AuditError> {
        let mut state = self.lock();
        let (before, renamed) = (std::mem::take(&mut state.before), std::mem::take(&mut state.renamed));
        let file = Arc::clone(&state.file);
        drop(state);
        let mut result = before.iter().chain([&file]).try_for_each(|file| match rustix::fs::fdatasync(file) {
            // fsync(2): a special file that has nothing to synchronise.
            Err(Errno::INVAL) => Ok(()),
            other => other,
        });
        if let (Ok(()), true, Some(place)) = (&result, renamed, &self.place) {
            result = match rustix::fs::fsync(&place.directory) {
                // It could not be opened for reading.
                Err(Errno::BADF) => Ok(()),
                other => other,
            };
        }
        if result.is_err() {
            let mut state = self.lock();
            state.before.extend(before);
            state.renamed |= renamed;
        }
        result.map_err(|errno| AuditError::Write(errno.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::daemon::record::{Rule, Tool};

    fn record(object: &str) -> AuditRecord {
        AuditRecord {
            time: crate::daemon::record::now(),
            session: "00000001".into(),
            call: 1,
            request: None,
            user: "alice".into(),
            tool: Tool { pid: 1, program: "/bin/sh".into(), argv: vec!["sh".into()], cwd: "/".into() },
            access: "write",
            operation: "create",
            object: object.into(),
            other: None,
            exec: None,
            destination: None,
            service: None,
            edited: None,
            rule: Rule { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 1 },
            result: "approved",
            would: None,
            answered_by: "none".into(),
            duration_ms: 5,
            scope: None,
            lifetime: None,
            times: None,
            various: false,
        }
    }

    fn lines(path: &Path) -> Vec<Option<serde_json::Value>> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).ok()).collect()
    }

    #[test]
    fn a_new_log_is_for_its_owner_and_group_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log/audit.jsonl");
        let log = AuditLog::open(&path).unwrap();
        log.append(&record("/x")).unwrap();
        log.sync().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path) & !0o640, 0);
        assert_eq!(mode(path.parent().unwrap()) & !0o750, 0);
        let line = lines(&path).remove(0).unwrap();
        let time: jiff::Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        assert!(jiff::Timestamp::now().duration_since(time).as_secs() < 60);
        assert!(line["time"].as_str().unwrap().ends_with('Z') && line["time"].as_str().unwrap().len() == 27);
    }

    #[test]
    fn sessions_that_share_a_log_do_not_mix_their_lines() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let log = AuditLog::open(&path).unwrap();
                scope.spawn(move || {
                    for number in 0..200 {
                        log.append(&record(&format!("/{writer}/{number}/{}", "x".repeat(3000)))).unwrap();
                    }
                });
            }
        });
        let lines = lines(&path);
        assert_eq!(lines.len(), 800);
        assert!(lines.iter().all(Option::is_some));
    }

    #[test]
    fn a_line_that_was_torn_by_a_crash_does_not_swallow_the_next() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        std::fs::write(&path, "{\"time\":\"2026").unwrap();
        AuditLog::open(&path).unwrap().append(&record("/x")).unwrap();
        let lines = lines(&path);
        assert!(lines[0].is_none() && lines[1].as_ref().unwrap()["object"] == "/x");
    }

    #[test]
    fn a_full_disk_is_an_error_and_does_not_spoil_later_lines() {
        let place = tempfile::tempdir().unwrap();
        let disk = place.path();
        // Two pages: one record fits, one is cut short, and the next finds no room at all.
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8k,mode=700", "tmpfs"])
            .arg(disk)
            .status()
            .unwrap();
        assert!(mounted.success(), "this test mounts a small tmpfs and needs root");
        let path = disk.join("audit.jsonl");
        let result = std::panic::catch_unwind(|| {
            let log = AuditLog::open(&path).unwrap();
            log.append(&record("/first")).unwrap();
            let long = record(&"x".repeat(20_000));
            assert!(matches!(log.append(&long), Err(AuditError::Short(written, whole)) if written < whole));
            assert!(matches!(log.append(&record("/no-room")), Err(AuditError::Write(_))));
            // Room again, as after a rotation that copies and truncates.
            rustix::fs::ftruncate(&log.lock().file, 4096).unwrap();
            log.append(&record("/later")).unwrap();
            let lines = lines(&path);
            assert_eq!(lines.len(), 3);
            assert!(lines[1].is_none(), "the fragment");
            assert_eq!(lines[2].as_ref().unwrap()["object"], "/later");
        });
        std::process::Command::new("umount").arg(disk).status().unwrap();
        result.unwrap();
    }

    #[test]
    fn what_is_not_a_file_is_not_a_log() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        symlink("/dev/null", &link).unwrap();
        assert!(matches!(AuditLog::open(&link), Err(AuditError::Open { .. })));
        let (_reader, writer) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(writer));
        assert!(matches!(AuditLog::from_file(pipe), Err(AuditError::NotAFile)));
        let full = AuditLog::from_file(OpenOptions::new().write(true).open("/dev/full").unwrap()).unwrap();
        assert!(matches!(full.append(&record("/x")), Err(AuditError::Write(_))));
    }

    #[test]
    fn a_log_that_the_caller_opened_is_appended_to() {
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), "{}\n").unwrap();
        let file = OpenOptions::new().write(true).open(place.path()).unwrap();
        AuditLog::from_file(file).unwrap().append(&record("/x")).unwrap();
        assert_eq!(lines(place.path()).len(), 2);
        assert!(place.path().metadata().unwrap().size() > 3);
    }

    /// How often each object is in the files of a log; every line must be whole.
    fn objects(path: &Path) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for file in names(path).filter(|file| file.exists()) {
            for line in lines(&file) {
                let object = line.expect("a whole line")["object"].as_str().unwrap().to_owned();
                *found.entry(object).or_default() += 1;
            }
        }
        found
    }

    fn numbers(path: &Path) -> Vec<bool> {
        names(path).map(|file| file.exists()).collect()
    }

    #[test]
    fn nothing_is_lost_or_torn_while_many_writers_rename_the_log() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        let (writers, records, limit) = (4, 150, 128 << 10);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                // Each as another process has it: locks and offsets belong to an open file.
                let log = AuditLog::open(&path).unwrap().with_max_bytes(limit);
                scope.spawn(move || {
                    for number in 0..records {
                        log.append(&record(&format!("/{writer}/{number}/{}", "x".repeat(1000)))).unwrap();
                        if number % 10 == 0 {
                            log.sync().unwrap();
                        }
                    }
                });
            }
        });
        let found = objects(&path);
        assert_eq!((found.len(), found.values().max()), (writers * records, Some(&1)));
        let sizes: Vec<u64> =
            names(&path).filter(|file| file.exists()).map(|file| file.metadata().unwrap().size()).collect();
        // A writer that stood still while others renamed the file ends its record where it had begun.
        assert!(sizes.len() >= 5 && sizes.iter().all(|&size| size <= 2 * limit), "{sizes:?}");
    }

    #[test]
    fn the_oldest_file_goes_and_a_gap_is_filled_first() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        let log = AuditLog::open(&path).unwrap().with_max_bytes(1);
        for number in 0..12 {
            log.append(&record(&format!("/{number}"))).unwrap();
        }
        log.sync().unwrap();
        assert!(numbers(&path).into_iter().all(|there| there));
        let text = |file: PathBuf| lines(&file)[0].as_ref().unwrap()["object"].as_str().unwrap().to_owned();
        assert_eq!(names(&path).map(text).collect::<Vec<_>>(), (3..12).map(|n| format!("/{n}")).collect::<Vec<_>>());
        assert_eq!(names(&path).next().unwrap(), place.path().join("audit.jsonl.8"));
        fs::remove_file(place.path().join("audit.jsonl.3")).unwrap();
        log.append(&record("/12")).unwrap();
        assert_eq!(objects(&path).len(), 9, "nothing had to go");
        assert_eq!(text(place.path().join("audit.jsonl.8")), "/3");
    }

    #[test]
    fn a_writer_that_slept_through_the_renaming_goes_on_in_the_current_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        let sleeper = AuditLog::open(&path).unwrap();
        sleeper.append(&record("/early")).unwrap();
        let busy = AuditLog::open(&path).unwrap().with_max_bytes(1);
        for number in 0..20 {
            busy.append(&record(&format!("/{number}"))).unwrap();
        }
        sleeper.append(&record("/late")).unwrap();
        sleeper.sync().unwrap();
        assert_eq!(lines(&path).last().unwrap().as_ref().unwrap()["object"], "/late");
        // And where the file is gone altogether.
        fs::remove_file(&path).unwrap();
        sleeper.append(&record("/anew")).unwrap();
        assert_eq!(lines(&path).len(), 1);
    }

    #[test]
    fn a_log_that_cannot_be_renamed_grows() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        let log = AuditLog::open(&path).unwrap().with_max_bytes(1);
        log.append(&record("/0")).unwrap();
        // A name in the way.
        for number in 1..=KEPT {
            fs::create_dir_all(place.path().join(format!("audit.jsonl.{number}/x"))).unwrap();
        }
        log.append(&record("/1")).unwrap();
        log.sync().unwrap();
        assert_eq!(lines(&path).len(), 2);
        for number in 1..=KEPT {
            fs::remove_dir_all(place.path().join(format!("audit.jsonl.{number}"))).unwrap();
        }
        // Somebody who holds the lock, whoever it is.
        let holder = File::open(&path).unwrap();
        flock(&holder, FlockOperation::LockShared).unwrap();
        log.append(&record("/2")).unwrap();
        assert_eq!(lines(&path).len(), 3);
        drop(holder);
        log.append(&record("/3")).unwrap();
        assert_eq!((lines(&path).len(), objects(&path).len()), (1, 4));
    }

    #[test]
    fn a_writer_without_the_right_to_the_name_keeps_the_file_that_it_has() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("audit.jsonl");
        let poor = AuditLog::open(&path).unwrap().with_max_bytes(1);
        let rich = AuditLog::open(&path).unwrap().with_max_bytes(1);
        assert_eq!(rustix::process::getuid().as_raw(), 0, "this test gives rights up and needs root");
        let append = |object: &str| {
            std::thread::scope(|scope| {
                let poorly = scope.spawn(|| {
                    // Of this thread alone, as gated-run has it after it has given up root.
                    nix::unistd::setfsuid(60777.into());
                    poor.append(&record(object)).and_then(|()| poor.sync())
                });
                poorly.join().unwrap()
            })
        };
        append("/0").unwrap();
        append("/1").unwrap();
        assert_eq!(lines(&path).len(), 2);
        rich.append(&record("/2")).unwrap();
        append("/3").unwrap();
        assert_eq!((lines(&path).len(), objects(&path).len()), (1, 4), "in the renamed file");
        for number in 0..20 {
            rich.append(&record(&format!("/rich/{number}"))).unwrap();
        }
        assert!(matches!(append("/lost"), Err(AuditError::Write(_))), "a file without a name is no log");
    }
}
