//! Puts a policy file of the machine's in place: profiles and the ceiling below `/etc/gated`. Runs as root in the daemon, for
//! whom polkit lets edit policy; where a file goes is made of a fixed set of names, what is in it is checked with everything
//! else before it counts.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, fsync, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use tracing::info;

use super::core::Core;
use super::message;
use super::orders::{Caller, Refusal};
use super::policyfiles::{Snapshot, check_owner};
use crate::common::bus::action;
use crate::policy::load::{self, MAX_FILE};
use crate::policy::{PolicyError, ceiling};

/// Where the machine's policy is.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `/` but in tests.
    pub root: PathBuf,
    /// Whose the files have to be: root but in tests.
    pub owner: u32,
}

/// A file that can be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By its name.
    Profile(String),
    Ceiling,
}

impl Target {
    /// `None` for what is no name of one.
    pub fn new(kind: &str, name: &str) -> Option<Target> {
        match kind {
            "profile" => load::is_profile_name(name).then(|| Target::Profile(name.to_owned())),
            "ceiling" => name.is_empty().then_some(Target::Ceiling),
            _ => None,
        }
    }

    /// The path under which it is looked up.
    pub fn path(&self) -> PathBuf {
        match self {
            Target::Profile(name) => Path::new(load::FOLDERS[0]).join(format!("{name}.toml")),
            Target::Ceiling => Path::new(ceiling::FOLDERS[0]).join(ceiling::FILE),
        }
    }
}

impl Core {
    /// Replaces a file, if the machine's policy is good with it, and puts that in force. The path of the file.
    pub async fn install(&self, caller: &Caller, target: &Target, text: &str) -> Result<PathBuf, Refusal> {
        caller.outside()?;
        if !caller.has(action::EDIT_POLICY) {
            return Err(Refusal::Needs(action::EDIT_POLICY));
        }
        // An empty file would mask a profile, or lift every limit: who wants that removes the file.
        if text.is_empty() || text.len() > MAX_FILE {
            return Err(Refusal::Invalid("text"));
        }
        let (path, machine) = (target.path(), &self.setting.machine);
        Snapshot::read_with(&machine.root, machine.owner, Some((&path, text)))?;
        machine.replace(&path, text).map_err(|source| {
            let file = path.to_string_lossy().into_owned();
            PolicyError::Unreadable { file, source }
        })?;
        self.reread().await?;
        info!(
            MESSAGE_ID = message::POLICY_INSTALLED,
            GATED_UID = caller.uid,
            GATED_FILE = %path.display(),
            "a policy file was installed"
        );
        Ok(path)
    }
}

impl Machine {
    /// The old contents or the new ones, at any moment, also of a machine that loses its power.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = self.folder(folder)?;
        let new = format!(".{}.new", file.to_string_lossy());
        match unlinkat(&folder, new.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = openat(&folder, new.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let done = fill(written, text).and_then(|()| Ok(renameat(&folder, new.as_str(), &folder, file)?));
        if done.is_err() {
            let _left = unlinkat(&folder, new.as_str(), AtFlags::empty());
        }
        done?;
        Ok(fsync(&folder)?)
    }

    /// The folder, made if there is none; it must be one that the daemon would read.
    fn folder(&self, folder: &Path) -> io::Result<OwnedFd> {
        let below = self.root.join(folder.strip_prefix("/").unwrap_or(folder));
        let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        let is_new = match mkdirat(CWD, &below, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, &below, flags, Mode::empty())?;
        if is_new {
            fchmod(&opened, mode)?;
        }
        check_owner(&fstat(&opened)?, self.owner)?;
        Ok(opened)
    }
}

fn fill(file: OwnedFd, text: &str) -> io::Result<()> {
    let mut file = std::fs::File::from(file);
    file.write_all(text.as_bytes())?;
    // Readable for all, whatever the umask: so are profiles that come with packages.
    fchmod(&file, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn machine() -> (tempfile::TempDir, Machine) {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("etc/gated")).unwrap();
        let machine = Machine { root: place.path().to_owned(), owner: rustix::process::geteuid().as_raw() };
        (place, machine)
    }

    #[test]
    fn names_lead_nowhere_else() {
        assert_eq!(Target::new("profile", "team").unwrap().path(), Path::new("/etc/gated/profiles/team.toml"));
        assert_eq!(Target::new("ceiling", "").unwrap().path(), Path::new("/etc/gated/ceiling.toml"));
        for (kind, name) in [
            ("profile", "../ceiling"),
            ("profile", ""),
            ("profile", "a/b"),
            ("profile", ".hidden"),
            ("profile", "a\n"),
            ("ceiling", "x"),
            ("file", "/etc/passwd"),
        ] {
            assert_eq!(Target::new(kind, name), None, "{kind} {name}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_for_everybody_to_read() {
        let (place, machine) = machine();
        let path = place.path().join("etc/gated/profiles/team.toml");
        for text in ["one", "two"] {
            machine.replace(Path::new("/etc/gated/profiles/team.toml"), text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
        }
        // What stood for a mask is replaced, and not what it leads to.
        std::fs::remove_file(&path).unwrap();
        symlink("/dev/null", &path).unwrap();
        machine.replace(Path::new("/etc/gated/profiles/team.toml"), "three").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_folder_that_others_may_write_is_not_written() {
        let (place, machine) = machine();
        let folder = place.path().join("etc/gated/profiles");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o775)).unwrap();
        let refused = machine.replace(Path::new("/etc/gated/profiles/team.toml"), "x");
        assert!(refused.unwrap_err().to_string().contains("others than its owner"));
        std::fs::remove_dir(&folder).unwrap();
        symlink(place.path(), &folder).unwrap();
        assert!(machine.replace(Path::new("/etc/gated/profiles/team.toml"), "x").is_err());
    }
}
