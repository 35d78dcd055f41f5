//! A bus of a test's own, with a real dbus-daemon of the system's kind, and real peers on it. Everything ends with the
//! values here.

use std::fs;
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use zbus::Connection;
use zbus::connection::Builder;

use super::user::{self, Mount};

/// A bus on which everybody may do everything.
pub struct Bus {
    place: tempfile::TempDir,
    daemon: Process,
    pub address: String,
}

/// A child that is killed and reaped at the end.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const EVERYTHING: &str = r#"<allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
<allow receive_type="signal"/>"#;

impl Bus {
    /// Starts a dbus-daemon and waits until it listens.
    pub fn start() -> Bus {
        let place = tempfile::Builder::new().prefix("gated-bus-").tempdir_in("/var/tmp").expect("a directory");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let config = place.path().join("bus.conf");
        let socket = place.path().join("bus");
        let text = format!(
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
             \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig><type>system</type>\
             <listen>unix:path={}</listen><auth>EXTERNAL</auth><policy context=\"default\">{EVERYTHING}</policy></busconfig>",
            socket.display()
        );
        fs::write(&config, text).expect("the bus's configuration");
        // The bus lets in only whom it finds in the user database.
        user::write_files(place.path(), Path::new("/nonexistent")).expect("passwd and group");
        let (daemon, address) = serve(place.path());
        Bus { place, daemon, address }
    }

    /// Another daemon after [`Bus::stop`], where the first one was.
    pub fn start_again(&mut self) {
        let _ = fs::remove_file(self.path());
        let path = self.path();
        (self.daemon, _) = serve(self.place.path());
        assert!(path.exists());
    }

    pub fn path(&self) -> PathBuf {
        self.place.path().join("bus")
    }

    /// A directory of the test's that goes with the bus.
    pub fn directory(&self) -> &Path {
        self.place.path()
    }

    /// A connection of the test process's own.
    pub async fn connect(&self) -> Connection {
        Builder::address(self.address.as_str()).build().await.expect("a connection to the bus")
    }

    /// Ends the bus, as a restart or a crash would.
    pub fn stop(&mut self) {
        let _ = self.daemon.0.kill();
        let _ = self.daemon.0.wait();
    }

