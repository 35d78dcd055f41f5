//! A booted system: systemd, the bus, polkit and the journal of a real Debian in a container, with gated installed. A test
//! gives it commands as if it were called over the network, and reads and writes its files. Runs as root; what it makes is
//! gone when the value is, also after a panic, and what is killed with the test process leaves empty control groups at most.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::base;
use super::support::{PidFd, until};

/// Controllers that limits of units need.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

pub struct System {
    container: Child,
    /// PID 1 of the system, in the machine's numbers.
    first: PidFd,
    run: PathBuf,
    groups: Vec<PathBuf>,
}

/// What a command came to.
#[derive(Debug)]
#[allow(dead_code, reason = "shown where a test fails")]
pub struct Done {
    title: String,
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Done {
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.out
    }

    #[track_caller]
    pub fn code(&self, code: i32) -> &Done {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn says(&self, what: &str) -> &Done {
        assert!(self.out.contains(what) || self.err.contains(what), "{what:?} in {self:#?}");
        self
    }
}

/// A command that runs.
pub struct Running {
    title: String,
    child: Child,
}

impl Running {
    fn start(mut command: Command, title: String) -> Running {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { title, child: piped.spawn().expect("nsenter") }
    }

    #[track_caller]
    pub fn done(mut self) -> Done {
        drop(self.child.stdin.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        std::thread::scope(|scope| {
            scope.spawn(|| stdout.map(|mut pipe| pipe.read_to_end(&mut out)));
            let _ = stderr.map(|mut pipe| pipe.read_to_end(&mut err));
        });
        let status = self.child.wait().expect("a child");
        finished(self.title.clone(), Output { status, stdout: out, stderr: err })
    }

    /// More for its stdin.
    pub fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    }

    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// What it has said on stderr so far, without waiting for more.
    pub fn said(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(pipe) = &mut self.child.stderr {
            rustix::io::ioctl_fionbio(&*pipe, true).expect("a pipe");
            // Ends with what is there, or with the pipe.
            let _ = pipe.read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where a test fails, its system ends with all that runs there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn finished(title: String, output: Output) -> Done {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { title, status: output.status, out: text(&output.stdout), err: text(&output.stderr) }
}

fn is_booted_by_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Ends and removes what a test process left that was killed.
fn sweep() {
    let folders = [base::place(), PathBuf::from("/sys/fs/cgroup")];
    let below =
        |folder: &PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let mut entries: Vec<PathBuf> = folders.iter().flat_map(|folder| -> Vec<PathBuf> { below(folder) }).collect();
    entries.extend(entries.clone().iter().flat_map(|folder| -> Vec<PathBuf> { below(folder) }));
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = name.strip_prefix("gated-system-").and_then(|rest| rest.split(['-', '.']).next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            if !path.starts_with(&folders[1]) {
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                continue;
            }
            // A system whose test process was killed lives on.
            until("what was left to end", || {
                kill_group(&path);
                remove_group(&path).ok().or_else(|| (!path.exists()).then_some(()))
            });
        }
    }
}

/// A control group in every hierarchy, for this container alone; none where systemd has them, as nspawn asks it then.
fn control_groups(name: &str) -> Vec<PathBuf> {
    if is_booted_by_systemd() {
        return Vec::new();
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("proc_pid_mountinfo(5)");
    let mut groups = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        if kind != "cgroup" && kind != "cgroup2" {
            continue;
        }
        if kind == "cgroup2" {
            let available = fs::read_to_string(Path::new(point).join("cgroup.controllers")).unwrap_or_default();
            for controller in CONTROLLERS.iter().filter(|name| available.split_whitespace().any(|word| word == **name))
            {
                fs::write(Path::new(point).join("cgroup.subtree_control"), format!("+{controller}")).expect(controller);
            }
        }
        let group = Path::new(point).join(name);
        fs::create_dir(&group).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
        // cpuset(7): a group without these takes no process.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(all) = fs::read(Path::new(point).join(file)) {
                let _ = fs::write(group.join(file), all);
            }
        }
        groups.push(group);
    }
    groups
}

/// PID 1 of a container, when it is another one than before.
fn first_of(container: &Child, before: Option<i32>) -> PidFd {
    let pid = container.id();
    until("the system's first process", || {
        let child_of = |pid: i32| -> Option<i32> {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
            children.split_whitespace().next()?.parse().ok()
        };
        // Of the script's systemd-nspawn.
        let child = child_of(child_of(pid.cast_signed())?)?;
        let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        (name.trim() == "systemd" && before != Some(child)).then(|| PidFd::open(child).ok())?
    })
}

impl System {
    pub fn boot() -> System {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static SWEPT: std::sync::Once = std::sync::Once::new();
        SWEPT.call_once(sweep);
        let layers = base::layers();
        let name = format!("gated-system-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let run = base::place().join(&name);
        fs::create_dir(&run).expect("a directory");
        let groups = control_groups(&name);
        let enter: String = groups.iter().map(|group| format!("echo $$ >{}/cgroup.procs; ", group.display())).collect();
        let boot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/boot.sh");
        let container = Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                &format!("{enter}exec setpriv --pdeathsig KILL \"$@\""),
                "sh",
            ])
            .arg(boot)
            .arg(&run)
            .arg(&layers)
            .stdout(fs::File::create(run.with_extension("log")).expect("a log"))
            .stderr(Stdio::inherit())
            .spawn()
            .expect("unshare");
        let first = first_of(&container, None);
        let system = System { container, first, run, groups };
        system.wait_until_up();
        system
    }

