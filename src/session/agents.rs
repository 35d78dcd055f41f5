//! Whether a command is a coding agent or an interactive shell, whose children are calls of their own.
//!
//! Runs as the user in the supervisor, in the session's view, on a command line that may be the tool's. A wrong guess grants
//! less or as much as the person who started the command was told.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::common::path::RawPath;
use crate::common::wire::Start;
use crate::policy::Profile;
use crate::tool::command::{candidates, search_path};

/// Whether each process tree that the command starts is a call of its own.
pub fn has_calls_by_child(profile: &Profile, start: &Start) -> bool {
    let Some((program, arguments)) = start.command.split_first() else { return false };
    let found = candidates(program, search_path(&start.environment)).into_iter().find_map(|path| {
        let path = fs::canonicalize(start.cwd.as_path().join(OsStr::from_bytes(&path))).ok()?;
        path.is_file().then(|| RawPath::from(path))
    });
    let is_agent = found.is_some_and(|path| profile.match_program.iter().any(|one| one.matches(&path)));
    is_agent || (start.on_terminal.first() == Some(&true) && is_interactive_shell(program, arguments))
}

/// A shell by name, with nothing to run but what is typed (sh(1)).
fn is_interactive_shell(program: &[u8], arguments: &[Vec<u8>]) -> bool {
    let name = Path::new(OsStr::from_bytes(program)).file_name().map(OsStrExt::as_bytes);
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
