//! The system calls that are timed. Runs re-executed, as the test user, bare and in a session, in an empty directory of
//! the workspace and in one of scratch; says how long each took.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// Calls of one kind in a row; the mean of a row is one figure.
const ROW: usize = 40;
const ROWS: usize = 150;

/// One kind of call, in the order in which a row needs them.
pub struct Kind {
    pub name: &'static str,
    run: fn(&Row, usize) -> i64,
}

/// What the calls of a row act on.
struct Row {
    /// `f0`, `f1`, ... exist between the first and the last kind of a row; the others only between two kinds.
    files: Vec<CString>,
    absolute: Vec<CString>,
    links: Vec<CString>,
    others: Vec<CString>,
    directories: Vec<CString>,
    open: i32,
}

fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).expect("no NUL in names of ours")
}

fn names(prefix: &str) -> Vec<CString> {
    (0..ROW).map(|at| text(format!("{prefix}{at}"))).collect()
}

/// open(2) and close(2), of which only the first is ever held.
fn open_and_close(path: &CString, flags: i32) -> i64 {
    // SAFETY: a live string; the descriptor is our own.
    unsafe {
        let fd = libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o644);
        if fd < 0 { -1 } else { i64::from(libc::close(fd)) }
    }
}

const XATTR: *const libc::c_char = c"user.bench".as_ptr();

/// In the workspace.
// SAFETY of every call below: the strings and structures live as long as the row.
pub const IN_WORKSPACE: &[Kind] = &[
    Kind {
        name: "create a file",
        run: |row, at| open_and_close(&row.files[at], libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL),
    },
    Kind { name: "open for writing", run: |row, at| open_and_close(&row.files[at], libc::O_WRONLY) },
    Kind {
        name: "open for writing, O_CREAT|O_TRUNC",
        run: |row, at| open_and_close(&row.files[at], libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC),
    },
    Kind { name: "open for writing, absolute", run: |row, at| open_and_close(&row.absolute[at], libc::O_WRONLY) },
    Kind { name: "open for reading", run: |row, at| open_and_close(&row.files[at], libc::O_RDONLY) },
    Kind {
        name: "stat",
        run: |row, at| unsafe {
            let mut stat = std::mem::zeroed();
            i64::from(libc::stat(row.files[at].as_ptr(), &mut stat))
        },
    },
    Kind {
        name: "read",
        run: |row, _| unsafe {
            let mut buffer = [0_u8; 4096];
            libc::pread(row.open, buffer.as_mut_ptr().cast(), buffer.len(), 0) as i64
        },
    },
    Kind { name: "chmod", run: |row, at| unsafe { i64::from(libc::chmod(row.files[at].as_ptr(), 0o600)) } },
    Kind { name: "fchmod", run: |row, _| unsafe { i64::from(libc::fchmod(row.open, 0o600)) } },
    Kind {
        name: "utimensat",
        run: |row, at| unsafe {
            i64::from(libc::utimensat(libc::AT_FDCWD, row.files[at].as_ptr(), std::ptr::null(), 0))
        },
    },
    Kind {
        name: "setxattr",
        run: |row, at| unsafe { i64::from(libc::setxattr(row.files[at].as_ptr(), XATTR, c"v".as_ptr().cast(), 1, 0)) },
    },
    Kind { name: "removexattr", run: |row, at| unsafe { i64::from(libc::removexattr(row.files[at].as_ptr(), XATTR)) } },
    Kind { name: "truncate", run: |row, at| unsafe { i64::from(libc::truncate(row.files[at].as_ptr(), 0)) } },
    Kind {
        name: "symlink",
        run: |row, at| unsafe { i64::from(libc::symlink(row.files[at].as_ptr(), row.links[at].as_ptr())) },
    },
    Kind { name: "open for writing, through a link", run: |row, at| open_and_close(&row.links[at], libc::O_WRONLY) },
    Kind { name: "unlink", run: |row, at| unsafe { i64::from(libc::unlink(row.links[at].as_ptr())) } },
    Kind {
        name: "link",
        run: |row, at| unsafe { i64::from(libc::link(row.files[at].as_ptr(), row.links[at].as_ptr())) },
    },
    Kind {
        name: "rename",
        run: |row, at| unsafe { i64::from(libc::rename(row.links[at].as_ptr(), row.others[at].as_ptr())) },
    },
    Kind {
        name: "rename, over a file",
        run: |row, at| unsafe { i64::from(libc::rename(row.others[at].as_ptr(), row.files[at].as_ptr())) },
    },
    Kind { name: "mkdir", run: |row, at| unsafe { i64::from(libc::mkdir(row.directories[at].as_ptr(), 0o755)) } },
    Kind { name: "rmdir", run: |row, at| unsafe { i64::from(libc::rmdir(row.directories[at].as_ptr())) } },
];

/// In scratch.
pub const IN_SCRATCH: &[Kind] = &[
    Kind {
        name: "scratch: create a file",
        run: |row, at| open_and_close(&row.files[at], libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL),
    },
    Kind { name: "scratch: open for writing", run: |row, at| open_and_close(&row.files[at], libc::O_WRONLY) },
    Kind {
        name: "scratch: open for writing, absolute",
        run: |row, at| open_and_close(&row.absolute[at], libc::O_WRONLY),
    },
    Kind { name: "scratch: unlink", run: |row, at| unsafe { i64::from(libc::unlink(row.files[at].as_ptr())) } },
    Kind {
        name: "scratch: mkdir",
        run: |row, at| unsafe { i64::from(libc::mkdir(row.directories[at].as_ptr(), 0o755)) },
    },
    Kind { name: "scratch: rmdir", run: |row, at| unsafe { i64::from(libc::rmdir(row.directories[at].as_ptr())) } },
];

/// Times every kind in `directory`, which is made and left empty; one line `NAME: ns ns ...` each on stdout.
pub fn run(directory: &Path, kinds: &[Kind]) {
    std::fs::create_dir_all(directory).expect("a directory to work in");
    std::env::set_current_dir(directory).expect("chdir");
    let file = std::fs::File::create("open").expect("a file of our own");
    std::fs::write("open", [7; 4096]).expect("write");
    let row = Row {
        files: names("f"),
        absolute: (0..ROW).map(|at| text(directory.join(format!("f{at}")))).collect(),
        links: names("l"),
        others: names("o"),
        directories: names("d"),
        open: std::os::fd::IntoRawFd::into_raw_fd(std::fs::File::open("open").expect("open")),
    };
    drop(file);
    let mut figures: Vec<Vec<u128>> = kinds.iter().map(|_| Vec::new()).collect();
    // The first row warms up.
    for round in 0..=ROWS {
        for (kind, figures) in kinds.iter().zip(&mut figures) {
            let start = Instant::now();
            for at in 0..ROW {
                assert!((kind.run)(&row, at) >= 0, "{}: {}", kind.name, io::Error::last_os_error());
            }
            let mean = start.elapsed().as_nanos() / ROW as u128;
            if round > 0 {
                figures.push(mean);
            }
        }
        for file in std::fs::read_dir(".").expect("our own directory").flatten().map(|entry| entry.file_name()) {
            if file != "open" {
                std::fs::remove_file(file).expect("remove");
            }
        }
    }
    for (kind, figures) in kinds.iter().zip(figures) {
        let figures: Vec<String> = figures.iter().map(u128::to_string).collect();
        println!("{}: {}", kind.name, figures.join(" "));
    }
}
