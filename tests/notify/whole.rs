//! All of it: the daemon on a system bus, a command of an ordinary user under gated-run, the kernel that holds its write, a
//! notification, a click, and the file.
//!
//! Everything runs in a mount namespace of one thread, in which the test user exists.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use crate::desk::{Desk, Program, READING, XFCE, owned, run, until};
use crate::user::{self, Mount};

const XFCE_CLASS: &str = "Xfce4-notifyd";

/// Makes a symbolic link by one thread, and by one thread each so many files.
const CREATOR: &str = r#"
import os, sys, threading
def create(number):
    try:
        open(os.path.join(sys.argv[1], str(number)), "w").close()
    except OSError:
        pass
def link():
    try:
        os.symlink("nowhere", os.path.join(sys.argv[1], "first"))
    except OSError:
        pass
threading.stack_size(256 * 1024)
threads = [threading.Thread(target=link)] + [threading.Thread(target=create, args=(n,)) for n in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"#;

/// A desktop and the daemon.
struct Whole {
    desk: Desk,
    daemon: Program,
}

impl Whole {
    async fn start() -> Whole {
        let directory = Desk::directory(user::UID);
        user::write_files(directory.path(), &directory.path().join("home")).expect("passwd and group");
        let mounts = ["passwd", "group"]
            .map(|name| Mount::bind(&directory.path().join(name), &PathBuf::from("/etc").join(name)));
        user::enter(&mounts).expect("a mount namespace");
        let mut desk = Desk::of(directory, user::UID).await;
        let work = desk.home().join("work");
        fs::create_dir(&work).unwrap();
        chown(&work, Some(user::UID), Some(user::UID)).unwrap();
        let policy = desk.root().join("policy/etc/gated");
        fs::create_dir_all(&policy).unwrap();
        fs::write(policy.join("ceiling.toml"), format!("schema = 1\n[users]\nmay_run = [\"{}\"]\n", user::NAME))
            .unwrap();
        fs::set_permissions(desk.root().join("policy"), fs::Permissions::from_mode(0o755)).unwrap();
        desk.reachable(env!("CARGO_BIN_EXE_gated-session"));
        let mut command = desk.command(desk.reachable(env!("CARGO_BIN_EXE_gatedd")));
        std::os::unix::process::CommandExt::uid(&mut command, 0);
        std::os::unix::process::CommandExt::gid(&mut command, 0);
        command.arg("--supervisors=spawn").arg("--runtime").arg(desk.root().join("gated"));
        command.arg("--audit").arg(desk.root().join("log/audit.jsonl"));
        fs::create_dir(desk.root().join("log")).unwrap();
        command.arg("--policy-root").arg(desk.root().join("policy"));
        command.arg("--state").arg(desk.root().join("state"));
        let daemon = desk.start(command);
        owned(&desk.system, "org.gated.Gated1").await;
        desk.start_screen().await;
        desk.start_server(XFCE).await;
        desk.start_notifier();
        desk.notifier().says("a consent agent from now on", 1).await;
        Whole { desk, daemon }
    }

    /// A command of the user's, which nobody but the desktop is asked about.
    fn run(&mut self, script: &str) -> Program {
        self.run_under("coder", script)
    }

    fn run_under(&mut self, profile: &str, script: &str) -> Program {
        let mut command = self.desk.command(self.desk.reachable(env!("CARGO_BIN_EXE_gated-run")));
        command.args(["--consent", "none", "--profile", profile, "--", "sh", "-c", script]);
        command.current_dir(self.desk.home().join("work")).stdout(Stdio::null());
        self.desk.start(command)
    }

    /// A program that makes a symbolic link and, meanwhile, so many files in a directory of its own in the home; once all of it
    /// is asked for. The directory, too.
    async fn creating(&mut self, many: usize) -> (Program, PathBuf) {
        let place = self.desk.home().join("many");
        fs::create_dir(&place).unwrap();
        chown(&place, Some(user::UID), Some(user::UID)).unwrap();
        let events = self.desk.home().join("events.jsonl");
        let mut command = self.desk.command(self.desk.reachable(env!("CARGO_BIN_EXE_gated-run")));
        command.args(["--consent", "none", "--profile", "coder", "--events"]).arg(&events);
        command.args(["--", "python3", "-I", "-S", "-B", "-c", CREATOR]).arg(&place).arg(many.to_string());
        command.current_dir(self.desk.home().join("work")).stdout(Stdio::null());
        let running = self.desk.start(command);
        until("all of it to be asked", || {
            let asked = fs::read_to_string(&events).unwrap_or_default().matches("consent_required").count();
            (asked > many).then_some(())
        })
        .await;
        (running, place)
    }

    /// Clicks one of the three buttons of the one notification, once it can have been read.
    async fn click(&self, at: i32) -> Instant {
        let [x, y, width, height] = self.desk.sees(XFCE_CLASS, 1).await[0];
        tokio::time::sleep(READING).await;
        let now = Instant::now();
        self.desk.click(x + width * (2 * at + 1) / 6, y + height - 31);
        now
    }

    async fn ended(&self, program: &mut Program) -> i32 {
        let status = until("the command's end", || program.child.try_wait().expect("our child")).await;
        status.code().unwrap_or_else(|| panic!("{status}: {} {}", program.said(), self.daemon.said()))
    }
}

fn whole(body: impl AsyncFnOnce(Whole) + Send + 'static) {
    let thread = std::thread::spawn(|| run(async { body(Whole::start().await).await }));
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_click_on_allow_once_lets_the_write_happen() {
    whole(async |mut whole| {
        let file = whole.desk.home().join("notes");
        let mut running = whole.run("echo one >~/notes && echo two >>~/notes");
        whole.desk.sees(XFCE_CLASS, 1).await;
        assert!(!file.exists(), "written before anybody was asked");
        tokio::time::sleep(READING).await;
        whole.desk.screenshot("notification-of-a-real-write");
        whole.click(1).await;
        assert_eq!(whole.ended(&mut running).await, 0, "{}", running.said());
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n", "one answer holds for the call");
        assert_eq!(file.metadata().unwrap().uid(), user::UID);
        whole.desk.sees(XFCE_CLASS, 0).await;
        let audit = fs::read_to_string(whole.desk.root().join("log/audit.jsonl")).unwrap();
        assert!(audit.contains("\"approved\"") && audit.contains("desktop"), "{audit}");
    });
}

#[test]
fn a_click_on_deny_fails_the_write() {
    whole(async |mut whole| {
        let mut running = whole.run("echo one >~/notes || exit 7");
        whole.click(0).await;
        let code = whole.ended(&mut running).await;
        assert!(code != 0, "{}", running.said());
        assert!(running.said().contains("Permission denied"), "{}", running.said());
        assert!(!whole.desk.home().join("notes").exists());
    });
}

#[test]
fn a_click_on_allow_for_session_holds_for_all_of_the_session() {
    whole(async |mut whole| {
        let mut running = whole.run("for number in 1 2 3; do sh -c 'echo more >>~/notes'; done");
        whole.click(2).await;
        assert_eq!(whole.ended(&mut running).await, 0, "{}", running.said());
        assert_eq!(fs::read_to_string(whole.desk.home().join("notes")).unwrap(), "more\nmore\nmore\n");
        assert_eq!(whole.desk.notifier().said().matches("shown").count(), 1, "asked again");
    });
}

/// A rule of level `notify` blocks nothing and is told; one of level `ask` waits for a click, and the notification says the words.
#[test]
fn a_program_is_told_or_asked_for() {
    whole(async |mut whole| {
        let profile = whole.desk.root().join("programs.toml");
        let rule = |id: &str, level: &str| {
            format!("[[rule]]\nid = \"{id}\"\naccess = [\"exec\"]\nprogram = [\"@path/{id}\"]\nlevel = \"{level}\"\n")
        };
        let text =
            format!("schema = 1\n[profile]\nname = \"programs\"\n{}{}", rule("true", "notify"), rule("expr", "ask"));
        fs::write(&profile, text).unwrap();
        let profile = profile.to_str().unwrap();
        let mut running = whole.run_under(profile, "/usr/bin/true first && /usr/bin/true second");
        assert_eq!(whole.ended(&mut running).await, 0, "{}", running.said());
        whole.desk.notifier().says("told what was done", 1).await;
        whole.desk.sees(XFCE_CLASS, 1).await;
        whole.desk.screenshot("notification-of-what-was-done");
        let mut running = whole.run_under(profile, "/usr/bin/expr 1 + 2 && exit 5");
        let windows = whole.desk.sees(XFCE_CLASS, 2).await;
        tokio::time::sleep(READING).await;
        whole.desk.screenshot("notification-of-a-command");
        // The one with buttons is the taller one.
        let [x, y, width, height] = *windows.iter().max_by_key(|window| window[3]).unwrap();
        whole.desk.click(x + width / 2, y + height - 31);
        assert_eq!(whole.ended(&mut running).await, 5, "{}", running.said());
    });
}

#[test]
fn a_tool_that_is_killed_takes_its_notification_along() {
    whole(async |mut whole| {
        let mut running = whole.run("echo one >~/notes");
        whole.desk.sees(XFCE_CLASS, 1).await;
        running.stop(nix::sys::signal::Signal::SIGKILL);
        whole.desk.sees(XFCE_CLASS, 0).await;
        assert!(!whole.desk.home().join("notes").exists());
    });
}

#[test]
fn one_click_lets_two_hundred_files_be_created_and_another_none() {
    for (button, made) in [(1, 214), (0, 0)] {
        whole(async move |mut whole| {
            let (mut running, place) = whole.creating(214).await;
            whole.click(0).await;
            // The link is denied; the files are the next.
            whole.desk.notifier().says("shown", 2).await;
            whole.desk.sees(XFCE_CLASS, 1).await;
            assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
            if made > 0 {
                tokio::time::sleep(READING).await;
                whole.desk.screenshot("notification-of-many-files");
            }
            whole.click(button).await;
            assert_eq!(whole.ended(&mut running).await, 0, "{}", running.said());
            assert_eq!(fs::read_dir(&place).unwrap().count(), made);
            let audit = fs::read_to_string(whole.desk.root().join("log/audit.jsonl")).unwrap();
            let result = if made > 0 { "\"approved\"" } else { "\"denied\"" };
            assert!(audit.lines().filter(|line| line.contains(result) && line.contains("desktop")).count() >= 214);
            whole.desk.sees(XFCE_CLASS, 0).await;
        });
    }
}
