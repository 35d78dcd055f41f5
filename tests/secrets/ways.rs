//! Ways to a file's contents. Bare each leads there; inside, with nobody who says yes, none does.

use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::PathBuf;

use crate::judge::{self, ASKS, SECRET};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("no_way_of_opening_leads_to_a_secret_without_a_yes", none_leads_there),
    ("what_is_allowed_in_and_beside_regions_is_read_without_a_question", allowed_is_free),
    ("a_program_in_a_region_is_not_executed_without_a_yes", executed),
    ("a_program_that_is_judged_and_held_runs_after_both_answers", executed_after_two_answers),
];

pub const INSIDE: &[Inside] = &[("way", way), ("free", free)];

type Way = (&'static str, fn() -> std::io::Result<String>);

fn home() -> PathBuf {
    std::env::var_os("HOME").expect("HOME").into()
}

fn id() -> PathBuf {
    home().join(".ssh/id")
}

fn c(path: PathBuf) -> CString {
    CString::new(path.into_os_string().into_encoded_bytes()).expect("no NUL")
}

fn done(result: i64) -> std::io::Result<i32> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn opened(result: i64) -> std::io::Result<fs::File> {
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { fs::File::from_raw_fd(done(result)?) })
}

fn text(mut file: fs::File) -> std::io::Result<String> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

