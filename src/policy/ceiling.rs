//! The ceiling, an admin's limit that no profile and no user exceeds: `ceiling.toml`. Read by the daemon; pure. This version
//! holds who may start sessions, and refuses a file that says anything else, because nothing would hold it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::file::Text;
use super::load::PolicyError;

/// Where the file may be; the first one decides alone.
pub const FOLDERS: [&str; 3] = ["/etc/gated", "/run/gated", "/usr/lib/gated"];
pub const FILE: &str = "ceiling.toml";

/// Without a file, no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Names of users, and of groups behind an `@`; `None`: every local user.
    may_run: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "schema")]
    _schema: IgnoredAny,
    #[serde(default)]
    users: Users,
    // Known by name so that the error can say that it is this version's.
    floor: Option<Spanned<IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Users {
    may_run: Option<Vec<Spanned<String>>>,
    may_write_profiles: Option<Spanned<IgnoredAny>>,
    lifetimes: Option<Spanned<IgnoredAny>>,
    max_for: Option<Spanned<IgnoredAny>>,
}

impl Ceiling {
    /// Loads the file. `read` gives a file's contents; one that is not there is [`io::ErrorKind::NotFound`], and any other
    /// error ends the loading. An empty file stands for no limit, and hides those further down.
    pub fn load(read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Ceiling, PolicyError> {
        for path in FOLDERS.map(|folder| PathBuf::from(folder).join(FILE)) {
            let name = path.to_string_lossy().into_owned();
            match read(&path) {
                Ok(text) if text.is_empty() => break,
                Ok(text) => return Ceiling::parse(&Text { name, text }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(PolicyError::Unreadable { file: name, source }),
            }
        }
        Ok(Ceiling::default())
    }

    fn parse(text: &Text) -> Result<Ceiling, PolicyError> {
        let file: File = text.parse()?;
        let later = [
            ("[[floor]]", &file.floor),
            ("may_write_profiles", &file.users.may_write_profiles),
            ("lifetimes", &file.users.lifetimes),
            ("max_for", &file.users.max_for),
        ];
        for (name, value) in later {
            if let Some(value) = value {
                return Err(text.error_at(value, format!("`{name}` of a ceiling is not supported by this version")));
            }
        }
        for who in file.users.may_run.iter().flatten() {
            let name = who.get_ref().strip_prefix('@').unwrap_or(who.get_ref());
            if !is_account_name(name) {
                let message = format!("`{}` is neither a user's name nor `@` and a group's", who.get_ref());
                return Err(text.error_at(who, message));
            }
        }
        let plain = |names: Vec<Spanned<String>>| names.into_iter().map(Spanned::into_inner).collect();
        Ok(Ceiling { may_run: file.users.may_run.map(plain) })
    }

    /// Whether this user, a member of these groups, may start sessions. Not to be asked about root, who may: it could change
    /// the file.
    pub fn may_run(&self, name: &str, groups: &BTreeSet<String>) -> bool {
        let listed = |who: &String| match who.strip_prefix('@') {
            Some(group) => groups.contains(group),
            None => who == name,
        };
        self.may_run.as_ref().is_none_or(|names| names.iter().any(listed))
    }
}

/// Whether something can be the name of a user or group, a directory service's (`CORP\domain users`, `ci@corp`) included,
/// without anything that a reader could miss.
pub(super) fn is_account_name(name: &str) -> bool {
    let plain = |character: char| character.is_alphanumeric() || "-_.$+@\\ ".contains(character);
    let begins = name.starts_with(|first: char| first.is_alphanumeric() || first == '_');
    begins && name.len() <= 256 && !name.ends_with(' ') && name.chars().all(plain)
}
