//! Two processes that race: whichever wins, what a file system promises must hold. Bare it does, so inside it must, where
//! one supervisor performs what both ask for.
//!
//! In the test process: the trials. Inside, re-executed as the user: the races, which print `broken: ...` where a promise is.

use std::ffi::CString;

use libtest_mimic::{Failed, Trial};

use super::acts::{forked, pipe, waited};
use super::compare::Pair;
use crate::support::{Sandbox, Side, profiles};

/// Rounds of each race; two processes take a few calls in each.
const ROUNDS: usize = 150;

type Race = fn(usize) -> Result<(), String>;

const RACES: &[(&str, Race)] = &[
    ("exactly_one_exclusive_creator_wins", exclusive),
    ("exactly_one_directory_is_made", directory),
    ("a_reader_meets_the_old_or_the_new_file", replaced),
    ("no_appended_line_is_lost_or_cut", appended),
    ("exactly_one_removal_finds_the_name", removed),
    ("exactly_one_rename_finds_the_name", renamed),
    ("an_exchange_loses_neither_name", exchanged),
    ("exactly_one_link_gets_the_name", linked),
    ("a_removed_directory_is_empty", emptied),
    ("two_who_make_the_same_path_both_have_it", made_paths),
];

pub fn trials(pair: Pair) -> Vec<Trial> {
    let sides = if pair.side == Side::Bare { vec![Side::Bare] } else { vec![Side::Bare, Side::Gated] };
    let mut trials = Vec::new();
    for side in sides {
        let name = format!("races::{}", if side == Side::Bare { "bare" } else { "inside" });
        trials.push(Trial::test(name, move || run(side)));
    }
    trials
}

fn run(side: Side) -> Result<(), Failed> {
    let sandbox = Sandbox::new();
    sandbox.profile(profiles::ALLOW_ALL);
    let outcome = sandbox.on(side, &sandbox.inside("races", &[ROUNDS.to_string()]));
    outcome.assert_code(0);
    let held: Vec<String> = outcome.values("held");
    let expected: Vec<String> = RACES.iter().map(|(name, _)| (*name).to_owned()).collect();
    if held == expected { Ok(()) } else { Err(outcome.to_string().into()) }
}

pub fn inside(rounds: usize) {
    for (name, race) in RACES {
        std::fs::create_dir(name).expect("a directory for the race");
        std::env::set_current_dir(name).expect("it is there");
        match race(rounds) {
            Ok(()) => println!("held {name}"),
            Err(broken) => println!("broken: {name}: {broken}"),
        }
        std::env::set_current_dir("..").expect("it is there");
    }
}

fn name(base: &str, round: usize) -> CString {
    CString::new(format!("{base}{round}")).unwrap_or_default()
}

/// Two children do `each` for all rounds, each round at once; what each got in each round: 0, or an errno.
fn both(rounds: usize, each: impl Fn(usize, usize) -> i32) -> Result<[Vec<i32>; 2], String> {
    let mut readers = Vec::new();
    let meet = [pipe(), pipe()];
    let mut children = Vec::new();
    for who in 0..2 {
        let [read, write] = pipe();
        children.push(forked(|| {
            // SAFETY: our own descriptors and live buffers of the lengths given.
            unsafe {
                let mut byte = [0u8; 1];
                for round in 0..rounds {
                    // Each tells the other that it is there, and waits for the same.
                    libc::write(meet[1 - who][1], byte.as_ptr().cast(), 1);
                    libc::read(meet[who][0], byte.as_mut_ptr().cast(), 1);
                    let got = each(who, round).to_ne_bytes();
                    libc::write(write, got.as_ptr().cast(), 4);
                }
            }
            0
        }));
        // SAFETY: our own descriptor.
        unsafe { libc::close(write) };
        readers.push(read);
    }
    let mut results = [Vec::new(), Vec::new()];
    for (index, read) in readers.into_iter().enumerate() {
        results[index] = numbers(read);
    }
    for child in children {
        let end = waited(child, 0);
        if end != "exit 0" {
            return Err(format!("a child ended with {end}"));
        }
    }
    for fd in meet.into_iter().flatten() {
        // SAFETY: our own descriptor.
        unsafe { libc::close(fd) };
    }
    if results.iter().any(|results| results.len() != rounds) {
        return Err("a round is missing".into());
    }
    Ok(results)
}