const WAYS: &[Way] = &[
    ("read", || fs::read_to_string(id())),
    ("deeper", || fs::read_to_string(home().join(".ssh/deep/er/id"))),
    ("single-file", || fs::read_to_string(home().join(".netrc"))),
    ("floating", || fs::read_to_string(".env")),
    ("floating-deeper", || fs::read_to_string("web/.env.local")),
    ("relative", || fs::read_to_string("../.ssh/../.ssh//./id")),
    ("cwd-inside", || {
        std::env::set_current_dir(home().join(".ssh/deep"))?;
        fs::read_to_string("../id")
    }),
    ("dirfd", || {
        // SAFETY: live strings.
        unsafe {
            let dir = opened(libc::open(c(home().join(".ssh")).as_ptr(), libc::O_PATH | libc::O_DIRECTORY).into())?;
            text(opened(libc::openat(dir.as_raw_fd(), c"id".as_ptr(), libc::O_RDONLY).into())?)
        }
    }),
    ("openat2", || {
        let how = [0u64, 0, 0];
        let path = c(id());
        // SAFETY: a live string and structure of the size that is given.
        text(opened(unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how.as_ptr(), 24) })?)
    }),
    ("openat2-in-root", || {
        let how = [0u64, 0, libc::RESOLVE_IN_ROOT];
        // SAFETY: as above.
        unsafe {
            let dir = opened(libc::open(c(home()).as_ptr(), libc::O_PATH | libc::O_DIRECTORY).into())?;
            let path = c"/.ssh/id".as_ptr();
            text(opened(libc::syscall(libc::SYS_openat2, dir.as_raw_fd(), path, how.as_ptr(), 24))?)
        }
    }),
    ("o-path-reopened", || {
        // SAFETY: a live string.
        let path = opened(unsafe { libc::open(c(id()).as_ptr(), libc::O_PATH) }.into())?;
        fs::read_to_string(format!("/proc/self/fd/{}", path.as_raw_fd()))
    }),
    ("o-path-reopened-by-dev-fd", || {
        // SAFETY: a live string.
        let path = opened(unsafe { libc::open(c(id()).as_ptr(), libc::O_PATH) }.into())?;
        fs::read_to_string(format!("/dev/fd/{}", path.as_raw_fd()))
    }),
    ("by-proc-cwd", || {
        std::env::set_current_dir(home().join(".ssh"))?;
        fs::read_to_string("/proc/self/cwd/id")
    }),
    ("by-proc-root", || fs::read_to_string(PathBuf::from(format!("/proc/self/root{}", id().display())))),
    ("read-write", || text(fs::OpenOptions::new().read(true).write(true).open(id())?)),
    ("read-write-creating", || {
        text(fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(id())?)
    }),
    ("read-creating", || {
        text(opened(unsafe { libc::open(c(id()).as_ptr(), libc::O_RDONLY | libc::O_CREAT, 0o600) }.into())?)
    }),
    ("read-write-by-o-path", || {
        // SAFETY: a live string.
        let path = opened(unsafe { libc::open(c(id()).as_ptr(), libc::O_PATH) }.into())?;
        text(fs::OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{}", path.as_raw_fd()))?)
    }),
    ("written-then-reopened", || {
        let file = fs::OpenOptions::new().append(true).open(id())?;
        fs::read_to_string(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }),
    ("symlink-made-inside", || {
        symlink(id(), "way-in")?;
        fs::read_to_string("way-in")
    }),
    ("symlink-in-the-middle", || {
        symlink(home().join(".ssh"), "way-in")?;
        fs::read_to_string("way-in/id")
    }),
    ("hard-link", || {
        match fs::hard_link(id(), "linked") {
            Ok(()) => fs::read_to_string("linked"),
            // To another mount it cannot be made, and this is what the tool sees.
            Err(error) => Err(error),
        }
    }),
    ("hard-link-of-a-single-file", || {
        fs::hard_link(home().join(".netrc"), home().join("plain/linked"))?;
        fs::read_to_string(home().join("plain/linked"))
    }),
    ("hard-link-of-a-floating-name", || {
        fs::hard_link(".env", "linked")?;
        fs::read_to_string("linked")
    }),
    ("renamed-away", || {
        fs::rename(id(), "renamed")?;
        fs::read_to_string("renamed")
    }),
    ("renamed-beside", || {
        fs::rename(home().join(".ssh"), home().join("plain/renamed"))?;
        fs::read_to_string(home().join("plain/renamed/id"))
    }),
    ("single-file-renamed-away", || {
        fs::rename(home().join(".netrc"), home().join("plain/renamed"))?;
        fs::read_to_string(home().join("plain/renamed"))
    }),
    ("floating-name-renamed-away", || {
        fs::rename(".env", "renamed")?;
        fs::read_to_string("renamed")
    }),
    ("directory-of-a-floating-name-renamed", || {
        fs::rename("web", "net")?;
        fs::rename("net/.env.local", "net/plain")?;
        fs::read_to_string("net/plain")
    }),
    ("exchanged", || {
        let (old, new) = (c(".env".into()), c("free".into()));
        // SAFETY: live strings.
        done(
            unsafe {
                libc::renameat2(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), libc::RENAME_EXCHANGE)
            }
            .into(),
        )?;
        fs::read_to_string("free")
    }),
    ("mapped", || {
        let file = fs::File::open(id())?;
        let length = SECRET.len();
        // SAFETY: a private mapping of an open file, read within its length.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            Ok(String::from_utf8_lossy(std::slice::from_raw_parts(at.cast(), length)).into_owned())
        }
    }),
    ("sendfile", || {
        let (from, to) = (fs::File::open(id())?, fs::File::create("copy")?);
        // SAFETY: two open descriptors.
        done(unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), std::ptr::null_mut(), 100) } as i64)?;
        fs::read_to_string("copy")
    }),
    ("copy-file-range", || {
        fs::copy(id(), "copy")?;
        fs::read_to_string("copy")
    }),
    ("splice", || {
        let from = fs::File::open(id())?;
        let mut ends = [0; 2];
        // SAFETY: two live integers, then open descriptors.
        unsafe {
            done(libc::pipe(ends.as_mut_ptr()).into())?;
            let none = std::ptr::null_mut();
            done(libc::splice(from.as_raw_fd(), none, ends[1], none, 100, 0) as i64)?;
            libc::close(ends[1]);
            text(fs::File::from_raw_fd(ends[0]))
        }
    }),
    ("listed", || {
        let names = fs::read_dir(home().join(".ssh"))?.flatten().map(|entry| entry.file_name());
        if names.into_iter().any(|name| name == "id") { Ok(SECRET.to_owned()) } else { Ok(String::new()) }
    }),
    ("in-a-child", || {
        let output = std::process::Command::new("sh").args(["-c", "cat ~/.ssh/id"]).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }),
    ("by-a-thread", || std::thread::spawn(|| fs::read_to_string(id())).join().expect("it ends")),
    ("no-follow-and-no-atime", || {
        text(fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(id())?)
    }),
    ("second-mount", || fs::read_to_string(home().join("alias/id"))),
    ("second-mount-of-what-is-around", || fs::read_to_string(home().join("around/.ssh/id"))),
    ("second-mount-of-what-is-below", || fs::read_to_string(home().join("below/er/id"))),
    ("where-a-link-leads", || fs::read_to_string(home().join("linked/key"))),
    ("where-a-link-leads-by-its-own-name", || fs::read_to_string(home().join("elsewhere/key"))),
    ("where-a-link-in-a-region-leads", || fs::read_to_string(home().join("elsewhere2/key"))),
];

