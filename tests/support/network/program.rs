//! A server that is a program of Debian's or a script, in a namespace. Ends with the test, and with this.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use super::super::until;
use super::Namespace;

pub struct Program {
    child: Child,
    title: String,
    printed: std::path::PathBuf,
}

impl Program {
    /// Starts it, its output to the file `printed`, and waits until it takes connections at `at`.
    #[track_caller]
    pub fn start(namespace: &Namespace, mut command: Command, at: SocketAddr, printed: &std::path::Path) -> Program {
        let title = format!("{command:?}");
        let output = File::create(printed).expect("a file");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("dup")).stderr(output);
        let child = command.spawn().unwrap_or_else(|error| panic!("{title}: {error}: make test installs it"));
        let mut program = Program { child, title, printed: printed.to_owned() };
        until(&format!("a server at {at}"), || {
            if let Ok(Some(status)) = program.child.try_wait() {
                panic!("{}: {status}\n{}", program.title, program.printed());
            }
            namespace.inside(|| TcpStream::connect(at)).ok()
        });
        program
    }

    /// What it printed so far.
    pub fn printed(&self) -> String {
        std::fs::read(&self.printed).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
