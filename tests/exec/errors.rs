//! An execve(2) that fails, fails as it does bare, and nobody is asked about it.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::call::{End, execve, execve_raw, execveat, fork_and, path, pointers, text};
use crate::support::{Sandbox, Side};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_failing_execve_gives_the_same_error_as_bare", same_errors),
    ("nobody_is_asked_about_what_cannot_be_executed", nobody_is_asked),
    ("a_program_that_cannot_be_read_is_refused", unreadable),
];

pub const INSIDE: &[Inside] = &[("errors", errors_inside), ("unreadable", unreadable_inside)];

fn sandbox(profile: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.profile(profile);
    sandbox
}

fn same_errors() {
    let [bare, gated] = [Side::Bare, Side::Gated].map(|side| {
        let sandbox = sandbox(crate::basics::NOTIFY);
        let outcome = sandbox.on(side, &sandbox.inside("errors", &["all"]));
        outcome.assert_code(0);
        outcome.out()
    });
    assert!(bare.lines().count() > 35, "the table is long:\n{bare}");
    assert_eq!(bare, gated);
}

fn nobody_is_asked() {
    let mut sandbox = sandbox(ASK);
    sandbox.answers("[[answer]]\naccess = \"exec\"\nobject = \"**/probe\"\nanswer = \"once\"\n");
    let outcome = sandbox.on(Side::Gated, &sandbox.inside("errors", &["failing"]));
    outcome.assert_code(0);
    for event in outcome.events_of("consent_required") {
        let object = event["object"].as_str().unwrap_or_default();
        outcome.assert(object.ends_with("/probe"), &format!("asked about {object}"));
    }
}

/// Every program is asked for.
pub const ASK: &str = r#"
schema = 1

[profile]
name = "asked"

[defaults]
write = "allow"
exec = "ask"
"#;

fn write(at: &Path, contents: &[u8], mode: u32) -> PathBuf {
    fs::write(at, contents).expect("write");
    fs::set_permissions(at, fs::Permissions::from_mode(mode)).expect("chmod");
    at.to_owned()
}

/// `/bin/true` with another name for its loader.
fn without_loader() -> Vec<u8> {
    let mut program = fs::read("/bin/true").expect("/bin/true");
    let at = program.windows(7).position(|window| window == b"/ld-lin").expect("a loader's name");
    program[at + 1] = b'X';
    program
}

