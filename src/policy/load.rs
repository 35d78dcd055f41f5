//! From a profile's name or file to a [`Profile`]: where files are looked up, and how they extend each other. Runs as
//! whoever starts a session; the files are read through a function that the caller gives, so that it decides with whose
//! rights a user's own files are opened.

use std::io;
use std::path::{Path, PathBuf};

use crate::common::path::RawPath;

pub use super::file::MAX_FILE;
use super::file::{File, Text};
use super::merge;
use super::model::Profile;

/// Folders with `NAME.toml`, the first wins; the user's own and the built-in profiles come after them.
pub const FOLDERS: [&str; 3] = ["/etc/gated/profiles", "/run/gated/profiles", "/usr/lib/gated/profiles"];

/// Files on the way from a profile to what it extends, itself counted, at the most.
const MOST_DEEP: usize = 16;

/// Below the home directory.
pub const USER_FOLDER: &str = ".config/gated/profiles";

/// What the place of a built-in profile begins with.
pub const BUILT_IN_FILE: &str = "built-in:";

/// The profiles that are compiled in.
pub const BUILT_IN: [(&str, &str); 7] = [
    ("base", include_str!("../../policies/base.toml")),
    ("build", include_str!("../../policies/build.toml")),
    ("coder", include_str!("../../policies/coder.toml")),
    ("readonly", include_str!("../../policies/readonly.toml")),
    ("review", include_str!("../../policies/review.toml")),
    ("service-base", include_str!("../../policies/service-base.toml")),
    ("strict", include_str!("../../policies/strict.toml")),
];

/// What `--profile` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileSelector {
    Name(String),
    File(PathBuf),
}

/// For whom and where a profile is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Canonical; what `~` stands for.
    pub home: RawPath,
    /// What `{user}` stands for.
    pub user: String,
    /// Canonical; what `@cwd` stands for.
    pub cwd: RawPath,
}

/// A profile that cannot be used. Every text is fit for one line on stderr.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Line and column from 1; the column counts characters.
    #[error("{file}:{line}:{column}: {message}")]
    Invalid { file: String, line: u32, column: u32, message: String },
    #[error("{file}: {source}")]
    Unreadable { file: String, source: io::Error },
    #[error("there is no profile `{name}`: it is in none of {searched}, and is not built in")]
    Unknown { name: String, searched: String },
    #[error("the profile `{name}` is masked: {file} is empty")]
    Masked { name: String, file: String },
    #[error(
        "`{0}` is no profile name: 1 to 64 letters, digits, `-`, `_` and `.` were expected, a letter or digit first"
    )]
    BadName(String),
}

pub(super) type Read<'a> = dyn Fn(&Path) -> io::Result<String> + 'a;

/// Loads a profile with everything that it extends. `read` gives a file's contents; a file that is not there is
/// [`io::ErrorKind::NotFound`], and any other error ends the loading: a lower file must not stand in for one that cannot
/// be read.
pub fn load(selector: ProfileSelector, context: &Context, read: &Read<'_>) -> Result<Profile, PolicyError> {
    merge::merge(&layers(&selector, context, read)?, context)
}

/// The files of a profile in the order in which they are laid over each other, itself last.
pub(super) fn layers(
    selector: &ProfileSelector,
    context: &Context,
    read: &Read<'_>,
) -> Result<Vec<(Text, File)>, PolicyError> {
    let (text, expected) = match selector {
        ProfileSelector::Name(name) => (lookup(name, context, read)?, Some(name.as_str())),
        ProfileSelector::File(path) => {
            let name = path.to_string_lossy().escape_default().to_string();
            let text = read(path).map_err(|source| PolicyError::Unreadable { file: name.clone(), source })?;
            (Text::new(name, text), None)
        }
    };
    let mut layers = Layers { context, read, done: Vec::new(), open: Vec::new() };
    layers.add(text, expected)?;
    Ok(layers.done)
}

/// 1 to 64 letters, digits, `-`, `_` and `.`, a letter or digit first.
pub fn is_profile_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    begins && name.len() <= 64 && name.bytes().all(plain)
}

/// The text of the profile with this name.
pub(super) fn lookup(name: &str, context: &Context, read: &Read<'_>) -> Result<Text, PolicyError> {
    if !is_profile_name(name) {
        return Err(PolicyError::BadName(name.escape_default().to_string()));
    }
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    folders.push(context.home.as_path().join(USER_FOLDER));
    for folder in &folders {
        let path = folder.join(format!("{name}.toml"));
        let file = path.to_string_lossy().escape_default().to_string();
        match read(&path) {
            Ok(text) if text.is_empty() => return Err(PolicyError::Masked { name: name.to_owned(), file }),
            Ok(text) => return Ok(Text::new(file, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(PolicyError::Unreadable { file, source }),
        }
    }
    match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        Some((_, text)) => Ok(Text::new(format!("{BUILT_IN_FILE}{name}"), (*text).to_owned())),
        None => {
            let searched: Vec<String> = folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
            Err(PolicyError::Unknown { name: name.to_owned(), searched: searched.join(", ") })
        }
    }
}

/// Files in the order in which they are laid over each other.
struct Layers<'a> {
    context: &'a Context,
    read: &'a Read<'a>,
    done: Vec<(Text, File)>,
    /// Names of the files on the way from the first one to here.
    open: Vec<String>,
}

impl Layers<'_> {
    /// Adds what a file extends, then the file; one that is there already is not added again.
    fn add(&mut self, text: Text, expected: Option<&str>) -> Result<(), PolicyError> {
        let file = File::parse(&text)?;
        let name = &file.profile.name;
        if expected.is_some_and(|expected| expected != name.get_ref()) {
            let expected = expected.unwrap_or_default();
            let message = format!("the profile calls itself `{}`, but was found as `{expected}`", name.get_ref());
            return Err(text.error_at(name, message));
        }
        self.open.push(text.name.clone());
        for base in &file.profile.extends {
            let below = lookup(base.get_ref(), self.context, self.read)
                .map_err(|error| text.error_at(base, error.to_string()))?;
            if self.open.contains(&below.name) {
                let message = format!("`{}` extends itself through this", base.get_ref());
                return Err(text.error_at(base, message));
            }
            if self.open.len() >= MOST_DEEP {
                let message = format!("`{}` would be extended through more than {MOST_DEEP} files", base.get_ref());
                return Err(text.error_at(base, message));
            }
            if !self.done.iter().any(|(known, _)| known.name == below.name) {
                self.add(below, Some(base.get_ref()))?;
            }
        }
        self.open.pop();
        self.done.push((text, file));
        Ok(())
    }
}
