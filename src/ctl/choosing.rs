//! Which profile a session gets where the command line names none, or says which: what of this process decides that, and
//! the whole of it for `gated-run --embedded`, which reads the files itself. Runs as the caller; embedded as root, that reads
//! the ceiling with its own rights and profiles with the caller's.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::caller::{Caller, CallerError};
use super::order::Directory;
use super::ownprofiles::{self, OwnProfileError};
use crate::common::path::RawPath;
use crate::common::text;
use crate::daemon::caller::unit_of;
use crate::daemon::policyfiles::Snapshot;
use crate::policy::load::{self, FOLDERS, USER_FOLDER};
use crate::policy::select::{self, Circumstances, SelectError};
use crate::policy::{Ceiling, Context, PolicyError, Profile, ProfileSelector, ceiling};
use crate::tool::command::{candidates, search_path};
use crate::tool::privileges::{PrivilegeError, with_file_rights_of};

/// No profile. One line for stderr.
#[derive(Debug, thiserror::Error)]
pub enum ChoosingError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Ambiguous(#[from] SelectError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    Caller(#[from] CallerError),
    #[error(
        "{0} is a profile of your own, which the administrator's ceiling.toml does not let sessions have: \
         may_write_profiles = false"
    )]
    OwnProfile(String),
    #[error(
        "to learn is to write a profile of one's own, which the administrator's ceiling.toml does not let you do: \
         may_write_profiles = false"
    )]
    MayNotLearn,
}

/// Whether the machine's ceiling lets the caller learn a profile.
pub fn check_learning(caller: &Caller) -> Result<(), ChoosingError> {
    let machine = Snapshot::of_ceiling(Path::new("/"), nix::unistd::geteuid().as_raw())?;
    let may = caller.invoking.uid == 0 || machine.ceiling().may_write_profiles();
    if may { Ok(()) } else { Err(ChoosingError::MayNotLearn) }
}

/// The paths that a command's program goes by: where it is found, and with links followed.
pub fn program_of(command: &[Vec<u8>], environment: &[Vec<u8>], directory: &RawPath) -> Vec<RawPath> {
    let Some(program) = command.first() else { return Vec::new() };
    let found = candidates(program, search_path(environment)).into_iter().find_map(|path| {
        let path = directory.as_path().join(OsStr::from_bytes(&path));
        let canonical = fs::canonicalize(&path).ok().filter(|canonical| canonical.is_file())?;
        Some((path, canonical))
    });
    let Some((path, canonical)) = found else { return Vec::new() };
    // A name below directories that are links is that of the directories themselves.
    let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let called = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
    let mut paths: Vec<RawPath> = vec![RawPath::from(canonical)];
    paths.extend(called.map(RawPath::from).filter(|called| !paths.contains(called)));
    paths
}

/// Says on a terminal which profile was chosen, and by what.
pub fn announce(chosen: &str) {
    if io::stderr().is_terminal() {
        eprintln!("gated-run: {}", text::shown_within(chosen, 400));
    }
}

/// The profile of an embedded session under the machine's ceiling, and what is to be said of how it was chosen.
pub fn profile_for(
    caller: &Caller,
    named: Option<ProfileSelector>,
    program: Vec<RawPath>,
    directory: &Directory,
) -> Result<(Profile, Option<String>), ChoosingError> {
    let root = nix::unistd::geteuid().as_raw();
    let machine = Snapshot::of_ceiling(Path::new("/"), root)?;
    let groups = caller.groups()?;
    let context = Context { home: caller.home(), user: caller.tool.name.clone(), cwd: directory.path.clone() };
    let unit = fs::read("/proc/self/cgroup").ok().and_then(|cgroups| unit_of(&cgroups));
    let circumstances = Circumstances { program, unit, groups: groups.clone() };
    let files = Files {
        folder: context.home.as_path().join(USER_FOLDER),
        owner: caller.tool.uid,
        // Root could change the file that says so.
        has_own: caller.invoking.uid == 0 || machine.ceiling().may_write_profiles(),
    };
    let chosen = with_file_rights_of(&caller.invoking, || files.load(named, &context, &circumstances))?;
    let (mut profile, told) = chosen?;
    Ceiling::cover(machine.ceiling(), &mut profile, &context, &groups)?;
    Ok((profile, told))
}

/// The files of profiles, as a caller may read them.
struct Files {
    /// The user's own.
    folder: PathBuf,
    owner: u32,
    has_own: bool,
}

impl Files {
    fn load(
        &self,
        named: Option<ProfileSelector>,
        context: &Context,
        circumstances: &Circumstances,
    ) -> Result<(Profile, Option<String>), ChoosingError> {
        let read = |path: &Path| self.read(path);
        let selector = match named {
            Some(selector) => {
                self.check(&selector)?;
                return Ok((load::load(selector, context, &read)?, None));
            }
            None => select::select(&self.names()?, context, circumstances, &read)?,
        };
        let told = selector.told();
        Ok((load::load(ProfileSelector::Name(selector.name), context, &read)?, told))
    }

    /// Whether the user may have what was named.
    fn check(&self, selector: &ProfileSelector) -> Result<(), ChoosingError> {
        let is_own = match selector {
            _ if self.has_own => false,
            ProfileSelector::File(path) => {
                let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                !ceiling::FOLDERS.iter().any(|folder| path.starts_with(folder))
            }
            ProfileSelector::Name(name) => {
                let of_machine = FOLDERS.iter().any(|folder| Path::new(folder).join(format!("{name}.toml")).exists())
                    || load::BUILT_IN.iter().any(|(own, _)| own == name);
                !of_machine && self.folder.join(format!("{name}.toml")).exists()
            }
        };
        match (is_own, selector) {
            (false, _) => Ok(()),
            (true, ProfileSelector::File(path)) => Err(ChoosingError::OwnProfile(path.display().to_string())),
            (true, ProfileSelector::Name(name)) => Err(ChoosingError::OwnProfile(name.clone())),
        }
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        if !path.starts_with(&self.folder) {
            return fs::read_to_string(path);
        }
        if !self.has_own {
            return Err(io::ErrorKind::NotFound.into());
        }
        ownprofiles::read(path, self.owner).map_err(|error| match error {
            OwnProfileError::File { source, .. } => source,
            other => io::Error::new(io::ErrorKind::PermissionDenied, other.to_string()),
        })
    }

    /// The names of all profiles that there are.
    fn names(&self) -> Result<BTreeSet<String>, PolicyError> {
        let own = self.has_own.then(|| self.folder.clone());
        let mut names = BTreeSet::new();
        for folder in FOLDERS.iter().map(PathBuf::from).chain(own) {
            let failed = |source| PolicyError::Unreadable { file: folder.display().to_string(), source };
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            for entry in entries {
                let file = entry.map_err(failed)?.file_name();
                let name = file.to_str().and_then(|file| file.strip_suffix(".toml"));
                names.extend(name.filter(|name| load::is_profile_name(name)).map(str::to_owned));
            }
        }
        Ok(names)
    }
}
