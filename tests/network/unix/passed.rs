//! `--pass-fd`: exactly what is named enters, at its number.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};

use super::host::Host;
use crate::Test;
use crate::support::Side;

pub const TESTS: &[Test] = &[
    ("what_is_named_is_there_and_nothing_else", numbers),
    ("a_listening_socket_that_is_passed_serves_natively", listening),
    ("what_leads_out_is_refused", refused),
];

/// A shell that opens files for the command line that follows, as the test's starter closes all.
fn under(host: &Host, opens: &str, options: &str, command: &str) -> crate::support::Outcome {
    let gated = host.sandbox.gated_argv(&["SPLIT"]);
    let words: Vec<String> = gated.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words = &words[..words.len() - 2];
    let line = format!("{opens}; exec {} {options} -- {command}", words.join(" "));
    let argv = ["/bin/bash".into(), "-c".into(), line.into()];
    host.sandbox.start_line(Side::Gated, &argv, None).finish()
}

const LIST: &str = "/usr/bin/python3 -c 'import os\nfor fd in os.listdir(\"/proc/self/fd\"):\n    \
                    try: print(fd, os.readlink(\"/proc/self/fd/\" + fd))\n    except OSError: pass'";

fn numbers() {
    let host = Host::new();
    host.profile("deny", "");
    let file = host.sandbox.outside().join("given");
    host.sandbox.file(&file, "contents\n");
    let opens = format!("exec 3<{0} 4<{0} 5<{0} 9<{0} 250>>{0}", file.display());
    let bare = host.sandbox.bare(&["/bin/bash", "-c", &format!("{opens}; {LIST}")]).out();
    assert_eq!(bare.matches("/given").count(), 5, "{bare}");
    let named = under(&host, &opens, "--pass-fd 250 --pass-fd 3 --pass-fd 9", LIST);
    named.assert_code(0);
    let mut given: Vec<String> = named
        .out()
        .lines()
        .filter(|line| line.ends_with("/given"))
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    given.sort();
    named.assert(given == ["250", "3", "9"], "exactly these numbers");
    named.assert(named.out().lines().count() == 6, "besides stdio nothing else");
    let none = under(&host, &opens, "", LIST);
    none.assert(none.out().lines().count() == 3, "without the option only stdio");
    let written = under(&host, &opens, "--pass-fd 250", "/bin/bash -c 'echo more >&250'");
    written.assert_code(0);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "contents\nmore\n");
    let late = under(&host, &opens, "--pass-fd 3", "/nonexistent");
    late.assert_code(127);
}

fn listening() {
    let host = Host::new();
    host.profile("deny", "");
    let script = "import socket\n\
                  server = socket.socket(fileno=7); one, _ = server.accept(); one.sendall(b'inside'); one.close()";
    let file = host.sandbox.workspace().join("serve.py");
    host.sandbox.file(&file, script);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("bound");
    let listener = OwnedFd::from(listener);
    let number = listener.as_raw_fd();
    // The shell takes it from this process, whose children get nothing else.
    let opens = format!("exec 7<&{number}");
    let client = std::thread::spawn(move || {
        let mut word = String::new();
        let mut one = TcpStream::connect(address).expect("connect");
        one.write_all(b"").expect("write");
        one.read_to_string(&mut word).expect("read");
        word
    });
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).expect("fcntl");
    let outcome = under(&host, &opens, "--pass-fd 7", &format!("/usr/bin/python3 {}", file.display()));
    outcome.assert_code(0);
    assert_eq!(client.join().expect("the client"), "inside");
}

fn refused() {
    let host = Host::new();
    host.profile("deny", "");
    for (opens, what) in
        [("exec 7</", "a directory"), ("exec 7<>/dev/udp/127.0.0.1/9", "a socket that can send to any address")]
    {
        let outcome = under(&host, opens, "--pass-fd 7", "true");
        outcome.assert_code(125);
        outcome.assert(outcome.err().contains(&format!("descriptor 7 is {what}")), "it is said");
    }
    let outcome = under(&host, "true", "--pass-fd 7", "true");
    outcome.assert_code(125);
    outcome.assert(outcome.err().contains("--pass-fd 7: Bad file descriptor"), "it is not open");
}