fn numbers(fd: i32) -> Vec<i32> {
    use std::io::Read;
    use std::os::fd::FromRawFd;
    let mut bytes = Vec::new();
    // SAFETY: a descriptor that nobody else has.
    let _ = unsafe { std::fs::File::from_raw_fd(fd) }.read_to_end(&mut bytes);
    bytes.chunks_exact(4).map(|four| i32::from_ne_bytes([four[0], four[1], four[2], four[3]])).collect()
}

fn errno_of(result: i32) -> i32 {
    // SAFETY: errno of this thread.
    if result < 0 { unsafe { *libc::__errno_location() } } else { 0 }
}

/// In each round one of both has 0 and the other this errno.
fn one_wins(results: &[Vec<i32>; 2], errnos: &[i32]) -> Result<(), String> {
    for (round, (one, other)) in results[0].iter().zip(&results[1]).enumerate() {
        let good = (*one == 0 && errnos.contains(other)) || (*other == 0 && errnos.contains(one));
        if !good {
            return Err(format!("round {round}: {one} and {other}"));
        }
    }
    Ok(())
}

fn exclusive(rounds: usize) -> Result<(), String> {
    let results = both(rounds, |_, round| {
        // SAFETY: a live string.
        unsafe {
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
            let fd = libc::open(name("f", round).as_ptr(), flags, 0o600);
            let errno = errno_of(fd);
            libc::close(fd);
            errno
        }
    })?;
    one_wins(&results, &[libc::EEXIST])
}

fn directory(rounds: usize) -> Result<(), String> {
    // SAFETY: a live string.
    let results = both(rounds, |_, round| errno_of(unsafe { libc::mkdir(name("d", round).as_ptr(), 0o700) }))?;
    one_wins(&results, &[libc::EEXIST])
}

/// One replaces a file by rename as configurations are written, the other reads it.
fn replaced(rounds: usize) -> Result<(), String> {
    std::fs::write("config", [b'0'; 4000]).map_err(|error| error.to_string())?;
    let results = both(rounds, |who, round| {
        if who == 0 {
            let letter = b'0' + (round % 10) as u8;
            if std::fs::write("config.new", [letter; 4000]).is_err() {
                return 1;
            }
            // SAFETY: live strings.
            errno_of(unsafe { libc::rename(c"config.new".as_ptr(), c"config".as_ptr()) })
        } else {
            match std::fs::read("config") {
                Ok(bytes) if bytes.len() == 4000 && bytes.iter().all(|byte| Some(byte) == bytes.first()) => 0,
                Ok(_) => 2,
                Err(error) => error.raw_os_error().unwrap_or(3),
            }
        }
    })?;
    if results.iter().flatten().all(|result| *result == 0) { Ok(()) } else { Err(format!("{results:?}")) }
}

fn appended(rounds: usize) -> Result<(), String> {
    both(rounds, |who, round| {
        // SAFETY: live strings; opened anew for each line, as logs of short programs are.
        unsafe {
            let flags = libc::O_CREAT | libc::O_APPEND | libc::O_WRONLY;
            let fd = libc::open(c"log".as_ptr(), flags, 0o600);
            let line = format!("{who} {round:06}\n");
            let wrote = libc::write(fd, line.as_ptr().cast(), line.len());
            libc::close(fd);
            errno_of(wrote as i32)
        }
    })?;
    let text = std::fs::read_to_string("log").map_err(|error| error.to_string())?;
    for who in 0..2 {
        let mut lines = text.lines().filter(|line| line.starts_with(&format!("{who} ")));
        let in_order = (0..rounds).all(|round| lines.next() == Some(format!("{who} {round:06}").as_str()));
        if !in_order || lines.next().is_some() {
            return Err(format!("lines of {who} are lost, cut or out of order"));
        }
    }
    Ok(())
}

fn prepared(rounds: usize, base: &str) -> Result<(), String> {
    (0..rounds).try_for_each(|round| std::fs::write(format!("{base}{round}"), "x").map_err(|error| error.to_string()))
}

