//! polkit's own agent for text terminals, for as long as an answer is on its way that may need a password. Runs as the
//! caller, who types it to polkit's agent and not to us.

use std::io::{IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

/// pkttyagent(1), until dropped.
pub struct TextAgent(Option<Child>);

impl TextAgent {
    /// Only where there is a terminal to ask on. Without one, or without the program, polkit asks whoever else is registered.
    pub fn start_if(may_be_needed: bool) -> TextAgent {
        let wanted = may_be_needed && std::io::stdin().is_terminal() && !nix::unistd::geteuid().is_root();
        TextAgent(wanted.then(start).flatten())
    }
}

// Not as a fallback behind a desktop's agent: polkit 122 does not look for that of a process outside of logind's sessions, and
// whoever types at a terminal looks there.
fn start() -> Option<Child> {
    let (mut reader, writer) = std::io::pipe().ok()?;
    // The agent closes this descriptor when it is registered; it must survive the execve(2).
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).ok()?;
    let child = Command::new("pkttyagent")
        .arg("--process")
        .arg(std::process::id().to_string())
        .arg("--notify-fd")
        .arg(writer.as_raw_fd().to_string())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    drop(writer);
    // End of file: it is there, or it failed.
    let _closed = reader.read(&mut [0]);
    Some(child)
}

impl Drop for TextAgent {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            // It puts the terminal's echo back on the way out.
            let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _gone = child.wait();
        }
    }
}
