//! The policy files of the machine, read once and together. Runs in the daemon, as root, on files that only root may have
//! written, and on texts that a client sends as its user's own: the daemon opens no file of a user.
//!
//! Everything is read and checked before any of it counts, so that a broken file leaves the last good state in force.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use crate::common::path::RawPath;
use crate::policy::ceiling;
use crate::policy::load::{self, FOLDERS, MAX_FILE, USER_FOLDER};
use crate::policy::select::{Choice, Circumstances, SelectError, select};
use crate::policy::{Ceiling, Context, PolicyError, Profile, ProfileSelector};

/// Files in the folders of the machine.
const MOST_FILES: usize = 1024;
/// A client's own files, each of at most [`MAX_FILE`] bytes.
pub const MOST_OWN_FILES: usize = 64;

/// The files of one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By the path under which they are looked up; an empty text masks.
    files: BTreeMap<PathBuf, String>,
    ceiling: Ceiling,
}

/// The profile files of a user's own, as a client has sent them.
#[derive(Debug, Default)]
struct OwnFiles<'a> {
    /// Of `~/.config/gated/profiles`, without `.toml`.
    named: BTreeMap<&'a str, &'a str>,
    /// That `--profile` named by path.
    paths: BTreeMap<&'a Path, &'a str>,
}

impl OwnFiles<'_> {
    fn new(files: &BTreeMap<String, String>) -> Result<OwnFiles<'_>, PolicyError> {
        if files.len() > MOST_OWN_FILES {
            let file = USER_FOLDER.to_owned();
            return Err(PolicyError::Unreadable { file, source: wrong(format!("more than {MOST_OWN_FILES} files")) });
        }
        let mut own = OwnFiles::default();
        for (key, text) in files {
            let shown = || key.escape_default().to_string();
            if text.len() > MAX_FILE {
                let source = wrong(format!("longer than {MAX_FILE} bytes"));
                return Err(PolicyError::Unreadable { file: shown(), source });
            }
            let path = Path::new(key);
            if load::is_profile_name(key) {
                own.named.insert(key, text);
            } else if path.is_absolute() && !is_of_machine(path) {
                own.paths.insert(path, text);
            } else {
                return Err(PolicyError::BadName(shown()));
            }
        }
        Ok(own)
    }
}

/// Whether a path is, or with `..` could be, one of those that the machine's files are looked up by: no text of a user's may
/// pass for one, neither in a lookup nor in a record.
fn is_of_machine(path: &Path) -> bool {
    let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    !plain || ceiling::FOLDERS.iter().any(|folder| path.starts_with(folder))
}

impl Snapshot {
    /// Reads and checks everything below `root`, which is `/` but in tests. Files and folders must be `owner`'s, which is
    /// root but in tests, and writable for nobody else.
    pub fn read(root: &Path, owner: u32) -> Result<Snapshot, PolicyError> {
        Snapshot::read_with(root, owner, None)
    }

    /// The same as if one file had this text already.
    pub fn read_with(root: &Path, owner: u32, change: Option<(&Path, &str)>) -> Result<Snapshot, PolicyError> {
        let mut snapshot = Snapshot::default();
        snapshot.read_ceiling(root, owner)?;
        for folder in FOLDERS {
            if let Some(folder) = Folder::open(root, Path::new(folder), owner)? {
                folder.read_profiles(&mut snapshot.files)?;
            }
        }
        snapshot.files.extend(change.map(|(path, text)| (path.to_owned(), text.to_owned())));
        snapshot.ceiling = Ceiling::load(&|path| snapshot.find(path))?;
        snapshot.check()?;
        Ok(snapshot)
    }

    /// The ceiling alone, read as [`Snapshot::read`] does.
    pub fn of_ceiling(root: &Path, owner: u32) -> Result<Snapshot, PolicyError> {
        let mut snapshot = Snapshot::default();
        snapshot.read_ceiling(root, owner)?;
        snapshot.ceiling = Ceiling::load(&|path| snapshot.find(path))?;
        Ok(snapshot)
    }

