//! The part that runs inside a session, as the test user: changes files by several threads and writes down, with a write(2)
//! each, what it is about to do and what came of it. Its standard output is a file of the test's, so that what it wrote is
//! there whoever dies.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::journal::content;
use crate::random::Random;

/// What a worker is told: its own directory, the directory that is asked for, its number, its seed, threads, steps of each, and
/// percent of these that are asked for.
pub struct Order {
    pub place: PathBuf,
    pub outside: PathBuf,
    pub job: usize,
    pub seed: u64,
    pub threads: usize,
    pub steps: usize,
    pub asked: usize,
    /// Files that each thread holds open meanwhile.
    pub hold: usize,
    /// Bytes of a file at the most.
    pub bytes: usize,
    /// Whether some of what is asked for is never answered. What waits behind that may be out of time together with it.
    pub never: bool,
}

impl Order {
    pub fn words(&self) -> Vec<String> {
        let numbers = [self.job, self.threads, self.steps, self.asked, self.hold, self.bytes, usize::from(self.never)];
        let mut words =
            vec![self.place.display().to_string(), self.outside.display().to_string(), self.seed.to_string()];
        words.extend(numbers.map(|number| number.to_string()));
        words
    }

    fn of(words: &[String]) -> Order {
        let number = |at: usize| words[at].parse().expect("a number");
        Order {
            place: words[0].clone().into(),
            outside: words[1].clone().into(),
            seed: words[2].parse().expect("a seed"),
            job: number(3),
            threads: number(4),
            steps: number(5),
            asked: number(6),
            hold: number(7),
            bytes: number(8),
            never: number(9) == 1,
        }
    }
}

pub fn run(words: &[String]) {
    let order = Order::of(words);
    std::thread::scope(|scope| {
        for thread in 0..order.threads {
            let order = &order;
            scope.spawn(move || Worker::new(order, thread).work());
        }
    });
    say("D");
}

fn say(line: &str) {
    // SAFETY: descriptor 1 is open, and the File that has it is forgotten, not closed.
    let mut out = unsafe { std::mem::ManuallyDrop::new(File::from_raw_fd(1)) };
    let _ = out.write_all(format!("{line}\n").as_bytes());
}

struct Worker<'a> {
    order: &'a Order,
    thread: usize,
    random: Random,
    made: usize,
    steps: usize,
    files: Vec<String>,
    directories: Vec<String>,
    links: Vec<String>,
    held: Vec<File>,
}

