//! A terminal with a shell in it, and somebody who types there: tmux, with a server of the test's own.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::world::LIMIT;

/// Ends with its server.
pub struct Seat {
    place: tempfile::TempDir,
}

impl Seat {
    /// A shell in a terminal of this size, on this bus.
    pub async fn new(bus: &str, columns: u16, rows: u16, environment: &[(&str, &str)]) -> Seat {
        let place = tempfile::tempdir().expect("a temporary directory");
        let settings = "set -g status off\nset -g default-terminal screen-256color\nset -g escape-time 10\n\
                        set -g remain-on-exit on\n";
        std::fs::write(place.path().join("tmux.conf"), settings).expect("a file in a directory of ours");
        let seat = Seat { place };
        let (x, y) = (columns.to_string(), rows.to_string());
        let bus = format!("DBUS_SYSTEM_BUS_ADDRESS={bus}");
        let programs =
            Path::new(env!("CARGO_BIN_EXE_gatedctl")).parent().expect("in a directory").display().to_string();
        let path = format!("PATH={programs}:/usr/bin:/bin");
        let mut words = vec![
            "new-session",
            "-d",
            "-x",
            &x,
            "-y",
            &y,
            "env",
            "-i",
            &bus,
            &path,
            "PS1=$ ",
            "TZ=UTC",
            "LC_ALL=C.UTF-8",
        ];
        let environment: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.extend(environment.iter().map(String::as_str));
        if !environment.iter().any(|set| set.starts_with("TERM=")) {
            words.push("TERM=screen-256color");
        }
        words.extend(["bash", "--norc", "--noprofile"]);
        seat.tmux(&words).await;
        seat.until("a prompt", |screen| screen.trim_end().ends_with('$')).await;
        seat
    }

    async fn run(&self, words: &[&str]) -> Output {
        let socket = self.place.path().join("socket");
        let configuration = self.place.path().join("tmux.conf");
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(socket).arg("-f").arg(configuration).args(words).env_remove("TMUX");
        command.output().await.expect("tmux is installed")
    }

    pub async fn tmux(&self, words: &[&str]) -> String {
        let output = self.run(words).await;
        assert!(output.status.success(), "tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Keys by their names in tmux(1), one after the other.
    pub async fn press(&self, keys: &[&str]) {
        let mut words = vec!["send-keys", "-t", ":"];
        words.extend(keys);
        self.tmux(&words).await;
    }

    /// A line for the shell.
    pub async fn line(&self, line: &str) {
        self.tmux(&["send-keys", "-t", ":", "-l", line]).await;
        self.press(&["Enter"]).await;
    }

    pub async fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-t", ":", "-x", &columns.to_string(), "-y", &rows.to_string()]).await;
    }

    /// What stands on the screen.
    pub async fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", ":"]).await
    }

    /// The screen once this holds of it.
    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        async move {
            let end = Instant::now() + LIMIT;
            loop {
                let screen = self.screen().await;
                if holds(&screen) {
                    return screen;
                }
                assert!(Instant::now() < end, "{place}: waited for {what}:\n{screen}");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    #[track_caller]
    pub fn shows(&self, words: &str) -> impl Future<Output = String> {
        self.until(words, move |screen| screen.contains(words))
    }

    /// Starts the screen.
    pub async fn tui(&self) {
        self.line("gatedctl tui").await;
        self.shows("Queue").await;
    }

    /// An answer for what is selected, pressed until it is taken: what is pressed too soon is told to have been.
    pub async fn answer(&self, key: &str) {
        sleep(gated::ctl::control::tui::model::GUARD + Duration::from_millis(100)).await;
        self.press(&[key]).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let socket = self.place.path().join("socket");
        // A server that has ended cannot be ended.
        let _ = std::process::Command::new("tmux").arg("-S").arg(socket).arg("kill-server").output();
    }
}

/// Without what differs each time: the session's id, and how many seconds are left (profiles here say three digits).
pub fn plain(screen: &str, sessions: &[&str]) -> String {
    let mut text = screen.to_owned();
    for (at, session) in sessions.iter().enumerate() {
        text = text.replace(session, &format!("5e55{at:04}"));
    }
    let mut plain = String::new();
    for line in text.lines() {
        let mut rest = line;
        let mut kept = String::new();
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, digits) = rest.split_at(at);
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let (digits, behind) = digits.split_at(end);
            kept.push_str(before);
            let is_time = digits.len() == 3 && (behind.starts_with("s ") || behind.starts_with(" s "));
            kept.push_str(if is_time { "NNN" } else { digits });
            rest = behind;
        }
        kept.push_str(rest);
        plain.push_str(kept.trim_end());
        plain.push('\n');
    }
    plain
}
