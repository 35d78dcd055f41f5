//! A session that a test leads step by step: a shell under `gated-run` that reads commands from a pipe, and what another
//! terminal of its user sees and answers with `gatedctl`.

use serde_json::Value;

use super::boot::{Done, Running, System};
use super::support::until;

/// Where alice's tools work; the rest of her home is outside.
pub const PROJECT: &str = "/home/alice/project";

pub struct Shell<'a> {
    system: &'a System,
    running: Running,
    count: u32,
    pub id: String,
}

impl<'a> Shell<'a> {
    /// `options` are those of gated-run.
    pub fn start(system: &'a System, options: &str) -> Shell<'a> {
        Shell::lead(system, system.start("alice", &Shell::command(options)))
    }

    /// In no unit of systemd-run's.
    pub fn start_apart(system: &'a System) -> Shell<'a> {
        Shell::lead(system, system.start_apart("alice", &Shell::command("")))
    }

    fn command(options: &str) -> String {
        format!("mkdir -p {PROJECT} && cd {PROJECT} && rm -f done-* && exec gated-run {options} -- sh")
    }

    fn lead(system: &'a System, running: Running) -> Shell<'a> {
        let mut shell = Shell { system, running, count: 0, id: String::new() };
        // The first command tells that there is a session, and which.
        let first = shell.begin("echo $GATED_SESSION >id");
        assert_eq!(shell.end(first), 0);
        shell.id = system.read(&format!("{PROJECT}/id")).trim().to_owned();
        assert!(!shell.id.is_empty(), "GATED_SESSION is not set");
        shell
    }

    pub fn unit(&self) -> String {
        format!("gated-session@{}.service", self.id)
    }

    /// Has a command done; its number tells it when it ends.
    pub fn begin(&mut self, command: &str) -> u32 {
        self.count += 1;
        let (count, done) = (self.count, format!("{PROJECT}/done-{}", self.count));
        self.running.write(&format!("{command}\necho $? >{done}.part; mv {done}.part {done}\n"));
        count
    }

    /// How it ended.
    #[track_caller]
    pub fn end(&mut self, count: u32) -> i32 {
        let done = self.system.path(&format!("{PROJECT}/done-{count}"));
        until("a command in the session", || {
            if self.running.ended() {
                panic!("the session has ended: {}", self.running.said());
            }
            std::fs::read_to_string(&done).ok()?.trim().parse().ok()
        })
    }

    #[track_caller]
    pub fn does(&mut self, command: &str) -> i32 {
        let count = self.begin(command);
        self.end(count)
    }

    /// Ends the shell as ^D would.
    #[track_caller]
    pub fn done(self) -> Done {
        self.running.done()
    }
}

/// What `gatedctl --json` prints for a user.
#[track_caller]
pub fn asked(system: &System, user: &str, verb: &str) -> Value {
    let out = system.run(user, &format!("gatedctl --json {verb}")).ok();
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("gatedctl {verb}: {error}\n{out}"))
}

/// The one request that waits, as its user sees it from another terminal.
#[track_caller]
pub fn waiting(system: &System, user: &str) -> Value {
    until("a request that waits", || asked(system, user, "pending").as_array()?.first().cloned())
}

/// Its id, after a look at what it is about.
#[track_caller]
pub fn waiting_for(system: &System, user: &str, object: &str) -> String {
    let request = waiting(system, user);
    assert_eq!(request["object"], object, "{request:#}");
    request["id"].as_str().expect("an id").to_owned()
}

/// The records of a session, as root reads them.
pub fn audit(system: &System, session: &str) -> Vec<Value> {
    let log = system.read("/var/log/gated/audit.jsonl");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|record| record["session"] == session).collect()
}