fn removed(rounds: usize) -> Result<(), String> {
    prepared(rounds, "f")?;
    let results = both(rounds, |who, round| {
        let (name, other) = (name("f", round), name("g", round));
        // SAFETY: live strings.
        errno_of(unsafe {
            if who == 0 { libc::unlink(name.as_ptr()) } else { libc::rename(name.as_ptr(), other.as_ptr()) }
        })
    })?;
    one_wins(&results, &[libc::ENOENT])
}

fn renamed(rounds: usize) -> Result<(), String> {
    prepared(rounds, "f")?;
    let results = both(rounds, |who, round| {
        let (from, to) = (name("f", round), name(if who == 0 { "a" } else { "b" }, round));
        // SAFETY: live strings.
        errno_of(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) })
    })?;
    one_wins(&results, &[libc::ENOENT])?;
    let count = std::fs::read_dir(".").map_err(|error| error.to_string())?.count();
    if count == rounds { Ok(()) } else { Err(format!("{count} names of {rounds} files")) }
}

fn exchanged(rounds: usize) -> Result<(), String> {
    std::fs::write("a", "a").and_then(|()| std::fs::write("b", "b")).map_err(|error| error.to_string())?;
    let results = both(rounds, |who, _| {
        // SAFETY: live strings.
        unsafe {
            if who == 0 {
                let (at, flag) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
                return errno_of(libc::renameat2(at, c"a".as_ptr(), at, c"b".as_ptr(), flag));
            }
            for name in [c"a", c"b"] {
                let fd = libc::open(name.as_ptr(), libc::O_RDWR);
                if fd < 0 {
                    return errno_of(fd);
                }
                libc::close(fd);
            }
            0
        }
    })?;
    if results.iter().flatten().all(|result| *result == 0) { Ok(()) } else { Err(format!("{results:?}")) }
}

fn linked(rounds: usize) -> Result<(), String> {
    std::fs::write("one", "1").and_then(|()| std::fs::write("two", "2")).map_err(|error| error.to_string())?;
    let results = both(rounds, |who, round| {
        let from = if who == 0 { c"one" } else { c"two" };
        // SAFETY: live strings.
        errno_of(unsafe { libc::link(from.as_ptr(), name("l", round).as_ptr()) })
    })?;
    one_wins(&results, &[libc::EEXIST])
}

/// One makes a file in a directory that the other removes: the file is made or the directory is gone, never both.
fn emptied(rounds: usize) -> Result<(), String> {
    for round in 0..rounds {
        std::fs::create_dir(format!("d{round}")).map_err(|error| error.to_string())?;
    }
    let results = both(rounds, |who, round| {
        let dir = name("d", round);
        let file = CString::new(format!("d{round}/f")).unwrap_or_default();
        // SAFETY: live strings.
        unsafe {
            if who == 0 {
                let fd = libc::open(file.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600);
                let errno = errno_of(fd);
                libc::close(fd);
                errno
            } else {
                errno_of(libc::rmdir(dir.as_ptr()))
            }
        }
    })?;
    for (round, (made, gone)) in results[0].iter().zip(&results[1]).enumerate() {
        let is_there = std::path::Path::new(&format!("d{round}/f")).exists();
        let good = matches!((*made, *gone, is_there), (0, libc::ENOTEMPTY, true) | (libc::ENOENT, 0, false));
        if !good {
            return Err(format!("round {round}: making {made}, removing {gone}, the file is there: {is_there}"));
        }
    }
    Ok(())
}

/// `mkdir -p` by two, which goes on where the other was first.
fn made_paths(rounds: usize) -> Result<(), String> {
    let results = both(rounds, |_, round| {
        let path = format!("p{round}/a/b/c");
        match std::fs::create_dir_all(&path).and_then(|()| std::fs::metadata(&path)) {
            Ok(meta) if meta.is_dir() => 0,
            Ok(_) => 1,
            Err(error) => error.raw_os_error().unwrap_or(2),
        }
    })?;
    if results.iter().flatten().all(|result| *result == 0) { Ok(()) } else { Err(format!("{results:?}")) }
}
