//! A message bus of a test's own: a real dbus-daemon with a socket and a configuration in a temporary directory. It runs as
//! whoever runs the tests, and takes connections of every user.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running bus; it ends with this, and with the thread that started it.
pub struct PrivateBus {
    daemon: Child,
    directory: tempfile::TempDir,
    address: String,
}

impl PrivateBus {
    /// A bus on which everybody may own every name and send to everybody.
    #[track_caller]
    pub fn start() -> PrivateBus {
        PrivateBus::with_policy(
            "<policy context=\"default\"><allow own=\"*\"/><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow receive_sender=\"*\"/><allow user=\"*\"/></policy>",
        )
    }

    /// A bus with these elements in its configuration, dbus-daemon(1): policies, includes, service directories.
    #[track_caller]
    pub fn with_policy(elements: &str) -> PrivateBus {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::process::CommandExt;

        let directory = tempfile::tempdir().expect("a temporary directory");
        // Other users connect too.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("chmod of a directory of ours");
        let configuration = directory.path().join("bus.conf");
        let text = format!(
            "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
             \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig><type>session</type>\
             <listen>unix:path={}</listen><auth>EXTERNAL</auth>{elements}</busconfig>\n",
            directory.path().join("socket").display()
        );
        std::fs::write(&configuration, text).expect("write the configuration");
        let complaints = directory.path().join("stderr");
        let mut command = Command::new("dbus-daemon");
        // SAFETY: between fork and exec one system call is made. A killed test leaves no bus behind.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut daemon = command
            .args(["--nofork", "--nopidfile", "--nosyslog", "--print-address=1"])
            .arg(format!("--config-file={}", configuration.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&complaints).expect("a file in a directory of ours"))
            .spawn()
            .expect("dbus-daemon is installed");
        let mut address = String::new();
        let stdout = daemon.stdout.take().expect("a pipe was asked for");
        BufReader::new(stdout).read_line(&mut address).expect("dbus-daemon prints its address");
        let address = address.trim().to_owned();
        let said = std::fs::read_to_string(complaints).unwrap_or_default();
        assert!(address.starts_with("unix:"), "dbus-daemon did not start: {said}");
        PrivateBus { daemon, directory, address }
    }

    /// For `DBUS_SYSTEM_BUS_ADDRESS`.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Where the configuration and the socket are; gone with the bus.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub async fn connect(&self) -> zbus::Connection {
        zbus::connection::Builder::address(self.address()).build().await.expect("a connection to the private bus")
    }

    /// Ends the bus now, as if it had crashed.
    pub fn kill(&mut self) {
        // A child that has ended cannot be killed and need not be.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        self.kill();
    }
}
