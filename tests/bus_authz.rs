//! Who a caller on the bus is, and what polkit lets it do: on a real dbus-daemon, with real processes and a real polkitd.
//! Needs root: it makes namespaces, and a cgroup.

mod support;

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gated::common::bus::action;
use gated::daemon::authz::Polkit;
use gated::daemon::caller::{Caller, Unidentified};
use support::system_bus::{Bus, Peer};
use support::user::{GID, NAME, UID};
use tokio::sync::{Notify, mpsc};
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::ConnectionCredentials;
use zbus_polkit::policykit1::{AuthorityProxy, Identity, Subject};

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

/// A polkit authentication agent that tells what it is asked, and ends each question when it is told to.
struct PasswordDialog {
    asked: mpsc::UnboundedSender<String>,
    taken_back: mpsc::UnboundedSender<String>,
    end: Arc<Notify>,
}

#[zbus::interface(name = "org.freedesktop.PolicyKit1.AuthenticationAgent")]
impl PasswordDialog {
    #[allow(clippy::too_many_arguments, reason = "polkit's interface")]
    async fn begin_authentication(
        &self,
        _action: String,
        _message: String,
        _icon: String,
        _details: HashMap<String, String>,
        cookie: String,
        _identities: Vec<(String, HashMap<String, zbus::OwnedVariant>)>,
    ) {
        self.asked.send(cookie).unwrap();
        self.end.notified().await;
    }

    async fn cancel_authentication(&self, cookie: String) {
        self.taken_back.send(cookie).unwrap();
        self.end.notify_one();
    }
}

#[tokio::test]
async fn a_password_is_waited_for_alone_and_given_up_with_the_question() {
    let bus = Bus::start();
    let rules = format!(
        "polkit.addRule(function(action) {{ if (action.id == '{}') return polkit.Result.YES; }});",
        action::MANAGE_SESSIONS
    );
    let described = [(action::MANAGE_SESSIONS, "no"), (action::GRANT_SENSITIVE, "auth_self")];
    let _polkitd = bus.start_polkit(&described, &rules);
    bus.wait_for("org.freedesktop.PolicyKit1").await;
    let daemon = bus.connect().await;
    let polkit = Polkit::new(daemon.clone());
    let mut peer = bus.connect_as(&AS_USER, "").await;
    let connection = peer.speak(UID).await;
    let (asked, mut questions) = mpsc::unbounded_channel();
    let (taken_back, mut given_up) = mpsc::unbounded_channel();
    let end = Arc::new(Notify::new());
    let dialog = PasswordDialog { asked, taken_back, end: Arc::clone(&end) };
    connection.object_server().at("/dialog", dialog).await.unwrap();
    let process = Subject::new_for_pid(peer.pid(), None, Some(UID)).unwrap();
    let authority = AuthorityProxy::new(&connection).await.unwrap();
    authority.register_authentication_agent(&process, "C", "/dialog").await.unwrap();
    let user = Arc::new(Caller::of(&daemon, connection.unique_name().unwrap()).await.unwrap());
    let ask = || {
        let (polkit, user) = (polkit.clone(), Arc::clone(&user));
        tokio::spawn(async move { polkit.authorized(&user, action::GRANT_SENSITIVE, true).await })
    };

    // Somebody types; others are answered meanwhile.
    let answer = ask();
    let cookie = questions.recv().await.unwrap();
    assert!(polkit.authorized(&user, action::MANAGE_SESSIONS, true).await);
    assert!(!answer.is_finished());
    let details = HashMap::from([("uid", zbus::Variant::from(UID))]);
    let identity = Identity { identity_kind: "unix-user", identity_details: &details };
    // What polkit's helper says, as root, once the password was right.
    let helper = AuthorityProxy::new(&daemon).await.unwrap();
    helper.authentication_agent_response2(UID, &cookie, &identity).await.unwrap();
    end.notify_one();
    assert!(answer.await.unwrap());

    // The dialog is closed without a password.
    let answer = ask();
    questions.recv().await.unwrap();
    end.notify_one();
    assert!(!answer.await.unwrap());

    // Nobody waits for the answer any more: the dialog goes.
    let answer = ask();
    let cookie = questions.recv().await.unwrap();
    answer.abort();
    let gone = tokio::time::timeout(Duration::from_secs(20), given_up.recv()).await;
    assert_eq!(gone.expect("the question is taken back"), Some(cookie));
}

/// A bus daemon that says of everybody what it is told to, once each; for what the installed one does not say.
struct Told(Mutex<VecDeque<ConnectionCredentials>>);

#[zbus::interface(name = "org.freedesktop.DBus")]
impl Told {
    async fn get_connection_credentials(&self, _name: String) -> zbus::fdo::Result<ConnectionCredentials> {
        let next = self.0.lock().unwrap().pop_front();
        next.ok_or_else(|| zbus::fdo::Error::NameHasNoOwner("gone".into()))
    }
}

async fn told(answers: Vec<ConnectionCredentials>) -> Result<Caller, Unidentified> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let bus = Builder::unix_stream(theirs).server(zbus::Guid::generate()).p2p();
    let bus = bus.serve_at("/org/freedesktop/DBus", Told(Mutex::new(answers.into()))).build();
    let (_bus, daemon) = tokio::try_join!(bus, Builder::unix_stream(ours).p2p().build()).unwrap();
    Caller::of(&daemon, &zbus::names::UniqueName::from_static_str(":1.7").unwrap()).await
}

fn credentials(uid: u32, pid: u32) -> ConnectionCredentials {
    ConnectionCredentials::default().set_unix_user_id(uid).set_process_id(pid)
}

fn with_pidfd(pid: u32, of: u32) -> ConnectionCredentials {
    let of = rustix::process::Pid::from_raw(i32::try_from(of).unwrap()).unwrap();
    let process = rustix::process::pidfd_open(of, rustix::process::PidfdFlags::empty()).unwrap();
    credentials(0, pid).set_process_fd(zbus::OwnedFd::from(process))
}

#[tokio::test]
async fn a_bus_that_hands_out_the_process_is_asked_once() {
    let own = std::process::id();
    let caller = told(vec![with_pidfd(own, own)]).await.unwrap();
    assert_eq!((caller.uid, caller.pid, caller.inside), (0, own, false));
    assert!(matches!(told(vec![with_pidfd(own, 1)]).await, Err(Unidentified::Another(_))));
}

#[tokio::test]
async fn a_caller_that_is_not_the_same_twice_is_refused() {
    let own = std::process::id();
    assert!(told(vec![credentials(0, own), credentials(0, own)]).await.is_ok());
    for second in [credentials(0, 1), credentials(1, own)] {
        assert!(matches!(told(vec![credentials(0, own), second]).await, Err(Unidentified::Another(_))));
    }
    // It has left the bus in between, and its number may be somebody else's.
    assert!(matches!(told(vec![credentials(0, own)]).await, Err(Unidentified::Bus(..))));
    for nothing in
        [ConnectionCredentials::default().set_process_id(own), ConnectionCredentials::default().set_unix_user_id(0)]
    {
        assert!(matches!(told(vec![nothing]).await, Err(Unidentified::Missing(..))));
    }
    // What a bus says of a process in a pid namespace that it does not see.
    assert!(matches!(told(vec![credentials(0, 0)]).await, Err(Unidentified::Gone(0))));
}
