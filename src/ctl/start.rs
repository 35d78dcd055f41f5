//! Everything between a command line and a running supervisor: whose session, with which policy, from where. Runs as root;
//! opens what the caller names with the caller's own rights.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::caller::{Caller, Environment};
use super::clientlink::{SessionLink, null};
use super::terminal::{CallersTerminal, standard_terminals};
use crate::common::id::SessionId;
use crate::common::path::RawPath;
use crate::common::wire::{self, Launch, ToSession};
use crate::policy::{self, Context, PolicyError, Profile, ProfileSelector};
use crate::tool::command::{candidates, search_path};
use crate::tool::floor::LOWEST_ABI;
use crate::tool::link::{self, Link, LinkError};
use crate::tool::mounts::identity_of;
use crate::tool::privileges::{PrivilegeError, with_file_rights_of};

/// No session; one line for stderr.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot {what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the current directory cannot be found: {0}")]
    NoDirectory(io::Error),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("cannot find gated-session: it is neither {} nor {}", beside.display(), installed.display())]
    NoSupervisor { beside: PathBuf, installed: PathBuf },
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
    #[error("the supervisor: {0}")]
    Link(#[from] LinkError),
    #[error(transparent)]
    NoRandomness(#[from] crate::common::id::NoRandomness),
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Step { what, source }
}

/// The directory that the caller stands in.
#[derive(Clone, Debug)]
pub struct Directory {
    pub path: RawPath,
    pub identity: (u64, u64),
}

impl Directory {
    pub fn current() -> Result<Directory, StartError> {
        let path = std::env::current_dir().map_err(StartError::NoDirectory)?;
        let identity = identity_of(Path::new(".")).map_err(StartError::NoDirectory)?;
        Ok(Directory { path: RawPath::from(path), identity })
    }
}

/// Open or read a file that the caller named, as far as the caller may.
pub fn as_caller<T>(
    caller: &Caller,
    what: &'static str,
    path: &Path,
    open: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<T, StartError> {
    with_file_rights_of(&caller.invoking, || open(path))?.map_err(|source| StartError::File {
        what,
        path: path.to_path_buf(),
        source,
    })
}

/// Load the profile with the caller's rights, for the tool's user.
pub fn load_profile(caller: &Caller, selector: ProfileSelector, directory: &Directory) -> Result<Profile, StartError> {
    let loaded = with_file_rights_of(&caller.invoking, || {
        // A home that does not exist stays as the user database has it.
        let home =
            fs::canonicalize(caller.tool.home.as_path()).map_or_else(|_| caller.tool.home.clone(), RawPath::from);
        let context = Context { home, user: caller.tool.name.clone(), cwd: directory.path.clone() };
        policy::load(selector, &context, &|path| fs::read_to_string(path))
    })?;
    Ok(loaded?)
}

/// What of this process a session takes over, besides the command and the policy.
#[derive(Clone, Copy, Debug)]
struct Inheritance {
    umask: u32,
    /// Bit 0 is signal 1.
    ignored_signals: u64,
}

impl Inheritance {
    /// From proc_pid_status(5).
    fn of_this_process() -> Result<Inheritance, StartError> {
        let status = fs::read_to_string("/proc/self/status").map_err(step("read /proc/self/status"))?;
        let field = |name: &str, radix| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(line.trim(), radix).ok()
        };
        let missing = || step("understand /proc/self/status")(io::ErrorKind::InvalidData.into());
        let umask = field("Umask:", 8).and_then(|mask| u32::try_from(mask).ok()).ok_or_else(missing)?;
        let ignored = field("SigIgn:", 16).ok_or_else(missing)?;
        // SIGPIPE is ignored by Rust's runtime, which does not tell what the caller had.
        let sigpipe = 1 << (libc::SIGPIPE - 1);
        Ok(Inheritance { umask, ignored_signals: ignored & !sigpipe })
    }
}

/// Signals that the caller ignores (nohup(1)), bit 0 is signal 1.
pub fn ignored_signals() -> Result<u64, StartError> {
    Inheritance::of_this_process().map(|inherited| inherited.ignored_signals)
}

/// A supervisor that was told what to do.
pub struct Started {
    pub session: SessionId,
    pub link: Arc<SessionLink>,
    pub supervisor: Child,
    pub terminal: Option<CallersTerminal>,
    /// Of stdin, stdout and stderr.
    pub on_terminal: [bool; 3],
}

/// Start a supervisor for this command. As root.
pub fn start(
    caller: &Caller,
    profile: &Profile,
    directory: &Directory,
    environment: &Environment,
    command: &[Vec<u8>],
) -> Result<Started, StartError> {
    let inherited = Inheritance::of_this_process()?;
    let environment = caller.environment_for(environment, profile);
    let on_terminal = standard_terminals();
    let terminal = CallersTerminal::find().map_err(step("open the terminal again"))?;
    let session = SessionId::random()?;
    let launch = Launch {
        version: wire::VERSION,
        session: session.clone(),
        user: caller.tool.clone(),
        profile: profile.encode(),
        network: profile.network,
        landlock_abi_min: LOWEST_ABI,
        command: command.to_vec(),
        calls_by_child: has_calls_by_child(profile, command, &environment, on_terminal),
        environment,
        cwd: directory.path.clone(),
        cwd_identity: directory.identity,
        umask: inherited.umask,
        on_terminal,
        window: terminal.as_ref().and_then(CallersTerminal::window),
        ignored_signals: inherited.ignored_signals,
        workspace: profile.workspace.clone().unwrap_or_else(|| directory.path.clone()),
    };
    let (ours, theirs) = link::pair().map_err(step("make a socket"))?;
    let supervisor = spawn(theirs)?;
    let link: SessionLink = Link::new(ours);
    let stand_in = null().map_err(step("open /dev/null"))?;
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    // The caller's terminal itself never enters the session.
    let stdio: Vec<BorrowedFd<'_>> = standard
        .into_iter()
        .zip(on_terminal)
        .map(|(fd, is_terminal)| if is_terminal { stand_in.as_fd() } else { fd })
        .collect();
    link.send(&ToSession::Launch(Box::new(launch)), &stdio)?;
    Ok(Started { session, link: Arc::new(link), supervisor, terminal, on_terminal })
}

/// Fork and execute gated-session: the one that was built or installed with this very program, whatever PATH or the
/// environment say.
fn spawn(socket: OwnedFd) -> Result<Child, StartError> {
    let own = std::env::current_exe().map_err(step("find this program"))?;
    let [beside, installed] = supervisor_programs(&own);
    let Some(program) = [&beside, &installed].into_iter().find(|path| path.is_file()) else {
        return Err(StartError::NoSupervisor { beside, installed });
    };
    Command::new(program)
        .env_clear()
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| StartError::File { what: "start", path: program.clone(), source })
}

