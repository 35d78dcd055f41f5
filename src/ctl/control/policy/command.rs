//! A command line that nobody executes, as the supervisor would find it: the program by PATH, links resolved, and who may have
//! written it. Runs as the caller, in the caller's view of the files, which need not be a session's.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::common::exec::{Command, Program, Step};
use crate::common::path::RawPath;
use crate::common::text;
use crate::ctl::control::failure::Failure;
use crate::policy;

/// Bytes of a `#!` line, as the kernel reads them (execve(2)).
const SHEBANG: u64 = 256;
/// Interpreters of interpreters, as the kernel follows them.
const MOST_INTERPRETERS: usize = 4;

/// What executing `program` with this argv in `cwd` leads to. An empty argv is the program's own name. A program that is not
/// there is judged by its path.
pub fn command(program: &Path, argv: Vec<Vec<u8>>, variables: Vec<Vec<u8>>, cwd: &RawPath) -> Result<Command, Failure> {
    let found = find(program, cwd).ok_or_else(|| {
        let name = text::escaped(program.as_os_str().as_bytes());
        Failure::Usage(format!("PATH leads to no program `{name}`; give its path"))
    })?;
    let argv = if argv.is_empty() { vec![program.as_os_str().as_bytes().to_vec()] } else { argv };
    let asked = Step { program: of(&found), argv };
    let interpreters = interpreters(&asked);
    let last = interpreters.last().unwrap_or(&asked);
    let operand = policy::operand(last).map(|text| at(cwd, Path::new(std::ffi::OsStr::from_bytes(text))));
    let operand = operand.and_then(|path| fs::canonicalize(path).ok()).map(|path| of(&path));
    let mut variables = variables;
    variables.sort();
    Ok(Command { asked, interpreters, loader: None, operand, variables, cwd: cwd.clone(), version: None })
}

/// What a path leads to, links resolved: the `follow` of a policy.
pub fn follow(path: &RawPath) -> Option<RawPath> {
    fs::canonicalize(path.as_path()).ok().map(RawPath::from)
}

fn at(cwd: &RawPath, path: &Path) -> PathBuf {
    cwd.as_path().join(path)
}

fn find(program: &Path, cwd: &RawPath) -> Option<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        let path = at(cwd, program);
        return Some(fs::canonicalize(&path).unwrap_or(path));
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| at(cwd, &folder.join(program)));
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    places.find(is_program).and_then(|path| fs::canonicalize(path).ok())
}

fn of(path: &Path) -> Program {
    Program { path: RawPath::from(path), is_named: true, is_of_system: is_of_system(path) }
}

/// Whether the file and every directory above it are root's and writable for nobody else.
fn is_of_system(path: &Path) -> bool {
    path.ancestors().all(|path| {
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == 0 && found.permissions().mode() & 0o022 == 0)
    })
}

/// The interpreters of `#!` lines.
fn interpreters(asked: &Step) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < MOST_INTERPRETERS {
        let step = steps.last().unwrap_or(asked);
        let Some((interpreter, option)) = shebang(&step.program.path) else { break };
        let Ok(path) = fs::canonicalize(&interpreter) else { break };
        let mut argv = vec![interpreter.as_os_str().as_bytes().to_vec()];
        argv.extend(option);
        argv.push(step.program.path.as_bytes().to_vec());
        argv.extend(step.argv.iter().skip(1).cloned());
        steps.push(Step { program: of(&path), argv });
    }
    steps
}

fn shebang(path: &RawPath) -> Option<(PathBuf, Option<Vec<u8>>)> {
    let file = fs::File::open(path.as_path()).ok()?;
    // A fifo or a device is no script, and must not hold us up.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut line = Vec::new();
    BufReader::new(file.take(SHEBANG)).read_until(b'\n', &mut line).ok()?;
    let words = line.strip_prefix(b"#!")?.trim_ascii();
    let end = words.iter().position(u8::is_ascii_whitespace).unwrap_or(words.len());
    let (interpreter, option) = words.split_at_checked(end)?;
    let option = Some(option.trim_ascii().to_vec()).filter(|option| !option.is_empty());
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(interpreter));
    path.is_absolute().then_some((path, option))
}