fn way(args: &[String]) {
    let [name] = args else { panic!("WAY") };
    let (_, way) = WAYS.iter().find(|(known, _)| known == name).expect("a known way");
    match way() {
        Ok(text) => println!("got {text}"),
        Err(error) => println!("error {error}"),
    }
}

fn none_leads_there() {
    let mut failures = String::new();
    for (name, _) in WAYS {
        for side in [Side::Bare, Side::Gated] {
            let mut sandbox = judge::sandbox(ASKS);
            judge::with_odd_places(&mut sandbox);
            judge::answering_reads_with_no(&mut sandbox);
            let outcome = sandbox.on(side, &sandbox.inside("way", &[*name]));
            let got = outcome.out().contains(&format!("got {SECRET}"));
            let ran = outcome.out().contains("ran way");
            if got != (side == Side::Bare) || !ran {
                failures += &format!("{name}:\n{outcome}");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn allowed_is_free() {
    let sandbox = judge::sandbox(ASKS);
    let outcome = sandbox.run(&sandbox.inside::<&str>("free", &[]));
    outcome.assert(outcome.number("read") == 6, "all of them were read");
    outcome.assert(outcome.events_of("consent_required").count() == 0, "nothing was asked for");
    outcome.assert(!outcome.audit.iter().any(|line| line["access"] == "read"), "nothing was recorded");
}

fn free(_: &[String]) {
    let names = [".ssh/known_hosts", ".ssh/public/key", "work/free", "plain/file", "work/.env.example", "work/free"];
    println!("read {}", names.iter().filter(|name| fs::read(home().join(name)).is_ok()).count());
}

fn executed() {
    for side in [Side::Bare, Side::Gated] {
        let mut sandbox = judge::sandbox(ASKS);
        judge::answering(&mut sandbox, "deny");
        let program = sandbox.home().join(".ssh/program");
        sandbox.file(&program, "#!/bin/sh\necho executed\n");
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        let outcome = sandbox.on(side, &["sh".as_ref(), "-c".as_ref(), program.as_os_str()]);
        outcome.assert(outcome.out().contains("executed") == (side == Side::Bare), "whether it was executed");
    }
}

fn executed_after_two_answers() {
    let rules = format!(
        "{ASKS}\n[[rule]]\nid = \"programs\"\naccess = [\"exec\"]\nprogram = [\"~/.ssh/true\"]\nlevel = \"ask\"\n"
    );
    for (read, code) in [("once", 0), ("deny", 126)] {
        let mut sandbox = judge::sandbox(&rules);
        sandbox.answers(&format!(
            "[[answer]]\naccess = \"read\"\nobject = \"/**\"\nanswer = \"{read}\"\nafter = \"300ms\"\n\n[[answer]]\naccess = \"exec\"\nobject = \"/**\"\nanswer = \"once\"\n"
        ));
        let program = sandbox.home().join(".ssh/true");
        sandbox.file(&program, "");
        fs::copy("/bin/true", &program).expect("copied");
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        let outcome = sandbox.run(&["sh".as_ref(), "-c".as_ref(), "\"$0\"; exit $?".as_ref(), program.as_os_str()]);
        outcome.assert_code(code);
        let asked: Vec<_> = outcome.events_of("consent_required").map(|event| event["access"].to_string()).collect();
        outcome.assert(asked == ["\"exec\"", "\"read\""], "first whether to run it, then whether to read it");
    }
}
