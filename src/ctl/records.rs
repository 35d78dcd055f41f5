//! What a session's broker needs from the outside: where records and events go, and who is asked. Opened as root at the
//! start, with the caller's own rights for everything that the caller names.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::arguments::{Consent, EventsTo};
use super::caller::Caller;
use super::relay::SharedScreen;
use super::start::{StartError, as_caller, supervisor_programs};
use crate::common::consent::ConsentAgent;
use crate::common::path::RawPath;
use crate::consent::none::Nobody;
use crate::consent::script::{Places, Script, ScriptError};
use crate::consent::terminal::{Own, Terminal, Timing};
use crate::daemon::audit::{Audit, AuditError, AuditLog, DEFAULT_PATH};
use crate::policy::Profile;
use crate::tool::descriptors::duplicate_inherited;
use crate::tool::privileges::{PrivilegeError, with_file_rights_of};

/// Records or consent cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    #[error("the audit log: {0}")]
    Audit(#[from] AuditError),
    #[error("--events fd:{0}: {1}")]
    EventsDescriptor(i32, io::Error),
    #[error("--consent tty: there is no terminal: {0}")]
    NoTerminal(io::Error),
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
}

/// The audit log: the system's as root, another as far as the caller may write it.
pub fn open_audit(caller: &Caller, path: &Path) -> Result<Arc<dyn Audit>, RecordsError> {
    let log = if path == Path::new(DEFAULT_PATH) {
        AuditLog::open(path)?
    } else {
        with_file_rights_of(&caller.invoking, || AuditLog::open(path))??
    };
    Ok(Arc::new(log))
}

/// The stream of events, if one is wanted. To be called before this process opens other files.
pub fn open_events(caller: &Caller, to: Option<&EventsTo>) -> Result<Option<File>, RecordsError> {
    match to {
        None => Ok(None),
        Some(EventsTo::Fd(number)) => match duplicate_inherited(*number) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(error) => Err(RecordsError::EventsDescriptor(*number, error)),
        },
        Some(EventsTo::File(path)) => {
            let open = |path: &Path| File::options().append(true).create(true).open(path);
            Ok(Some(as_caller(caller, "open", path, open)?))
        }
    }
}

/// Who is asked, as far as it needs root or the caller's rights.
pub enum Asked {
    Person(OwnedFd),
    Script(Script),
    Nobody,
}

/// Open whatever a consent agent needs.
pub fn open_consent(caller: &Caller, places: &Places, choice: &Consent) -> Result<Asked, RecordsError> {
    let tty = || {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat(CWD, "/dev/tty", flags, Mode::empty()).map_err(io::Error::from)
    };
    match choice {
        Consent::None => Ok(Asked::Nobody),
        Consent::Auto => Ok(tty().map_or(Asked::Nobody, Asked::Person)),
        Consent::Tty => tty().map(Asked::Person).map_err(RecordsError::NoTerminal),
        Consent::Script(path) => {
            let text = as_caller(caller, "read", path, |path| fs::read_to_string(path))?;
            let name = path.as_os_str().as_encoded_bytes().escape_ascii().to_string();
            Ok(Asked::Script(Script::parse(&name, &text, places)?))
        }
    }
}

impl Asked {
    /// Whether somebody reads the prompts, who must not be tired by them.
    pub fn is_a_person(&self) -> bool {
        matches!(self, Asked::Person(_))
    }

    /// The word by which a daemon knows it; `None` for nobody.
    pub fn kind(&self) -> Option<&'static str> {
        match self {
            Asked::Person(_) => Some("terminal"),
            Asked::Script(_) => Some("script"),
            Asked::Nobody => None,
        }
    }

    /// The consent agent; `own` is the command that this process was given. Needs a tokio runtime.
    pub fn into_agent(
        self,
        person: &str,
        term: &str,
        screen: SharedScreen,
        own: Own,
    ) -> io::Result<Box<dyn ConsentAgent>> {
        Ok(match self {
            Asked::Person(tty) => Box::new(Terminal::new(tty, term, person, screen, Timing::default())?.editing(own)),
            Asked::Script(script) => Box::new(script),
            Asked::Nobody => Box::new(Nobody),
        })
    }
}

/// Put gated's own files out of every rule's and every answer's reach.
pub fn protect_own_files<'a>(profile: &mut Profile, named: impl IntoIterator<Item = &'a Path>) {
    let own = std::env::current_exe().ok();
    let programs = own.iter().flat_map(|own| supervisor_programs(own)).chain(own.clone());
    for path in named.into_iter().map(Path::to_path_buf).chain(programs) {
        if let Ok(canonical) = fs::canonicalize(path) {
            profile.protect(RawPath::from(canonical));
        }
    }
}
