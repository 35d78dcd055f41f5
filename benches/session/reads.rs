//! What it costs that some reads are held: opens of a marked, granted file, and programs that read much where nothing is marked,
//! beside regions that are.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::support::{Sandbox, Side};
use crate::table::{Line, Runs, Target};

const PROFILE: &str = r#"
schema = 1

[profile]
name = "reads"

[vars]
workspace = "@cwd"

[defaults]
write = "allow"

[[rule]]
id = "secrets"
access = ["read"]
path = ["~/.ssh/**", "~/.aws/**", "~/.gnupg/**", "~/.netrc", "**/.env", "**/.env.*"]
level = "ask"
"#;

const ROW: usize = 200;
const ROWS: usize = 60;
/// Of the tree that is searched: directories, and files in each.
const DIRECTORIES: usize = 200;
const FILES: usize = 100;
const ROUNDS: usize = 12;

/// With secrets beside a tree of 20,000 files, which is a repository.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.profile(PROFILE);
    sandbox.answers("[[answer]]\naccess = \"read\"\nobject = \"/**\"\nanswer = \"session\"\n");
    for name in [".ssh/id", ".aws/credentials", ".gnupg/key", ".netrc", "work/.env", "work/sub/.env"] {
        sandbox.file(&sandbox.home().join(name), "secret\n");
    }
    sandbox
}

/// The part that runs inside: opens of this file, row by row.
pub fn inside(file: &str) {
    let path = std::ffi::CString::new(file).expect("no NUL");
    for _ in 0..ROWS {
        let start = Instant::now();
        for _ in 0..ROW {
            // SAFETY: a live string; the descriptor is our own.
            unsafe {
                let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                assert!(fd >= 0, "{}", std::io::Error::last_os_error());
                libc::close(fd);
            }
        }
        println!("row {}", start.elapsed().as_secs_f64() * 1e6 / ROW as f64);
    }
}

/// The part that runs inside: this command, over and over.
pub fn inside_command(argv: &[String]) {
    let (program, args) = argv.split_first().expect("a command");
    for _ in 0..=ROUNDS {
        let start = Instant::now();
        let output = std::process::Command::new(program).args(args).output().expect("it runs");
        assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
        println!("row {}", start.elapsed().as_secs_f64() * 1000.0);
    }
}

fn figures(text: &str) -> Vec<f64> {
    text.lines().filter_map(|line| line.strip_prefix("row ")?.parse().ok()).skip(1).collect()
}

/// Both sides in turn, some times.
fn measure(sandbox: &Sandbox, part: &str, args: &[&str]) -> (Runs, Runs) {
    let (mut bare, mut gated) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        for (side, runs) in [(Side::Bare, &mut bare), (Side::Gated, &mut gated)] {
            let outcome = sandbox.on(side, &sandbox.inside(part, args));
            outcome.assert_code(0);
            runs.extend(figures(&outcome.out()));
        }
    }
    (Runs::new(bare), Runs::new(gated))
}

fn fill(root: &Path) {
    for directory in 0..DIRECTORIES {
        let directory = root.join(format!("d{directory}"));
        fs::create_dir_all(&directory).expect("mkdir");
        for file in 0..FILES {
            fs::write(directory.join(format!("f{file}.txt")), "some words\nof no matter\n").expect("write");
        }
    }
}

pub fn lines() -> Vec<Line> {
    let sandbox = sandbox();
    let held = sandbox.home().join(".ssh/id").display().to_string();
    let free = sandbox.workspace().join("free");
    sandbox.file(&free, "free\n");
    let tree = sandbox.workspace().join("tree");
    fill(&tree);
    let git = |args: &[&str]| {
        let mut argv = vec!["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", tree.to_str().expect("UTF-8")];
        argv.extend(args);
        sandbox.bare(&argv).assert_code(0);
    };
    let status = std::process::Command::new("chown").arg("-R").arg("60777:60777").arg(&tree).status();
    assert!(status.expect("chown").success());
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "all"]);
    let (free, tree) = (free.display().to_string(), tree.display().to_string());
    let line =
        |name: &str, unit, (bare, gated), target| Line { name: name.to_owned(), unit, bare: Some(bare), gated, target };
    let ratio = |most: f64, (bare, gated): (Runs, Runs)| {
        let target = Target::MoreThanBare(bare.figure() * (most - 1.0));
        ((bare, gated), target)
    };
    let mut lines = vec![
        line("open of a held, granted file", "µs", measure(&sandbox, "open", &[&held]), Target::AtMost(12.0)),
        line("open of a file that is not held", "µs", measure(&sandbox, "open", &[&free]), Target::MoreThanBare(1.0)),
    ];
    let programs: [(&str, &[&str]); 3] = [
        ("grep -r over 20,000 files", &["grep", "-r", "nowhere", &tree]),
        ("git status of 20,000 files", &["git", "-C", &tree, "status", "--porcelain"]),
        ("start of a dynamic program", &["/usr/bin/grep", "--version"]),
    ];
    for (name, argv) in programs {
        let (runs, target) = ratio(1.05, measure(&sandbox, "command", argv));
        lines.push(line(name, "ms", runs, target));
    }
    // What of it is the price of the floor and the filter, with or without regions.
    sandbox.profile(crate::support::profiles::ALLOW_ALL);
    let (name, argv) = programs[0];
    lines.push(line(&format!("{name}, no regions"), "ms", measure(&sandbox, "command", argv), Target::None));
    lines
}