impl<'a> Worker<'a> {
    fn new(order: &'a Order, thread: usize) -> Worker<'a> {
        let random = Random::new(order.seed ^ (thread as u64).wrapping_mul(0x1234_5678_9abc_def1));
        Worker {
            order,
            thread,
            random,
            made: 0,
            steps: 0,
            files: Vec::new(),
            directories: Vec::new(),
            links: Vec::new(),
            held: Vec::new(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        match name.strip_prefix("out:") {
            Some(name) => self.order.outside.join(name),
            None => self.order.place.join(name),
        }
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        let own = format!("t{}-{}", self.thread, self.made);
        match self.random.chance(30).then(|| self.random.below(self.directories.len().max(1))) {
            Some(at) if at < self.directories.len() => format!("{}/{own}", self.directories[at]),
            _ => own,
        }
    }

    /// One attempt, between what is said before and after. `words` name what the account has to know.
    fn attempt(&mut self, words: &str, what: impl FnOnce(&mut Self) -> io::Result<usize>) -> bool {
        self.steps += 1;
        let (thread, step) = (self.thread, self.steps);
        say(&format!("B {thread} {step} {words}"));
        let came = what(self);
        match &came {
            Ok(count) => say(&format!("E {thread} {step} ok {count}")),
            Err(error) => say(&format!("E {thread} {step} errno {}", error.raw_os_error().unwrap_or(0))),
        }
        came.is_ok()
    }

    fn work(&mut self) {
        for _ in 0..self.order.hold {
            // As many as go: the point is to have no room left.
            self.held.extend(File::open("/proc/self/stat"));
        }
        for _ in 0..self.order.steps {
            if self.random.chance(self.order.asked) {
                self.ask()
            } else {
                self.change()
            }
            if self.random.chance(3) {
                self.held.pop();
            }
            if self.random.chance(2) {
                std::thread::sleep(Duration::from_millis(self.random.below(20) as u64));
            }
        }
    }

    fn create(&mut self, name: String, bytes: usize) -> bool {
        let path = self.at(&name);
        self.attempt(&format!("create {name} {bytes}"), |_| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
            Ok(write(&mut file, &content(&name, 0, bytes)))
        })
    }

    /// A change outside of the workspace: which one says what becomes of it.
    fn ask(&mut self) {
        let (job, thread, number) = (self.order.job, self.thread, self.steps);
        let kind = ["yes", "yes", "yes", "no", "no", "deny", "late", "held", "held", "session", "never"];
        let kind = match self.random.pick(&kind) {
            "never" if !self.order.never || !self.random.chance(20) => "yes",
            other => other,
        };
        match kind {
            "session" => {
                let name = format!("out:session-{job}-{thread}");
                for _ in 0..3 {
                    if self.create(name.clone(), 10) {
                        self.unlink(&name);
                    }
                }
            }
            // Asked for once, then by the answer, until its time is over; then once more.
            "held" => {
                let name = format!("out:for-{job}-{thread}");
                if self.create(name.clone(), 10) {
                    self.unlink(&name);
                }
            }
            kind => {
                self.create(format!("out:{kind}-{job}-{thread}-{number}"), 20);
            }
        }
    }

    fn unlink(&mut self, name: &str) -> bool {
        let path = self.at(name);
        self.attempt(&format!("unlink {name}"), |_| fs::remove_file(path).map(|()| 0))
    }

    fn taken(from: &mut Vec<String>, random: &mut Random) -> Option<String> {
        (!from.is_empty()).then(|| random.below(from.len())).map(|at| from.swap_remove(at))
    }

    fn change(&mut self) {
        match self.random.below(100) {
            0..32 => {
                let (name, bytes) = (self.fresh(), self.random.below(self.order.bytes));
                if self.create(name.clone(), bytes) {
                    self.files.push(name);
                }
            }
            32..42 => {
                let Some(name) = self.some_file() else { return };
                let (path, bytes) = (self.at(&name), self.random.below(self.order.bytes));
                self.attempt(&format!("append {name} {bytes}"), |_| {
                    let mut file = OpenOptions::new().append(true).open(&path)?;
                    let length = file.metadata()?.len() as usize;
                    Ok(write(&mut file, &content("", length, bytes)))
                });
            }
            42..54 => {
                let Some(name) = Worker::taken(&mut self.files, &mut self.random) else { return };
                let to = self.fresh();
                let (from, there) = (self.at(&name), self.at(&to));
                let done = self.attempt(&format!("rename {name} {to}"), |_| fs::rename(from, there).map(|()| 0));
                self.files.push(if done { to } else { name });
            }
            54..66 => {
                let Some(name) = Worker::taken(&mut self.files, &mut self.random) else { return };
                if !self.unlink(&name) {
                    self.files.push(name);
                }
            }
            66..72 => {
                let name = self.fresh();
                let path = self.at(&name);
                if self.attempt(&format!("mkdir {name}"), |_| fs::create_dir(path).map(|()| 0)) {
                    self.directories.push(name);
                }
            }
            72..76 => {
                // Fails where something is in it, which nobody hears of.
                let Some(name) = Worker::taken(&mut self.directories, &mut self.random) else { return };
                let path = self.at(&name);
                if !self.attempt(&format!("rmdir {name}"), |_| fs::remove_dir(path).map(|()| 0)) {
                    self.directories.push(name);
                }
            }
            76..82 => {
                let name = self.fresh();
                let path = self.at(&name);
                if self.attempt(&format!("symlink {name}"), |_| symlink("where/ever", path).map(|()| 0)) {
                    self.links.push(name);
                }
            }
            82..86 => {
                let Some(name) = Worker::taken(&mut self.links, &mut self.random) else { return };
                if !self.unlink(&name) {
                    self.links.push(name);
                }
            }
            86..92 => {
                let Some(name) = self.some_file() else { return };
                let (path, mode) = (self.at(&name), self.random.pick(&[0o600, 0o640, 0o644, 0o666, 0o755]));
                self.attempt(&format!("chmod {name} {mode}"), |_| {
                    fs::set_permissions(path, Permissions::from_mode(mode)).map(|()| 0)
                });
            }
            92..96 => {
                let Some(name) = self.some_file() else { return };
                let path = self.at(&name);
                let length = fs::metadata(&path).map_or(0, |stat| stat.len() as usize) / 2;
                self.attempt(&format!("truncate {name} {length}"), |_| truncate(&path, length).map(|()| 0));
            }
            _ => {
                // Something guarded: no rule may let it through, whatever happens around it.
                let secret = self.order.outside.join("secret/file");
                self.attempt("secret", |_| fs::read(secret).map(|bytes| bytes.len()));
            }
        }
    }

    fn some_file(&mut self) -> Option<String> {
        (!self.files.is_empty()).then(|| self.random.below(self.files.len())).map(|at| self.files[at].clone())
    }
}

/// As many bytes as the file takes.
fn write(file: &mut File, bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

/// truncate(2), by its path.
fn truncate(path: &Path, length: usize) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: a NUL-terminated string and a number.
    let done = unsafe { libc::truncate(path.as_ptr(), length as libc::off_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
