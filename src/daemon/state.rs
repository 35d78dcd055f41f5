//! What of a session must survive the daemon: one file each in the runtime directory, read by root only. Runs as root; the
//! directory is the daemon's own, and nothing in it was written by anybody else.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::common::id::{SessionId, Token};
use crate::common::path::RawPath;
use crate::common::wire::Identity;

/// A session as a daemon that comes after this one must know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub session: SessionId,
    pub user: Identity,
    /// What its supervisor proves itself with when it comes back.
    pub token: Token,
    /// As `policy::model` encodes it.
    pub profile: Vec<u8>,
    pub directory: RawPath,
    /// Microseconds of CLOCK_REALTIME.
    pub started: u64,
    /// The systemd unit, where there is one.
    pub unit: Option<String>,
    /// The supervisor's pid and start time in clock ticks, where the daemon started it itself.
    pub process: Option<(i32, u64)>,
}

/// The directory with one file a session.
#[derive(Clone, Debug)]
pub struct Shelf {
    directory: PathBuf,
}

/// A file of the state cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct StateError {
    path: PathBuf,
    source: io::Error,
}

impl Shelf {
    /// Makes the directory, for root alone, if it is not there.
    pub fn open(directory: &Path) -> Result<Shelf, StateError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|source| StateError { path: directory.to_path_buf(), source })?;
        Ok(Shelf { directory: directory.to_path_buf() })
    }

    /// Whole or not at all: a daemon that dies here leaves the file before. The runtime directory is gone after a reboot,
    /// so nothing is synchronised to a disk.
    pub fn keep(&self, kept: &Kept) -> Result<(), StateError> {
        let path = self.path_of(&kept.session);
        let new = path.with_extension("new");
        let write = || -> io::Result<()> {
            let bytes = serde_json::to_vec(kept)?;
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&bytes)?;
            fs::rename(&new, &path)
        };
        write().map_err(|source| StateError { path: path.clone(), source })
    }

    pub fn forget(&self, session: &SessionId) -> Result<(), StateError> {
        let path = self.path_of(session);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StateError { path, source: error }),
            _ => Ok(()),
        }
    }

    /// All sessions that a daemon before this one kept, and what could not be read of them.
    pub fn all(&self) -> Result<(Vec<Kept>, Vec<StateError>), StateError> {
        let listed = |source| StateError { path: self.directory.clone(), source };
        let (mut kept, mut broken) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.directory).map_err(listed)? {
            let path = entry.map_err(listed)?.path();
            if path.extension().is_some() {
                continue;
            }
            let read = fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice::<Kept>(&bytes)?));
            match read {
                Ok(one) if self.path_of(&one.session) == path => kept.push(one),
                Ok(_) => broken.push(StateError { path, source: io::ErrorKind::InvalidData.into() }),
                Err(source) => broken.push(StateError { path, source }),
            }
        }
        Ok((kept, broken))
    }

    fn path_of(&self, session: &SessionId) -> PathBuf {
        self.directory.join(&session.0)
    }
}