    fn wait_until_up(&self) {
        until("the system to be up", || {
            let state = self.root(&["systemctl", "is-system-running"]);
            ["running", "degraded"].contains(&state.out.trim()).then_some(())
        });
        // Of version 1 of control groups nspawn makes everything read-only. Here it is the container's own; systemd looks
        // once, when it starts.
        let first_version = CONTROLLERS.map(|controller| format!("/sys/fs/cgroup/{controller}"));
        if first_version.iter().all(|point| self.path(point).exists()) {
            for point in &first_version {
                self.root(&["mount", "-o", "remount,bind,rw", point]).ok();
            }
            self.root(&["systemctl", "daemon-reexec"]).ok();
        }
    }

    /// Boots it again, as a person would, with what is on its disk.
    pub fn reboot(&mut self) {
        let before = self.first.pid;
        let _ = self.root(&["systemctl", "reboot"]);
        self.first = first_of(&self.container, Some(before));
        self.wait_until_up();
    }

    /// A file of the system, for this process.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first.pid))
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn write(&self, path: &str, text: &str) {
        let place = self.path(path);
        fs::create_dir_all(place.parent().expect("a directory")).expect("directories");
        fs::write(place, text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.pid.to_string(), "--all", "--wd=/", "--"]);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LC_ALL", "C.UTF-8");
        command
    }

    /// A program as root, from outside of every unit.
    pub fn root(&self, command: &[&str]) -> Done {
        let output = self.inside().args(command).stdin(Stdio::null()).output().expect("nsenter");
        finished(format!("{command:?}"), output)
    }

    /// A shell command of a user, as a unit of its own.
    pub fn run(&self, user: &str, command: &str) -> Done {
        self.start(user, command).done()
    }

    /// The same, and its stdin open for more.
    pub fn start(&self, user: &str, command: &str) -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unit = format!("--unit=test-{}.service", COUNT.fetch_add(1, Ordering::Relaxed));
        let options = ["--quiet", "--pipe", "--wait", "--collect", "--property=WorkingDirectory=~", &unit];
        // systemd.service(5): a single one would begin a variable of the unit's.
        let escaped = command.replace('$', "$$");
        let mut inside = self.inside();
        inside.arg("systemd-run").args(options).args([&format!("--uid={user}"), "--", "/bin/bash", "-c", &escaped]);
        Running::start(inside, format!("{user}: {command}"))
    }

    /// The same without a unit, of which systemd-run would lose sight with the bus.
    pub fn start_apart(&self, user: &str, command: &str) -> Running {
        let mut inside = self.inside();
        inside.args(["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--reset-env"]);
        inside.args(["/bin/bash", "-c", &format!("cd; {command}")]);
        Running::start(inside, format!("{user}, apart: {command}"))
    }

    /// The same on a terminal of its own, which is its only stdin, stdout and stderr.
    pub fn start_on(&self, terminal: fs::File, user: &str, command: &str) -> Child {
        let mut inside = self.inside();
        inside.args(["setsid", "--ctty", "--wait", "setpriv", "--reuid", user, "--regid", user, "--init-groups"]);
        inside.args(["--reset-env", "/bin/bash", "-c", &format!("cd; export TERM=xterm; {command}")]);
        let again = || terminal.try_clone().expect("a descriptor");
        inside.stdin(again()).stdout(again()).stderr(again()).spawn().expect("nsenter")
    }

    /// A script of the project, as `make` runs it on a system that is booted.
    pub fn script(&self, name: &str) -> Done {
        let text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)).expect("a script");
        self.root(&["sh", "-c", &text])
    }

    /// A property of a unit, as systemctl shows it.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.root(&["systemctl", "show", "--value", "--property", name, unit]).ok().trim().to_owned()
    }

    /// Switches it off as a person would.
    pub fn power_off(mut self) {
        let _ = self.root(&["systemctl", "poweroff"]);
        until("the system to be off", || self.container.try_wait().expect("a child"));
    }

    /// What there is to look at after a failure.
    fn report(&self) {
        let journal = self.root(&["journalctl", "--no-pager", "--output=short-precise", "--lines=120"]);
        eprintln!("the journal of {}:\n{}", self.run.display(), journal.out);
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
        self.first.kill(libc::SIGKILL);
        let _ = self.container.wait();
        for group in &self.groups {
            until("the control groups to be empty", || remove_group(group).ok());
        }
        let _ = fs::remove_file(self.run.with_extension("log"));
        fs::remove_dir(&self.run).expect("nothing is mounted there any more");
    }
}

/// Kills what runs in a control group and those in it.
fn kill_group(group: &Path) {
    let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for process in pids.lines().filter_map(|pid| PidFd::open(pid.parse().ok()?).ok()) {
        process.kill(libc::SIGKILL);
    }
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            kill_group(&entry.path());
        }
    }
}

/// Removes a control group with those in it.
fn remove_group(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