/// Where gated-session is, by where this program is: built beside it, or installed with it.
pub fn supervisor_programs(own: &Path) -> [PathBuf; 2] {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    [folder.join("gated-session"), prefix.join("libexec/gated/gated-session")]
}

/// Whether the command is an agent or an interactive shell: each process tree that it starts is a call of its own.
fn has_calls_by_child(profile: &Profile, command: &[Vec<u8>], environment: &[Vec<u8>], on_terminal: [bool; 3]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let found = candidates(program, search_path(environment)).into_iter().find_map(|path| {
        let path = fs::canonicalize(PathBuf::from(std::ffi::OsString::from_vec(path))).ok()?;
        path.is_file().then(|| (RawPath::from(path.clone()), path))
    });
    let is_agent = found.as_ref().is_some_and(|(path, _)| profile.match_program.iter().any(|one| one.matches(path)));
    is_agent || (on_terminal.first() == Some(&true) && is_interactive_shell(program, arguments))
}

/// A shell by name, with nothing to run but what is typed (sh(1)).
fn is_interactive_shell(program: &[u8], arguments: &[Vec<u8>]) -> bool {
    let name = Path::new(std::ffi::OsStr::from_bytes(program)).file_name().map(OsStrExt::as_bytes);
    let is_shell = matches!(name, Some(b"sh" | b"bash" | b"dash" | b"zsh" | b"fish" | b"ksh"));
    let is_plain_option = |argument: &Vec<u8>| match argument.as_slice() {
        [b'-', b'-', ..] => argument != b"--command",
        [b'-', letters @ ..] => !letters.is_empty() && !letters.contains(&b'c'),
        _ => false,
    };
    is_shell && arguments.iter().all(is_plain_option)
}

#[cfg(test)]
mod tests {
    use super::is_interactive_shell;

    fn is_interactive(words: &[&str]) -> bool {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        words.split_first().is_some_and(|(program, arguments)| is_interactive_shell(program, arguments))
    }

    #[test]
    fn a_shell_is_interactive_without_operands_and_without_a_command() {
        assert!(
            is_interactive(&["bash"]) && is_interactive(&["/bin/zsh", "-l"]) && is_interactive(&["bash", "--norc"])
        );
        assert!(!is_interactive(&["bash", "-c", "true"]) && !is_interactive(&["sh", "-ec", "true"]));
        assert!(!is_interactive(&["bash", "script"]) && !is_interactive(&["cat"]) && !is_interactive(&["sh", "-"]));
    }
}
