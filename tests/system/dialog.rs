//! A polkit authentication agent that types a password, as a desktop's dialog would have a person do: run in the booted
//! system, as the user who is asked. This test program is its own agent, because programs that were built here run there.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use zbus::{OwnedVariant, interface};
use zbus_polkit::policykit1::{AuthorityProxy, Subject};

use super::boot::System;

/// The first argument that makes this program the agent.
pub const ROLE: &str = "types-a-password";
/// Where it is in the booted system.
const PLACE: &str = "/usr/local/bin/types-a-password";
/// What verifies a password with PAM and tells polkit, polkit-agent-helper-1 of Debian's polkitd.
const HELPER: &str = "/usr/lib/polkit-1/polkit-agent-helper-1";

/// Puts the agent into a system.
pub fn install(system: &System) {
    let own = std::env::current_exe().expect("this program");
    std::fs::copy(own, system.path(PLACE)).expect("a copy of this program");
}

/// A shell command that runs `command` with an agent for it that types `password`.
pub fn typing(password: &str, command: &str) -> String {
    format!("{PLACE} {ROLE} {password} {command}")
}

struct Dialog {
    user: String,
    password: String,
}

#[interface(name = "org.freedesktop.PolicyKit1.AuthenticationAgent")]
impl Dialog {
    #[allow(clippy::too_many_arguments, reason = "polkit's interface")]
    async fn begin_authentication(
        &self,
        action: String,
        _message: String,
        _icon: String,
        _details: HashMap<String, String>,
        cookie: String,
        _identities: Vec<(String, HashMap<String, OwnedVariant>)>,
    ) {
        eprintln!("asked for {action}");
        let (user, lines) = (self.user.clone(), format!("{cookie}\n{}\n", self.password));
        let typed = tokio::task::spawn_blocking(move || {
            let mut helper = Command::new(HELPER);
            let piped = helper.arg(user).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut helper = piped.expect("polkit's helper");
            // One that is gone has refused.
            let _ = helper.stdin.take().expect("a pipe").write_all(lines.as_bytes());
            helper.wait().expect("a child")
        });
        typed.await.expect("a thread");
    }

    async fn cancel_authentication(&self, _cookie: String) {}
}

/// The agent: runs the rest of the command line, and answers what polkit asks about that process.
pub fn main(arguments: &[String]) -> ExitCode {
    let [password, command @ ..] = arguments else { panic!("a password and a command") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connection = zbus::Connection::system().await.expect("the system bus");
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().expect("this user");
        let dialog = Dialog { user: user.name, password: password.clone() };
        connection.object_server().at("/dialog", dialog).await.expect("an object");
        // It waits until the agent is there: polkit looks for one by process and start time, which execve(2) keeps.
        let script = ["-c", "read -r _; exec \"$@\" </dev/null", "sh"];
        let started = tokio::process::Command::new("sh").args(script).args(command).stdin(Stdio::piped()).spawn();
        let mut child = started.expect("sh");
        let pid = child.id().expect("it runs");
        let subject = Subject::new_for_pid(pid, None, Some(user.uid.as_raw())).expect("a process");
        let authority = AuthorityProxy::new(&connection).await.expect("polkit");
        authority.register_authentication_agent(&subject, "C", "/dialog").await.expect("an agent");
        let mut stdin = child.stdin.take().expect("a pipe");
        tokio::io::AsyncWriteExt::write_all(&mut stdin, b"go\n").await.expect("it reads");
        let status = child.wait().await.expect("a child");
        ExitCode::from(u8::try_from(status.code().unwrap_or(255)).unwrap_or(255))
    })
}
