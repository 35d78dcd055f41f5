//! Who called, and who the tool will be. Runs as the caller; from root it believes sudo's variables (which only root can have
//! set) as far as the user database agrees with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist};

use crate::common::path::RawPath;
use crate::common::wire::Identity;

/// Nobody to run the tool as.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    #[error("needs root to build the sandbox; the command itself runs as you. Try: sudo gated-run ...")]
    NotRoot,
    #[error("there is no user {0}")]
    NoSuchUser(String),
    #[error("sudo's variables and the user database disagree about the user {0}")]
    SudoDisagrees(String),
    #[error("only root may use --user; you are {0}")]
    NotForYou(String),
    #[error("cannot look up users and groups: {0}")]
    Lookup(#[from] nix::errno::Errno),
}

/// The person who called, and the user of the tool.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Whose rights count for files that the command line names.
    pub invoking: Identity,
    pub tool: Identity,
    /// The tool's login shell, for its environment.
    shell: Vec<u8>,
    by_sudo: bool,
}

impl Caller {
    /// From the process's own ids, sudo's variables in `environment`, and `--user`.
    pub fn find(environment: &Environment, wanted: Option<&str>) -> Result<Caller, CallerError> {
        // Those of anybody else are anybody's.
        let sudo_uid = environment.get(b"SUDO_UID").filter(|_| geteuid().is_root());
        let by_sudo = sudo_uid.is_some();
        let invoking = match sudo_uid {
            Some(uid) => sudo_user(&String::from_utf8_lossy(uid), environment)?,
            None => User::from_uid(geteuid())?.ok_or_else(|| CallerError::NoSuchUser(geteuid().to_string()))?,
        };
        let tool = match wanted {
            None => invoking.clone(),
            Some(name) => {
                let by_name = User::from_name(name)?;
                let by_number = name.parse().ok().map(Uid::from_raw).map(User::from_uid).transpose()?.flatten();
                by_name.or(by_number).ok_or_else(|| CallerError::NoSuchUser(name.escape_default().to_string()))?
            }
        };
        // Whoever may start gated-run by sudo has not thereby got the rights of everybody.
        if !invoking.uid.is_root() && tool.uid != invoking.uid {
            return Err(CallerError::NotForYou(invoking.name));
        }
        let shell = tool.shell.as_os_str().as_bytes().to_vec();
        Ok(Caller { invoking: identity(&invoking)?, tool: identity(&tool)?, shell, by_sudo })
    }

    /// Whether this process is root for another person, as whom it can do without root.
    pub fn is_root_for_another(&self) -> bool {
        geteuid().is_root() && self.invoking.uid != 0
    }

    /// The tool's user, where it is not the caller.
    pub fn other_user(&self) -> Option<&str> {
        (self.tool.uid != self.invoking.uid).then_some(self.tool.name.as_str())
    }

    /// The tool's home as it is, with links followed; one that does not exist as the user database has it.
    pub fn home(&self) -> RawPath {
        std::fs::canonicalize(self.tool.home.as_path()).map_or_else(|_| self.tool.home.clone(), RawPath::from)
    }

    /// The names of the groups of the tool's user. A group without a name is none that a file could mean.
    pub fn groups(&self) -> Result<BTreeSet<String>, CallerError> {
        let named = self.tool.groups.iter().filter_map(|gid| Group::from_gid(Gid::from_raw(*gid)).transpose());
        Ok(named.map(|group| group.map(|group| group.name)).collect::<Result<_, _>>()?)
    }

    /// Where the caller's ssh agent listens, if the tool is theirs: another user's tool has no business with it.
    pub fn ssh_agent(&self, own: &Environment) -> Option<RawPath> {
        let socket = own.get(b"SSH_AUTH_SOCK").filter(|_| self.other_user().is_none())?;
        crate::daemon::bus::path(socket.to_vec())
    }

    /// The tool's environment: the caller's, with the words that sudo or root's login made wrong put right.
    pub fn environment_for(&self, own: &Environment) -> Vec<Vec<u8>> {
        let mut variables = own.0.clone();
        if self.by_sudo {
            for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "SUDO_HOME"] {
                variables.remove(name.as_bytes());
            }
        }
        if self.tool.uid != geteuid().as_raw() {
            let name = self.tool.name.as_bytes();
            let home = self.tool.home.as_bytes();
            for (variable, value) in [("HOME", home), ("USER", name), ("LOGNAME", name), ("SHELL", &self.shell)] {
                variables.insert(variable.as_bytes().to_vec(), value.to_vec());
            }
            variables.remove(b"MAIL".as_slice());
        }
        variables.into_iter().map(|(name, value)| [name, value].join(&b'=')).collect()
    }
}

/// An environment by name.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<Vec<u8>, Vec<u8>>);

impl Environment {
    /// This process's own.
    pub fn own() -> Environment {
        Environment(std::env::vars_os().map(|(name, value)| (OsString::into_vec(name), value.into_vec())).collect())
    }

    /// `NAME=value` each.
    pub fn words(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|(name, value)| [name.as_slice(), value].join(&b'=')).collect()
    }

    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

fn sudo_user(uid: &str, environment: &Environment) -> Result<User, CallerError> {
    let disagrees = || CallerError::SudoDisagrees(uid.escape_default().to_string());
    let uid = uid.parse().map(Uid::from_raw).map_err(|_| disagrees())?;
    let user = User::from_uid(uid)?.ok_or_else(disagrees)?;
    let same_name = environment.get(b"SUDO_USER").is_none_or(|name| name == user.name.as_bytes());
    let same_group = environment.get(b"SUDO_GID").is_none_or(|gid| gid == user.gid.to_string().as_bytes());
    if same_name && same_group { Ok(user) } else { Err(disagrees()) }
}

fn identity(user: &User) -> Result<Identity, CallerError> {
    // A name of the user database has no NUL.
    let name = CString::new(user.name.as_bytes()).unwrap_or_default();
    let groups = getgrouplist(&name, user.gid)?;
    Ok(Identity {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.iter().map(|gid| gid.as_raw()).collect(),
        name: user.name.clone(),
        home: RawPath::from(user.dir.clone()),
    })
}
