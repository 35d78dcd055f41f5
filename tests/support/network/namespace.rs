//! Network namespaces, sockets and commands in them. Runs in the test process, as root.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Lives while a descriptor of it, a process or a socket in it does.
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// One with nothing but a loopback that is up.
    pub fn new() -> Namespace {
        let made = || {
            // SAFETY: unshare(2) takes an integer; CLONE_NEWNET moves the calling thread alone, which ends here.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
            File::open("/proc/thread-self/ns/net").expect("a network namespace")
        };
        let namespace = Namespace { file: on_a_thread(made) };
        namespace.ip("link set lo up");
        namespace
    }

    /// The same namespace, held once more.
    pub fn again(&self) -> Namespace {
        Namespace { file: self.file.try_clone().expect("dup") }
    }

    /// Does `work` in the namespace: sockets that it makes stay there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let fd = self.file.as_raw_fd();
        on_a_thread(move || {
            enter(fd).expect("setns");
            work()
        })
    }

    /// A command of root's in the namespace, that ends with the test.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let fd = self.file.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                enter(fd)?;
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        command
    }

    /// Runs a command with this on stdin to its end, and gives what it printed; panics if it fails.
    #[track_caller]
    pub fn output(&self, program: &str, args: &[&str], stdin: &str) -> String {
        let mut command = self.command(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}: make test installs it"));
        // One that ends without reading all says why below.
        let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
        let output = child.wait_with_output().expect("wait");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {}: {}\n{told}{stdin}", args.join(" "), output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Commands of ip(8), one a line.
    #[track_caller]
    pub fn ip(&self, lines: &str) {
        self.output("/sbin/ip", &["-batch", "-"], lines);
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Moves the calling thread into a namespace; only makes system calls: usable between fork and exec.
pub fn enter(fd: RawFd) -> io::Result<()> {
    // SAFETY: setns(2) takes two integers.
    if unsafe { libc::setns(fd, libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Its namespaces are its own, and gone with it.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Joins a machine and the internet by a pair of interfaces.
pub fn join(machine: &Namespace, internet: &Namespace) {
    let peer = format!("/proc/{}/fd/{}", std::process::id(), internet.file.as_raw_fd());
    machine.ip(&format!("link add eth0 type veth peer name eth0 netns {peer}\nlink set eth0 addrgenmode none\n"));
    // IPv4 binds to any address that has a local route; IPv6 to addresses of interfaces alone, but for this (ipv6_chk_addr).
    internet.inside(|| fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1")).expect("sysctl");
    internet.ip(INTERNET);
    machine.ip(MACHINE);
}

/// The default routes let everything arrive, without taking what has a better route.
const INTERNET: &str = "\
link set eth0 addrgenmode none
link set eth0 up
address add 198.51.100.1/24 dev eth0
address add 2001:db8:ffff::1/64 dev eth0 nodad
route add local 192.0.2.0/24 dev lo
route add local 203.0.113.0/24 dev lo
route add local 10.0.0.0/8 dev lo
route add local 172.16.0.0/12 dev lo
route add local 192.168.0.0/16 dev lo
route add local 169.254.0.0/16 dev lo
route add local 8.8.8.8 dev lo
route add local 1.1.1.1 dev lo
route add local default dev lo table main
route add local 2001:db8::/36 dev lo
route add local fd00::/8 dev lo
route add local ::/0 dev lo table main
";

const MACHINE: &str = "\
link set eth0 up
address add 198.51.100.2/24 dev eth0
address add 2001:db8:ffff::2/64 dev eth0 nodad
route add default via 198.51.100.1
route add ::/0 via 2001:db8:ffff::1
";
