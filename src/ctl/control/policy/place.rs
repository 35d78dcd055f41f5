//! For whom, where and on which machine's files the verbs of `gatedctl policy` work. Runs as the caller, with the caller's
//! rights; the daemon is not asked.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::common::path::RawPath;
use crate::ctl::control::failure::Failure;
use crate::policy::load::{BUILT_IN, FOLDERS, USER_FOLDER, is_profile_name};
use crate::policy::{Ceiling, Context, PolicyError, Profile, ProfileSelector, ceiling, load};

#[derive(Debug, Args)]
pub struct Place {
    /// Take the machine's policy from below this directory, as of an image
    #[arg(long, global = true, value_name = "DIRECTORY", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,

    /// For whoever has this home directory, instead of the caller
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub home: Option<PathBuf>,

    /// For a session that starts in this directory, instead of this one
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub cwd: Option<PathBuf>,
}

/// A file with a name that is looked for.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub name: String,
    /// As errors and rules call it: a path, or `built-in:NAME`.
    pub file: String,
    /// `None` for what is built in.
    pub path: Option<PathBuf>,
    pub text: Result<String, String>,
    pub is_users: bool,
}

/// A [`Place`] with everything found out.
pub struct Here {
    root: PathBuf,
    pub context: Context,
    pub uid: u32,
}

impl Place {
    pub fn here(&self) -> Result<Here, Failure> {
        let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        let me = me.ok_or_else(|| Failure::Nonsense("this user is in no database".to_owned()))?;
        let home = self.home.clone().unwrap_or(me.dir);
        // One that is not there yet is as good for what a policy says of it.
        let home = RawPath::from(fs::canonicalize(&home).unwrap_or(home));
        let cwd = match &self.cwd {
            Some(cwd) => fs::canonicalize(cwd).unwrap_or_else(|_| cwd.clone()),
            None => {
                env::current_dir().map_err(|source| Failure::File { what: "find", path: PathBuf::from("."), source })?
            }
        };
        let context = Context { home, user: me.name, cwd: RawPath::from(cwd) };
        Ok(Here { root: self.root.clone(), context, uid: me.uid.as_raw() })
    }
}

impl Here {
    /// The contents of a file by the path under which it is looked up.
    pub fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(self.real(path))
    }

    /// Where a file of the machine's really is.
    pub fn real(&self, path: &Path) -> PathBuf {
        let is_machines = ceiling::FOLDERS.iter().any(|folder| path.starts_with(folder));
        match path.strip_prefix("/") {
            Ok(below) if is_machines => self.root.join(below),
            _ => path.to_owned(),
        }
    }

    pub fn load(&self, selector: ProfileSelector) -> Result<Profile, PolicyError> {
        load(selector, &self.context, &|path| self.read(path))
    }

    /// The profile of a session, with the ceiling over it.
    pub fn in_force(&self, selector: ProfileSelector) -> Result<Profile, PolicyError> {
        let mut profile = self.load(selector)?;
        self.cover(&mut profile)?;
        Ok(profile)
    }

    pub fn cover(&self, profile: &mut Profile) -> Result<(), PolicyError> {
        let ceiling = Ceiling::load(&|path| self.read(path))?;
        ceiling.cover(profile, &self.context, &groups_of(&self.context.user))
    }

    pub fn user_folder(&self) -> PathBuf {
        self.context.home.as_path().join(USER_FOLDER)
    }

    /// Every file that may be a profile, of each name in the order in which they are looked for.
    pub fn candidates(&self) -> Vec<Candidate> {
        let user_folder = self.user_folder();
        let folders = FOLDERS.iter().map(|folder| (PathBuf::from(folder), false)).chain([(user_folder, true)]);
        let mut found = Vec::new();
        for (folder, is_users) in folders {
            for name in names_in(&self.real(&folder)) {
                let path = folder.join(format!("{name}.toml"));
                let text = self.read(&path).map_err(|error| error.to_string());
                let file = path.to_string_lossy().escape_default().to_string();
                found.push(Candidate { name, file, path: Some(path), text, is_users });
            }
        }
        for (name, text) in BUILT_IN {
            let (name, text) = (name.to_owned(), Ok(text.to_owned()));
            found.push(Candidate { file: format!("built-in:{name}"), name, path: None, text, is_users: false });
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// The ceiling's files, in the order in which they are looked for.
    pub fn ceilings(&self) -> Vec<(PathBuf, io::Result<String>)> {
        let paths = ceiling::FOLDERS.iter().map(|folder| Path::new(folder).join(ceiling::FILE));
        let each = paths.map(|path| {
            let text = self.read(&path);
            (path, text)
        });
        let is_there = |(_, text): &(PathBuf, io::Result<String>)| !matches!(text, Err(error) if error.kind() == io::ErrorKind::NotFound);
        each.filter(is_there).collect()
    }
}

/// The names of a user's groups.
fn groups_of(user: &str) -> BTreeSet<String> {
    let known = nix::unistd::User::from_name(user).ok().flatten();
    let numbers = known.and_then(|known| {
        let name = std::ffi::CString::new(known.name).ok()?;
        nix::unistd::getgrouplist(&name, known.gid).ok()
    });
    let name = |gid| Some(nix::unistd::Group::from_gid(gid).ok()??.name);
    numbers.into_iter().flatten().filter_map(name).collect()
}

/// The names of the profiles of a folder, sorted; none where it cannot be listed.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_owned());
    let mut names: Vec<String> = entries.filter_map(name).filter(|name| is_profile_name(name)).collect();
    names.sort();
    names
}