    fn read_ceiling(&mut self, root: &Path, owner: u32) -> Result<(), PolicyError> {
        for folder in ceiling::FOLDERS {
            if let Some(folder) = Folder::open(root, Path::new(folder), owner)? {
                self.files.extend(folder.read(ceiling::FILE)?.map(|text| (folder.path.join(ceiling::FILE), text)));
            }
        }
        Ok(())
    }

    /// The limit on every session.
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// Whether the ceiling lets this user, a member of these groups, start sessions. Not to be asked about root, who may.
    pub fn may_run(&self, name: &str, groups: &BTreeSet<String>) -> bool {
        self.ceiling.may_run(name, groups)
    }

    /// A profile for a session, of the machine's files and the user's own, `own`, as a client has sent them: by profile
    /// name, or by the absolute path of a file that is none of the machine's. No file is opened.
    pub fn load(
        &self,
        selector: ProfileSelector,
        own: &BTreeMap<String, String>,
        context: &Context,
    ) -> Result<Profile, PolicyError> {
        let own = OwnFiles::new(own)?;
        load::load(selector, context, &|path| self.read_for(path, &own, context))
    }

    /// The name of the profile whose `match` fits, of the same files.
    pub fn select(
        &self,
        own: &BTreeMap<String, String>,
        context: &Context,
        circumstances: &Circumstances,
    ) -> Result<Choice, SelectError> {
        let own = OwnFiles::new(own)?;
        let names = self.names().into_iter().chain(own.named.keys().copied()).map(str::to_owned).collect();
        select(&names, context, circumstances, &|path| self.read_for(path, &own, context))
    }

    /// Whether the machine has a profile of this name, one that masks among them.
    pub fn has_profile(&self, name: &str) -> bool {
        self.names().contains(name) || load::BUILT_IN.iter().any(|(own, _)| *own == name)
    }

    fn names(&self) -> BTreeSet<&str> {
        let profiles = self.files.keys().filter(|path| path.file_name() != Some(ceiling::FILE.as_ref()));
        profiles.filter_map(|path| path.file_stem()?.to_str()).collect()
    }

    fn read_for(&self, path: &Path, own: &OwnFiles<'_>, context: &Context) -> io::Result<String> {
        let of_user = || {
            let name = path.strip_prefix(context.home.as_path().join(USER_FOLDER)).ok()?;
            own.named.get(name.to_str()?.strip_suffix(".toml")?)
        };
        match own.paths.get(path).or_else(of_user) {
            Some(&text) if !is_of_machine(path) => Ok(text.to_owned()),
            _ => self.find(path),
        }
    }

