//! Who a caller on the bus is, and what polkit lets it do: on a real dbus-daemon, with real processes and a real polkitd.
//! Needs root: it makes namespaces, and a cgroup.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gated::common::bus::action;
use gated::daemon::authz::Polkit;
use gated::daemon::caller::{Caller, Unidentified};
use support::system_bus::{Bus, Peer};
use support::user::{GID, NAME, UID};
use zbus::Connection;

const AS_USER: [&str; 4] = ["setpriv", "--reuid=60777", "--regid=60777", "--clear-groups"];

async fn identify(daemon: &Connection, peer: &mut Peer, uid: u32) -> Result<Caller, Unidentified> {
    let connection = peer.speak(uid).await;
    let name = connection.unique_name().expect("on a bus").clone();
    let caller = Caller::of(daemon, &name).await;
    drop(connection);
    caller
}

#[tokio::test]
async fn a_caller_is_the_process_that_connected() {
    let bus = Bus::start();
    let daemon = bus.connect().await;
    assert_eq!((AS_USER[1], AS_USER[2]), (&*format!("--reuid={UID}"), &*format!("--regid={GID}")));
    let mut peer = bus.connect_as(&AS_USER, "").await;
    let caller = identify(&daemon, &mut peer, UID).await.unwrap();
    assert_eq!((caller.uid, caller.pid, caller.inside), (UID, peer.pid(), false));
    assert!(!caller.has_ended());
    peer.end();
    assert!(caller.has_ended());
}

#[tokio::test]
async fn a_connection_without_its_process_is_refused() {
    let bus = Bus::start();
    let daemon = bus.connect().await;
    let mut peer = bus.connect_as(&AS_USER, "").await;
    let connection = peer.speak(UID).await;
    peer.end();
    let refused = Caller::of(&daemon, connection.unique_name().unwrap()).await.unwrap_err();
    assert!(matches!(refused, Unidentified::Gone(_)), "{refused}");
    let name = connection.unique_name().unwrap().clone();
    connection.close().await.unwrap();
    let refused = Caller::of(&daemon, &name).await.unwrap_err();
    assert!(matches!(refused, Unidentified::Bus(..)), "{refused}");
}

#[tokio::test]
async fn a_process_that_is_another_user_by_now_is_refused() {
    let bus = Bus::start();
    let daemon = bus.connect().await;
    let mut peer = bus.connect_as(&[], &format!("os.setresuid({UID}, {UID}, {UID})")).await;
    let refused = identify(&daemon, &mut peer, 0).await.unwrap_err();
    assert!(matches!(refused, Unidentified::Another(_)), "{refused}");
}

#[tokio::test]
async fn a_caller_in_a_pid_namespace_is_inside() {
    let bus = Bus::start();
    let daemon = bus.connect().await;
    let mut peer = bus.connect_as(&["unshare", "--pid", "--fork", "--kill-child"], "").await;
    assert!(identify(&daemon, &mut peer, 0).await.unwrap().inside);
}

/// A cgroup of a hierarchy that is mounted for this test only; removed at the end.
struct Cgroup {
    mount: PathBuf,
    group: PathBuf,
}

impl Cgroup {
    fn make(at: &Path, name: &str) -> Cgroup {
        let mount = at.join("cgroup");
        fs::create_dir(&mount).unwrap();
        let mounted = std::process::Command::new("mount").args(["-t", "cgroup2", "none"]).arg(&mount).status().unwrap();
        assert!(mounted.success(), "this test mounts cgroup2 and needs root");
        let group = mount.join(name);
        fs::create_dir(&group).unwrap();
        Cgroup { mount, group }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        support::until("the cgroup to be empty", || fs::remove_dir(&self.group).ok());
        std::process::Command::new("umount").arg(&self.mount).status().unwrap();
    }
}

#[tokio::test]
async fn a_caller_in_a_cgroup_of_a_session_is_inside() {
    let bus = Bus::start();
    let daemon = bus.connect().await;
    let cgroup = Cgroup::make(bus.directory(), &format!("gated-session@test{}.service", std::process::id()));
    let procs = cgroup.group.join("cgroup.procs");
    let mut peer = bus.connect_as(&[], &format!("open('{}', 'w').write('0')", procs.display())).await;
    assert!(identify(&daemon, &mut peer, 0).await.unwrap().inside);
    peer.end();
}

#[tokio::test]
async fn without_polkit_only_root_is_authorized() {
    let bus = Bus::start();
    let daemon = bus.connect().await;
    let polkit = Polkit::new(daemon.clone());
    assert!(!polkit.is_there().await);
    let mut user = bus.connect_as(&AS_USER, "").await;
    let user = identify(&daemon, &mut user, UID).await.unwrap();
    assert!(!polkit.authorized(&user, action::MANAGE_SESSIONS, true).await);
    let mut root = bus.connect_as(&[], "").await;
    let mut root = identify(&daemon, &mut root, 0).await.unwrap();
    assert!(polkit.authorized(&root, action::MANAGE_SESSIONS, false).await);
    root.inside = true;
    assert!(!polkit.authorized(&root, action::MANAGE_SESSIONS, false).await);
}

#[tokio::test]
async fn polkit_says_who_else_is_authorized() {
    let bus = Bus::start();
    let rules = format!(
        "polkit.addRule(function(action, subject) {{\n\
         if (action.id == '{}' && subject.user == '{NAME}') return polkit.Result.YES; }});",
        action::MANAGE_SESSIONS
    );
    let described =
        [(action::MANAGE_SESSIONS, "no"), (action::EDIT_POLICY, "no"), (action::GRANT_SENSITIVE, "auth_self")];
    let _polkitd = bus.start_polkit(&described, &rules);
    bus.wait_for("org.freedesktop.PolicyKit1").await;
    let daemon = bus.connect().await;
    let polkit = Polkit::new(daemon.clone());
    assert!(polkit.is_there().await);
    let mut peer = bus.connect_as(&AS_USER, "").await;
    let connection = peer.speak(UID).await;
    let mut user = Caller::of(&daemon, connection.unique_name().unwrap()).await.unwrap();
    assert!(polkit.authorized(&user, action::MANAGE_SESSIONS, false).await);
    assert!(!polkit.authorized(&user, action::EDIT_POLICY, false).await);
    assert!(!polkit.authorized(&user, "org.gated.gated1.no-such-action", false).await);
    // Nobody is there to take a password.
    assert!(!polkit.authorized(&user, action::GRANT_SENSITIVE, false).await);
    let asked = tokio::time::timeout(Duration::from_secs(20), polkit.authorized(&user, action::GRANT_SENSITIVE, true));
    assert!(!asked.await.expect("no one to ask is an answer"));
    user.inside = true;
    assert!(!polkit.authorized(&user, action::MANAGE_SESSIONS, false).await);
    // A stranger, to whom the rule does not speak.
    let mut peer = bus.connect_as(&["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"], "").await;
    let connection = peer.speak(65534).await;
    let stranger = Caller::of(&daemon, connection.unique_name().unwrap()).await.unwrap();
    assert!(!polkit.authorized(&stranger, action::MANAGE_SESSIONS, false).await);
}
