//! Names that change without pause while a secret is read: five races of 5,000 rounds with two or three opens each, and not one
//! that is let through without consent.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::judge::{self, ASKS, SECRET};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_link_exchanged_between_a_free_file_and_a_secret", || race("link")),
    ("a_directory_exchanged_for_a_link_into_a_region", || race("directory")),
    ("a_secret_renamed_to_and_fro", || race("rename")),
    ("a_secret_exchanged_with_a_free_file", || race("exchange")),
    ("a_secret_made_and_read_by_two_threads", || race("make")),
];

pub const INSIDE: &[Inside] = &[("race", run)];

/// With a race that never hits.
const PATIENCE: Duration = Duration::from_secs(60);

fn home() -> PathBuf {
    std::env::var_os("HOME").expect("HOME").into()
}

fn race(how: &str) {
    for side in [Side::Bare, Side::Gated] {
        let mut sandbox = judge::sandbox(ASKS);
        sandbox.profile(&judge::profile(&ASKS.replace("level = \"ask\"", "level = \"deny\"")));
        judge::answering_reads_with_no(&mut sandbox);
        let outcome = sandbox.on(side, &sandbox.inside("race", &[how]));
        outcome.assert(outcome.out().contains("ran race"), "it came to its end");
        let secrets = outcome.number("secret");
        outcome.assert((secrets > 0) == (side == Side::Bare), "whether it was ever read");
        // What has once been at a guarded name stays guarded by it: the other file too, as soon as they were exchanged.
        let stays_free = how != "exchange" || side == Side::Bare;
        outcome.assert(!stays_free || outcome.number("free") > 0, "it was raced: the other file was read too");
        if side == Side::Gated {
            outcome.assert(outcome.number("refused") > 0, "it was raced: some were refused");
        }
    }
}

fn exchange(one: &str, other: &str) {
    let text = |name: &str| std::ffi::CString::new(name).expect("no NUL");
    let (one, other) = (text(one), text(other));
    // SAFETY: live strings.
    unsafe {
        libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE);
    }
}

fn run(args: &[String]) {
    let [how] = args else { panic!("HOW") };
    let link = |target: PathBuf, name: &str| std::os::unix::fs::symlink(target, name).expect("a link");
    fs::create_dir("d").expect("a directory");
    fs::write("d/id", "public\n").expect("a free file");
    link(home().join(".ssh/id"), "l1");
    link("free".into(), "l2");
    link(home().join(".ssh"), "l3");
    let stop = AtomicBool::new(false);
    let (mut secret, mut free, mut refused) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                match how.as_str() {
                    "link" => exchange("l1", "l2"),
                    "directory" => exchange("d", "l3"),
                    "rename" => {
                        let _ = fs::rename(".env", "other");
                        let _ = fs::rename("other", ".env");
                    }
                    "exchange" => exchange(".env", "free"),
                    _ => {
                        let _ = fs::write("web/.env.x", SECRET);
                        let _ = fs::remove_file("web/.env.x");
                    }
                }
            }
        });
        let began = Instant::now();
        let mut tries = 0;
        // Until it was raced at all, however few processors there are for two threads.
        let raced = |secret: u32, refused: u32| secret > 0 || refused > 0 || began.elapsed() > PATIENCE;
        while tries < 5_000 || began.elapsed() < Duration::from_millis(500) || !raced(secret, refused) {
            tries += 1;
            let names: &[&str] = match how.as_str() {
                "link" => &["l1", "l2"],
                "directory" => &["d/id"],
                "rename" => &["other", ".env", "free"],
                "exchange" => &["free", ".env"],
                _ => &["web/.env.x", "free"],
            };
            for name in names {
                match fs::read_to_string(name) {
                    Ok(text) if text.contains(SECRET) => secret += 1,
                    Ok(text) if text.starts_with("public") => free += 1,
                    Err(error) if error.raw_os_error() == Some(libc::EPERM) => refused += 1,
                    _ => {}
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("secret {secret}\nfree {free}\nrefused {refused}");
}