    fn find(&self, path: &Path) -> io::Result<String> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether every profile can be used, by somebody who stands in a project's directory.
    fn check(&self) -> Result<(), PolicyError> {
        let home = RawPath::from("/home/gated-check");
        let context = Context { cwd: home.join(b"project"), home, user: "gated-check".to_owned() };
        for name in self.names() {
            match self.load(ProfileSelector::Name(name.to_owned()), &BTreeMap::new(), &context) {
                Ok(_) | Err(PolicyError::Masked { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// An open folder of the machine's.
struct Folder {
    /// Without the root that it was opened below.
    path: PathBuf,
    directory: OwnedFd,
    owner: u32,
}

impl Folder {
    /// `None` if there is none.
    fn open(root: &Path, path: &Path, owner: u32) -> Result<Option<Folder>, PolicyError> {
        let failed = |source| PolicyError::Unreadable { file: path.to_string_lossy().into_owned(), source };
        let below = root.join(path.strip_prefix("/").unwrap_or(path));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match openat(CWD, below, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        let state = fstat(&directory).map_err(|errno| failed(errno.into()))?;
        check_owner(&state, owner).map_err(failed)?;
        Ok(Some(Folder { path: path.to_owned(), directory, owner }))
    }

    /// Reads every `NAME.toml`. What has another name is not looked for, and not read.
    fn read_profiles(&self, into: &mut BTreeMap<PathBuf, String>) -> Result<(), PolicyError> {
        let failed = |source| PolicyError::Unreadable { file: self.path.to_string_lossy().into_owned(), source };
        for entry in Dir::read_from(self.directory.as_fd()).map_err(|errno| failed(errno.into()))? {
            let entry = entry.map_err(|errno| failed(errno.into()))?;
            let Some(file) = entry.file_name().to_str().ok().filter(|file| is_profile_file(file)) else { continue };
            if into.len() >= MOST_FILES {
                return Err(failed(wrong(format!("more than {MOST_FILES} policy files"))));
            }
            match self.read(file)? {
                Some(text) => into.insert(self.path.join(file), text),
                None => return Err(failed(wrong(format!("{file} leads nowhere")))),
            };
        }
        Ok(())
    }

    /// The text of a file; `None` if there is none. The empty text of /dev/null masks like an empty file.
    fn read(&self, file: &str) -> Result<Option<String>, PolicyError> {
        let path = self.path.join(file);
        let failed = |source| PolicyError::Unreadable { file: path.to_string_lossy().into_owned(), source };
        // A fifo or a device must not hold the daemon.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match openat(&self.directory, file, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        let state = fstat(&opened).map_err(|errno| failed(errno.into()))?;
        if is_null(&state) {
            return Ok(Some(String::new()));
        }
        if !FileType::from_raw_mode(state.st_mode).is_file() {
            return Err(failed(wrong("not a regular file".to_owned())));
        }
        check_owner(&state, self.owner).map_err(failed)?;
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_FILE).unwrap_or(u64::MAX).saturating_add(1);
        File::from(opened).take(most).read_to_end(&mut bytes).map_err(failed)?;
        text(bytes).map(Some).map_err(failed)
    }
}

fn is_profile_file(file: &str) -> bool {
    file.strip_suffix(".toml").is_some_and(load::is_profile_name)
}

/// Whether this is /dev/null, null(4).
fn is_null(state: &Stat) -> bool {
    FileType::from_raw_mode(state.st_mode) == FileType::CharacterDevice
        && (rustix::fs::major(state.st_rdev), rustix::fs::minor(state.st_rdev)) == (1, 3)
}

/// Whether a file or folder is one of the owner's that nobody else may write.
pub(super) fn check_owner(state: &Stat, owner: u32) -> io::Result<()> {
    if state.st_uid != owner {
        return Err(wrong(format!("owned by user {}; {owner} was expected", state.st_uid)));
    }
    if state.st_mode & 0o022 != 0 {
        return Err(wrong(format!("others than its owner may write it (mode {:o})", state.st_mode & 0o7777)));
    }
    Ok(())
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    if bytes.len() > MAX_FILE {
        return Err(wrong(format!("longer than {MAX_FILE} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong("not UTF-8".to_owned()))
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A machine's folders with nothing in them, below a directory of the test's own.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join(&folder[1..])).unwrap();
        }
        root
    }

    fn put(root: &tempfile::TempDir, file: &str, text: &str) {
        let path = root.path().join(&file[1..]);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn read(root: &tempfile::TempDir) -> Result<Snapshot, String> {
        Snapshot::read(root.path(), rustix::process::getuid().as_raw()).map_err(|error| error.to_string())
    }

    fn named(name: &str, rest: &str) -> String {
        format!("schema = 1\n[profile]\nname = \"{name}\"\n{rest}")
    }

    fn context() -> Context {
        Context { home: "/home/alice".into(), user: "alice".into(), cwd: "/home/alice/project".into() }
    }

    fn own(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    fn load(snapshot: &Snapshot, name: &str, files: &[(&str, &str)]) -> Result<Profile, String> {
        let selector = match name.starts_with('/') {
            true => ProfileSelector::File(name.into()),
            false => ProfileSelector::Name(name.to_owned()),
        };
        snapshot.load(selector, &own(files), &context()).map_err(|error| error.to_string())
    }

    fn may_run(snapshot: &Snapshot, name: &str) -> bool {
        snapshot.may_run(name, &BTreeSet::new())
    }

    #[test]
    fn a_machine_without_files_has_what_is_built_in() {
        let snapshot = Snapshot::read(tempfile::tempdir().unwrap().path(), 0).unwrap();
        assert_eq!(load(&snapshot, "coder", &[]).unwrap().file, "built-in:coder");
        assert!(may_run(&snapshot, "alice"));
    }

    #[test]
    fn the_machines_files_come_before_the_users_own() {
        let root = machine();
        put(&root, "/usr/lib/gated/profiles/team.toml", &named("team", "description = \"low\""));
        put(&root, "/etc/gated/profiles/team.toml", &named("team", "extends = [\"coder\"]"));
        put(&root, "/etc/gated/profiles/README", "not a profile");
        put(&root, "/etc/gated/ceiling.toml", "schema = 1\n[users]\nmay_run = [\"alice\"]\n");
        let snapshot = read(&root).unwrap();
        assert!(may_run(&snapshot, "alice") && !may_run(&snapshot, "bob"));
        let mine = [("team", named("team", "description = \"mine\"")), ("mine", named("mine", "extends = [\"team\"]"))];
        let mine: Vec<(&str, &str)> = mine.iter().map(|(key, text)| (*key, text.as_str())).collect();
        assert_eq!(load(&snapshot, "team", &mine).unwrap().file, "/etc/gated/profiles/team.toml");
        let profile = load(&snapshot, "mine", &mine).unwrap();
        assert_eq!(profile.file, "/home/alice/.config/gated/profiles/mine.toml");
        assert!(!profile.rules.is_empty());
        // A file that the user named is taken as it is, and extends what everybody's does.
        let path = "/home/alice/own/team.toml";
        assert_eq!(load(&snapshot, path, &[(path, &named("team", ""))]).unwrap().file, path);
        assert!(load(&snapshot, path, &[]).unwrap_err().starts_with(path));
    }

    #[test]
    fn a_client_cannot_pass_its_text_for_a_file_of_the_machine() {
        let root = machine();
        put(&root, "/etc/gated/profiles/team.toml", &named("team", ""));
        let snapshot = read(&root).unwrap();
        for key in [
            "/etc/gated/profiles/team.toml",
            "/etc/gated/profiles/new.toml",
            "/home/../etc/gated/profiles/team.toml",
            "/usr/lib/gated/ceiling.toml",
            "built-in:base",
            "relative.toml/",
            "a\nb",
            "",
        ] {
            assert!(load(&snapshot, "team", &[(key, &named("team", ""))]).unwrap_err().contains("is no profile name"));
        }
        // Nor by a home that is where the machine's files are.
        let odd = Context { home: "/etc/gated/profiles".into(), ..context() };
        let own = own(&[("x", &named("x", ""))]);
        assert!(snapshot.load(ProfileSelector::Name("x".into()), &own, &odd).is_err());
    }

    #[test]
    fn what_a_client_sends_has_limits() {
        let snapshot = Snapshot::default();
        let long = load(&snapshot, "base", &[("long", &"x".repeat(MAX_FILE + 1))]).unwrap_err();
        assert_eq!(long, format!("long: longer than {MAX_FILE} bytes"));
        let many: BTreeMap<String, String> = (0..=MOST_OWN_FILES).map(|n| (format!("p{n}"), String::new())).collect();
        let many = snapshot.load(ProfileSelector::Name("base".into()), &many, &context()).unwrap_err();
        assert!(many.to_string().contains("more than 64 files"));
    }

    #[test]
    fn a_broken_profile_is_found_when_everything_is_read() {
        let root = machine();
        put(&root, "/etc/gated/profiles/team.toml", &named("team", "extends = [\"nosuch\"]"));
        assert!(
            read(&root).unwrap_err().starts_with("/etc/gated/profiles/team.toml:4:12: there is no profile `nosuch`")
        );
        put(&root, "/etc/gated/profiles/team.toml", &named("team", "colour = 1"));
        assert!(read(&root).unwrap_err().starts_with("/etc/gated/profiles/team.toml:4:1: unknown key"));
        // Not one that a higher file hides, nor one that is masked.
        put(&root, "/usr/lib/gated/profiles/team.toml", "broken");
        put(&root, "/etc/gated/profiles/team.toml", &named("team", ""));
        assert!(read(&root).is_ok());
        put(&root, "/etc/gated/profiles/team.toml", "");
        let masked = read(&root).unwrap();
        assert!(load(&masked, "team", &[("team", &named("team", ""))]).unwrap_err().contains("is masked"));
        put(&root, "/run/gated/ceiling.toml", "schema = 1\n[users]\nmay_run = 1");
        assert!(read(&root).unwrap_err().starts_with("/run/gated/ceiling.toml:3:11: "));
    }

    #[test]
    fn a_link_to_dev_null_masks() {
        let root = machine();
        put(&root, "/usr/lib/gated/profiles/team.toml", &named("team", ""));
        symlink("/dev/null", root.path().join("etc/gated/profiles/team.toml")).unwrap();
        put(&root, "/usr/lib/gated/ceiling.toml", "schema = 1\n[users]\nmay_run = []");
        symlink("/dev/null", root.path().join("etc/gated/ceiling.toml")).unwrap();
        let snapshot = read(&root).unwrap();
        assert!(load(&snapshot, "team", &[]).unwrap_err().contains("is masked"));
        assert!(may_run(&snapshot, "alice"));
    }

    #[test]
    fn what_others_could_have_written_is_refused_by_name() {
        let file = "etc/gated/profiles/team.toml";
        let wrong = |damage: &dyn Fn(&Path)| {
            let root = machine();
            put(&root, "/etc/gated/profiles/team.toml", &named("team", ""));
            damage(root.path());
            read(&root).unwrap_err()
        };
        let mode = |at: &'static str, mode| {
            wrong(&|root| fs::set_permissions(root.join(at), fs::Permissions::from_mode(mode)).unwrap())
        };
        for bits in [0o664, 0o646] {
            assert!(mode(file, bits).starts_with("/etc/gated/profiles/team.toml: others than its owner"));
        }
        assert!(mode("etc/gated/profiles", 0o777).starts_with("/etc/gated/profiles: others"));
        assert!(mode("etc/gated", 0o775).starts_with("/etc/gated: others"));
        let owner = rustix::process::getuid().as_raw();
        assert_eq!(owner, 0, "this test gives files away and needs root");
        let given = |at: &'static str| wrong(&|root| chown(root.join(at), Some(60777), None).unwrap());
        assert_eq!(given(file), "/etc/gated/profiles/team.toml: owned by user 60777; 0 was expected");
        assert!(given("usr/lib/gated").starts_with("/usr/lib/gated: owned by"));
        let other = |make: &dyn Fn(&Path)| {
            wrong(&|root| {
                fs::remove_file(root.join(file)).unwrap();
                make(&root.join(file));
            })
        };
        let fifo = other(&|path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap());
        assert_eq!(fifo, "/etc/gated/profiles/team.toml: not a regular file");
        assert!(other(&|path| symlink("/nonexistent", path).unwrap()).contains("team.toml leads nowhere"));
        assert!(other(&|path| symlink(path, path).unwrap()).starts_with("/etc/gated/profiles/team.toml: "));
        assert!(other(&|path| fs::create_dir(path).unwrap()).contains("not a regular file"));
    }
}
