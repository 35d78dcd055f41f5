//! A tree as text that two runs can be compared by. Runs in the test process, as root, so that no mode hides anything.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Set times of programs lie before this (2017); later ones are of the run itself and only that is said.
const SET_BEFORE: i64 = 1_500_000_000;

/// Contents beyond this are only counted.
const MOST_CONTENT: u64 = 512;

/// One line for each object below `dir`, in order of its path. `dir` in symbolic links is written `{W}`.
pub fn of(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen = BTreeMap::new();
    visit(dir, dir, &mut seen, &mut lines);
    lines
}

/// `seen` maps device and inode to the first path with it.
fn visit(dir: &Path, path: &Path, seen: &mut BTreeMap<(u64, u64), String>, lines: &mut Vec<String>) {
    let name = path.strip_prefix(dir).unwrap_or(path).as_os_str().as_bytes().escape_ascii().to_string();
    let Ok(meta) = fs::symlink_metadata(path) else {
        lines.push(format!("{name}: gone"));
        return;
    };
    let time =
        |seconds: i64, nanos: i64| if seconds < SET_BEFORE { format!("{seconds}.{nanos:09}") } else { "now".into() };
    let mut line = format!("{name}: {:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
    line += &format!(" m={} a={}", time(meta.mtime(), meta.mtime_nsec()), time(meta.atime(), meta.atime_nsec()));
    if !meta.is_dir() {
        let first = seen.entry((meta.dev(), meta.ino())).or_insert_with(|| name.clone());
        line += &format!(" links={} first={first}", meta.nlink());
    }
    line += &xattrs(path);
    let kind = meta.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(path).map(|target| target.as_os_str().as_bytes().escape_ascii().to_string());
        line += &format!(" -> {}", target.unwrap_or_default().replace(&dir.display().to_string(), "{W}"));
    } else if kind.is_file() {
        line += &format!(" size={}", meta.len());
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(path) {
            line += &inode_flags(&file);
            let _ = file.take(MOST_CONTENT).read_to_end(&mut bytes);
        }
        line += &format!(" \"{}\"", bytes.escape_ascii());
    } else if kind.is_char_device() || kind.is_block_device() {
        line += &format!(" dev={:#x}", meta.rdev());
    }
    lines.push(line);
    if meta.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            visit(dir, &path.join(name), seen, lines);
        }
    }
}

/// The flags of FS_IOC_GETFLAGS that a user can set; nothing where the file system has none.
fn inode_flags(file: &File) -> String {
    const SETTABLE: libc::c_long = 0xff;
    let mut flags: libc::c_long = 0;
    // SAFETY: ioctl_iflags(2) writes at most one long.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS as _, &mut flags) };
    if result == 0 && flags & SETTABLE != 0 { format!(" flags={:#x}", flags & SETTABLE) } else { String::new() }
}

fn xattrs(path: &Path) -> String {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return String::new() };
    let mut names = vec![0u8; 8192];
    // SAFETY: live strings and buffers of the lengths given.
    let count = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(count.max(0) as usize);
    let mut all: Vec<String> = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(text) = CString::new(name) else { continue };
        let mut value = vec![0u8; 8192];
        // SAFETY: as above.
        let size = unsafe { libc::lgetxattr(path.as_ptr(), text.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        value.truncate(size.clamp(0, 64) as usize);
        all.push(format!("{}={size}:{}", name.escape_ascii(), value.escape_ascii()));
    }
    all.sort();
    if all.is_empty() { String::new() } else { format!(" [{}]", all.join(" ")) }
}
