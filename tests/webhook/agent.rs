//! A webhook agent in the test's process, on the files that it would read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gated::consent::bus::{BusAgent, Registration};
use gated::consent::webhook::Bridge;
use gated::consent::webhook::config::{ConfigError, Places, Settings};
use tokio::sync::mpsc;

use super::server::SECRET;
use super::world::{World, within};

/// The files of a person and of an admin.
pub struct Files {
    pub directory: tempfile::TempDir,
}

impl Files {
    pub fn new() -> Files {
        let files = Files { directory: tempfile::tempdir().unwrap() };
        files.admin("hosts = [\"127.0.0.1\"]");
        files
    }

    pub fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn own(&self, text: &str) {
        write(&self.place("own.toml"), text, 0o600);
    }

    pub fn admin(&self, text: &str) {
        write(&self.place("admin.toml"), text, 0o644);
    }

    pub fn read(&self) -> Result<Settings, ConfigError> {
        let uid = rustix::process::geteuid().as_raw();
        Settings::read(&Places { own: self.place("own.toml"), uid, admin: self.place("admin.toml"), admin_uid: uid })
    }

    /// Those with a URL and the secret.
    pub fn of(&self, url: &str, more: &str) -> Settings {
        self.own(&format!("url = \"{url}\"\nsecret = \"{SECRET}\"\n{more}"));
        self.read().unwrap()
    }
}

pub fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Registers an agent with these settings; it runs as long as the world's runtime.
pub async fn start(world: &World, settings: Settings) {
    let connection = world.connect().await.0;
    let registration = Registration { kind: "webhook", session: None };
    let mut agent = within(BusAgent::register(&connection, registration)).await.unwrap();
    let mut bridge = Bridge::new(settings, "laptop".to_owned()).unwrap();
    tokio::task::spawn_local(async move {
        let (asked, mut arrivals) = mpsc::unbounded_channel();
        let hand_on = async {
            while let Some(next) = agent.next().await {
                asked.send(next).unwrap();
            }
        };
        tokio::join!(hand_on, bridge.run(&mut arrivals));
    });
}