    /// A connection that another process has made, and that the test holds. `how` says how to start that process: a
    /// program with arguments that executes what follows them, or nothing. It lives until its standard input is closed.
    pub async fn connect_as(&self, how: &[&str], then: &str) -> Peer {
        let script = "import os, socket, sys\n\
                      s = socket.socket(socket.AF_UNIX)\n\
                      s.connect(sys.argv[1])\n\
                      exec(sys.argv[2])\n\
                      socket.send_fds(socket.socket(fileno=os.dup(0)), [b'x'], [s.fileno()])\n\
                      os.read(0, 1)";
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let path = self.path();
        let mut words: Vec<&str> = how.to_vec();
        words.extend(["/usr/bin/python3", "-c", script, path.to_str().expect("UTF-8"), then]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(OwnedFd::from(theirs));
        let process = Process(command.spawn().expect("a child"));
        drop(command);
        let socket = received(&ours);
        Peer { process, hold: Some(ours), socket: Some(socket) }
    }

    /// A real polkitd on this bus, with these actions (each with what it says to anybody), and these rules in JavaScript.
    pub fn start_polkit(&self, actions: &[(&str, &str)], rules: &str) -> Process {
        let directory = self.place.path().join("polkit");
        let (described, ruled) = (directory.join("actions"), directory.join("rules"));
        for folder in [&described, &ruled] {
            fs::create_dir_all(folder).expect("a directory");
        }
        let mut text = String::from(
            "<!DOCTYPE policyconfig PUBLIC \"-//freedesktop//DTD PolicyKit Policy Configuration 1.0//EN\" \
             \"http://www.freedesktop.org/standards/PolicyKit/1/policyconfig.dtd\">\n<policyconfig>",
        );
        for (action, any) in actions {
            text += &format!(
                "<action id=\"{action}\"><description>a</description><message>m</message><defaults>\
                 <allow_any>{any}</allow_any><allow_inactive>{any}</allow_inactive><allow_active>{any}</allow_active>\
                 </defaults></action>"
            );
        }
        fs::write(described.join("test.policy"), text + "</policyconfig>").expect("the actions");
        fs::write(ruled.join("10-test.rules"), rules).expect("the rules");
        let mut mounts = users(self.place.path());
        mounts.push(Mount::bind(&described, Path::new("/usr/share/polkit-1/actions")));
        mounts.push(Mount::bind(&ruled, Path::new("/etc/polkit-1/rules.d")));
        let mut polkitd = Command::new("/usr/lib/polkit-1/polkitd");
        polkitd.arg("--no-debug").env("DBUS_SYSTEM_BUS_ADDRESS", &self.address);
        // SAFETY: only system calls between fork and exec.
        unsafe { polkitd.pre_exec(move || user::enter(&mounts)) };
        Process(polkitd.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("polkitd is installed"))
    }

    /// Waits until somebody has this name.
    pub async fn wait_for(&self, name: &'static str) {
        let connection = self.connect().await;
        let bus = zbus::fdo::DBusProxy::new(&connection).await.expect("a proxy");
        let until = tokio::time::Instant::now() + super::wait::DEADLINE;
        let name = zbus::names::BusName::from_static_str(name).expect("a bus name");
        while !bus.name_has_owner(name.clone()).await.expect("the bus answers") {
            assert!(tokio::time::Instant::now() < until, "waited for {name}");
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
    }
}

/// A dbus-daemon with the configuration of this place, and its address once it listens.
fn serve(place: &Path) -> (Process, String) {
    let mounts = users(place);
    let mut daemon = Command::new("dbus-daemon");
    // SAFETY: only system calls between fork and exec.
    unsafe { daemon.pre_exec(move || user::enter(&mounts)) };
    daemon
        .args(["--nofork", "--nopidfile", "--nosyslog", "--print-address=1", "--config-file"])
        .arg(place.join("bus.conf"));
    let log = fs::File::create(place.join("log")).expect("a log");
    let mut daemon = Process(daemon.stderr(log).stdout(Stdio::piped()).spawn().expect("dbus-daemon is installed"));
    let mut address = String::new();
    let told = BufReader::new(daemon.0.stdout.take().expect("piped")).read_line(&mut address);
    assert!(told.is_ok_and(|length| length > 0), "dbus-daemon says where it listens");
    (daemon, address.trim().to_owned())
}

/// The user database with the test user, in the place of the machine's.
fn users(files: &Path) -> Vec<Mount> {
    ["passwd", "group"].map(|name| Mount::bind(&files.join(name), &Path::new("/etc").join(name))).into()
}

fn received(from: &UnixStream) -> UnixStream {
    let mut byte = [0];
    let mut space = nix::cmsg_space!([i32; 1]);
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(from.as_raw_fd(), &mut buffers, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC);
    let message = message.expect("the child sends its connection");
    for control in message.cmsgs().expect("whole control messages") {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            use std::os::fd::FromRawFd;
            // SAFETY: the kernel has just given this descriptor to us alone.
            return UnixStream::from(unsafe { OwnedFd::from_raw_fd(descriptors[0]) });
        }
    }
    panic!("the child ended without a connection");
}

/// A process that has connected to the bus; the test holds the connection and speaks on it.
pub struct Peer {
    pub process: Process,
    hold: Option<UnixStream>,
    socket: Option<UnixStream>,
}

impl Peer {
    /// The connection, once; `uid` is whose it is.
    pub async fn speak(&mut self, uid: u32) -> Connection {
        let socket = self.socket.take().expect("spoken on once");
        Builder::unix_stream(socket).user_id(uid).build().await.expect("a connection")
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Ends the process; its connection stays.
    pub fn end(&mut self) {
        if let Some(mut hold) = self.hold.take() {
            let _ = hold.write(b"x");
        }
        assert!(self.process.0.wait().is_ok());
    }
}
