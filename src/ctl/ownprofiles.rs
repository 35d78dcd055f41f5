//! A user's own profiles, for the daemon, which touches no files of users. Runs as the caller, or as root for a tool's user;
//! what a file says is checked by who loads it, here only that nobody but its owner can have written it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::common::path::RawPath;
use crate::policy::MAX_FILE;
use crate::policy::load::{USER_FOLDER, is_profile_name};

/// Files at the most.
const MOST: usize = 64;
/// Bytes of all of them at the most: they go to the daemon in one message.
const MOST_BYTES: usize = 4 << 20;

/// A profile of the user's own that cannot be used. It is an error even if another one was asked for: one that it extends, or
/// a built-in one, must not stand in for it.
#[derive(Debug, thiserror::Error)]
pub enum OwnProfileError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("{} belongs to another user than the one it is for", .0.display())]
    NotOwn(PathBuf),
    #[error("{} can be written by others than its owner: chmod go-w", .0.display())]
    WritableByOthers(PathBuf),
    #[error("{} is longer than {MAX_FILE} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("{} is not UTF-8", .0.display())]
    NotText(PathBuf),
    #[error("{} has more than {MOST} profiles, or more than {MOST_BYTES} bytes in them", .0.display())]
    TooMany(PathBuf),
}

/// The profiles of the user with this number and home, by name. None, if there is no folder for them.
pub fn own_profiles(home: &RawPath, uid: u32) -> Result<BTreeMap<String, String>, OwnProfileError> {
    let folder = home.as_path().join(USER_FOLDER);
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| OwnProfileError::File { path, source }
    };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(failed(&folder)(error)),
    };
    let mut profiles = BTreeMap::new();
    let mut bytes = 0usize;
    for entry in entries {
        let path = entry.map_err(failed(&folder))?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).filter(|name| is_profile_name(name));
        let (Some(name), true) = (name, path.extension().is_some_and(|extension| extension == "toml")) else {
            continue;
        };
        let text = read(&path, uid)?;
        bytes = bytes.saturating_add(text.len());
        profiles.insert(name.to_owned(), text);
        if profiles.len() > MOST || bytes > MOST_BYTES {
            return Err(OwnProfileError::TooMany(folder));
        }
    }
    Ok(profiles)
}

/// A profile that the command line names by its file, and its absolute path, by which the daemon calls it.
pub fn named_profile(path: &Path) -> Result<(String, String), OwnProfileError> {
    let failed = |source| OwnProfileError::File { path: path.to_path_buf(), source };
    let canonical = fs::canonicalize(path).map_err(failed)?;
    let name = canonical.to_str().ok_or_else(|| OwnProfileError::NotText(path.to_path_buf()))?.to_owned();
    let mut text = String::new();
    let mut file = fs::File::open(&canonical).map_err(failed)?.take(MAX_FILE as u64 + 1);
    file.read_to_string(&mut text).map_err(failed)?;
    if text.len() > MAX_FILE { Err(OwnProfileError::TooLong(path.to_path_buf())) } else { Ok((name, text)) }
}

/// What is looked at is what is read.
pub fn read(path: &Path, uid: u32) -> Result<String, OwnProfileError> {
    let here = || path.to_path_buf();
    let failed = |source| OwnProfileError::File { path: here(), source };
    // A fifo must not hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: OwnedFd = openat(CWD, path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let found = fstat(&file).map_err(|errno| failed(errno.into()))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(OwnProfileError::NotRegular(here()));
    }
    if found.st_uid != uid {
        return Err(OwnProfileError::NotOwn(here()));
    }
    if Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err(OwnProfileError::WritableByOthers(here()));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_FILE).unwrap_or(u64::MAX).saturating_add(1);
    fs::File::from(file).take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_FILE {
        return Err(OwnProfileError::TooLong(here()));
    }
    String::from_utf8(bytes).map_err(|_| OwnProfileError::NotText(here()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn home() -> (tempfile::TempDir, PathBuf, RawPath) {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(USER_FOLDER);
        fs::create_dir_all(&folder).unwrap();
        let home = RawPath::from(place.path());
        (place, folder, home)
    }

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    #[test]
    fn the_profiles_of_the_folder_are_read_by_name() {
        let (_place, folder, home) = home();
        write(&folder.join("mine.toml"), "one");
        write(&folder.join("a.b-c.toml"), "two");
        // What is no profile: other names, an editor's leavings.
        for name in ["README", ".mine.toml.swp", ".#mine.toml", "mine.toml~", "a b.toml"] {
            write(&folder.join(name), "nothing");
        }
        // A link to a file that is the user's is as good as the file.
        symlink(folder.join("mine.toml"), folder.join("linked.toml")).unwrap();
        let found = own_profiles(&home, me()).unwrap();
        let expected = [("a.b-c", "two"), ("linked", "one"), ("mine", "one")];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        assert_eq!(own_profiles(&RawPath::from("/nonexistent"), me()).unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_file_that_another_may_have_written_is_an_error() {
        let (_place, folder, home) = home();
        let path = folder.join("mine.toml");
        write(&path, "one");
        assert!(matches!(own_profiles(&home, me() + 1), Err(OwnProfileError::NotOwn(_))));
        for mode in [0o664, 0o646] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(own_profiles(&home, me()), Err(OwnProfileError::WritableByOthers(_))), "{mode:o}");
        }
        fs::remove_file(&path).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        nix::unistd::mkfifo(name.as_c_str(), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(own_profiles(&home, me()), Err(OwnProfileError::NotRegular(_))));
        fs::remove_file(&path).unwrap();
        symlink("/nonexistent", &path).unwrap();
        assert!(matches!(own_profiles(&home, me()), Err(OwnProfileError::File { .. })));
    }

    #[test]
    fn a_file_that_is_too_long_or_no_text_is_an_error() {
        let (_place, folder, home) = home();
        let path = folder.join("mine.toml");
        write(&path, &"#".repeat(MAX_FILE + 1));
        assert!(matches!(own_profiles(&home, me()), Err(OwnProfileError::TooLong(_))));
        fs::write(&path, b"\xff").unwrap();
        assert!(matches!(own_profiles(&home, me()), Err(OwnProfileError::NotText(_))));
    }
}