fn errors_inside(args: &[String]) {
    let everything = args.first().is_some_and(|which| which == "all");
    let work = std::env::current_dir().expect("cwd");
    let at = |name: &str| work.join(name);
    let say = |name: &str, end: End| println!("{name}: {end:?}");
    let run = |name: &str, program: &Path| {
        let (program, argv) = (path(program), [text("x")]);
        say(name, fork_and(|| execve(&program, &argv, &[])));
    };
    let script = |name: &str, line: &str| write(&at(name), line.as_bytes(), 0o755);

    run("missing", &at("missing"));
    run("empty path", Path::new(""));
    fs::create_dir_all(at("directory")).expect("mkdir");
    run("a directory", &at("directory"));
    run("not executable", &write(&at("plain"), b"#!/bin/true\n", 0o644));
    run("no format", &write(&at("text"), b"hello\n", 0o755));
    run("empty", &write(&at("empty"), b"", 0o755));
    run("a cut program", &write(&at("cut"), b"\x7fELF\x02\x01\x01", 0o755));
    run("no loader", &write(&at("no-loader"), &without_loader(), 0o755));
    run("no interpreter", &script("no-interpreter", "#!/nowhere/sh\n"));
    run("an interpreter that is a directory", &script("interpreter-dir", "#!/usr\n"));
    run("an interpreter without the right", &script("interpreter-plain", "#!/etc/passwd\n"));
    run("an interpreter that is no program", &script("interpreter-text", &format!("#!{}\n", at("text").display())));
    run("an empty line", &script("empty-line", "#!\n"));
    run("a line that is too long", &script("long-line", &format!("#!/bin/{}\n", "t".repeat(300))));
    run("itself", &script("itself", &format!("#!{}\n", at("itself").display())));
    script("nested-0", "#!/bin/true\n");
    for depth in 1..8 {
        let line = format!("#!{}\n", at(&format!("nested-{}", depth - 1)).display());
        let program = script(&format!("nested-{depth}"), &line);
        if everything || depth >= 5 {
            run(&format!("nested {depth}"), &program);
        }
    }
    let _ = symlink("loop", at("loop"));
    run("a link to itself", &at("loop"));
    let _ = symlink("/bin/true", at("link"));
    run("below a file", &at("plain/true"));
    run("with a slash behind", &at("text/"));
    run("a long name", Path::new(&"n".repeat(300)));
    run("a long path", Path::new(&"n/".repeat(2500)));
    run("a device", Path::new("/dev/null"));
    // SAFETY: the path is live.
    unsafe { libc::mkfifo(path(&at("fifo")).as_ptr(), 0o755) };
    run("a fifo", &at("fifo"));
    {
        let busy = write(&at("busy"), &fs::read("/bin/true").expect("true"), 0o755);
        let file = fs::OpenOptions::new().write(true).open(&busy).expect("open for writing");
        if everything {
            run("open for writing", &busy);
        }
        drop(file);
    }

    let program = text("/bin/true");
    let words = [text("true")];
    let argv = pointers(&words);
    let (address, argv) = (program.as_ptr() as u64, argv.as_ptr() as u64);
    say("a bad path", fork_and(|| execve_raw(8, argv, 0)));
    say("no path", fork_and(|| execve_raw(0, argv, 0)));
    say("a bad argv", fork_and(|| execve_raw(address, 8, 0)));
    let bad_word = [8u64, 0];
    say("a bad word", fork_and(|| execve_raw(address, bad_word.as_ptr() as u64, 0)));
    if everything {
        say("a bad environment", fork_and(|| execve_raw(address, argv, 8)));
        say("a bad variable", fork_and(|| execve_raw(address, argv, bad_word.as_ptr() as u64)));
    }
    let long = |length: usize| CString::new(vec![b'a'; length]).expect("no NUL");
    say("a word that is too long", fork_and(|| execve(&program, &[text("x"), long(131_072)], &[])));
    if everything {
        say("a word that just fits", fork_and(|| execve(&program, &[text("x"), long(131_071)], &[])));
        let many: Vec<CString> = (0..30).map(|_| long(100_000)).collect();
        say("too many words", fork_and(|| execve(&program, &many, &[])));
        say("too many variables", fork_and(|| execve(&program, &[text("x")], &many)));
    }
    let more: Vec<CString> = (0..80).map(|_| long(100_000)).collect();
    say("far too many words", fork_and(|| execve(&program, &more, &[])));

    let x = [text("x")];
    let at_empty = libc::AT_EMPTY_PATH;
    say("execveat of no descriptor", fork_and(|| execveat(99, &text("true"), &x, &[], 0)));
    say("execveat with odd flags", fork_and(|| execveat(libc::AT_FDCWD, &program, &x, &[], 0x40)));
    let directory = fs::File::open(&work).expect("the workspace");
    say("execveat of a directory", fork_and(|| execveat(directory.as_raw_fd(), &text(""), &x, &[], at_empty)));
    say("execveat of nothing", fork_and(|| execveat(directory.as_raw_fd(), &text(""), &x, &[], 0)));
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    say("execveat of a link", fork_and(|| execveat(directory.as_raw_fd(), &text("link"), &x, &[], nofollow)));
    let file = fs::File::open(at("plain")).expect("a file");
    say("execveat below a file", fork_and(|| execveat(file.as_raw_fd(), &text("x"), &x, &[], 0)));
    let script = fs::File::open(script("script", "#!/bin/true\n")).expect("a script");
    say(
        "a script by a descriptor that closes",
        fork_and(|| execveat(script.as_raw_fd(), &text(""), &x, &[], at_empty)),
    );
}

fn unreadable() {
    for side in [Side::Bare, Side::Gated] {
        let sandbox = Sandbox::new();
        sandbox.profile(crate::basics::NOTIFY);
        let program = sandbox.root().join("bin/unreadable");
        fs::copy("/bin/true", &program).expect("copy");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).expect("chmod");
        let outcome = sandbox.on(side, &sandbox.inside("unreadable", &[&program]));
        outcome.assert_code(0);
        let said = if side == Side::Bare { "Exited(0)\n" } else { "Errno(13)\n" };
        outcome.assert(outcome.out() == said, "what came of it");
    }
}

fn unreadable_inside(args: &[String]) {
    let program = text(&args[0]);
    println!("{:?}", fork_and(|| execve(&program, &[text("x")], &[])));
}
