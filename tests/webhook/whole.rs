//! All of it: the daemon on a system bus, a command of an ordinary user under gated-run, `gated-notify --webhook` with its
//! files in their places, the bridge of the examples, and a browser that presses a button. Needs root, as the daemon does.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use super::agent::write;
use super::server::SECRET;
use super::support::system_bus::{Bus, Process};
use super::support::{Running, Sandbox, Side, until, user, wait};

/// Ends what descends from it too: supervisors would wait for the next daemon.
struct Daemon<'a>(Running<'a>);

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let below = wait::descendants(self.0.pid());
        self.0.pidfd.kill(libc::SIGKILL);
        below.iter().for_each(|process| process.kill(libc::SIGKILL));
    }
}

/// The bridge of the examples, and the path of its page.
struct Bridge {
    _process: Process,
    address: String,
    page: String,
}

impl Bridge {
    fn start(secret: &std::path::Path) -> Bridge {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/webhook-bridge.py");
        let mut command = Command::new("python3");
        command.arg(program).arg(secret).arg("0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process(command.spawn().expect("python3"));
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, page) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        Bridge { _process: process, address: address.to_owned(), page: format!("/{page}") }
    }

    fn exchange(&self, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let text = format!("{head} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Presses the button with this label as soon as a page shows it beside this text.
    fn press(&self, label: &str, beside: &str) {
        let (request, token) = until("a button", || {
            let page = self.exchange(&format!("GET {}", self.page), "");
            let form = page.split("<form ").find(|form| form.contains(&format!("<button>{label}</button>")))?;
            let value = |name: &str| {
                let behind = form.split_once(&format!("name={name} value='"))?.1;
                Some(behind.split_once('\'')?.0.to_owned())
            };
            page.contains(beside).then(|| Some((value("request")?, value("token")?)))?
        });
        let pressed = self.exchange(&format!("POST {}", self.page), &format!("request={request}&token={token}"));
        assert!(pressed.starts_with("HTTP/1.0 303"), "{pressed}");
    }
}

/// With an `/etc` of its own, as root, and then as the person: an admin's file cannot be the person's.
const NOTIFY: &str = r#"set -e
cp -a /etc "$1"
mkdir -p "$1/gated"
echo 'hosts = ["127.0.0.1"]' > "$1/gated/webhook.toml"
mount --bind "$1" /etc
exec setpriv --reuid "$2" --regid "$3" --clear-groups "$4" --webhook"#;

#[test]
fn a_button_on_a_page_lets_a_held_write_go_on() {
    let bus = Bus::start();
    let sandbox = Sandbox::new();
    let address = OsString::from(format!("DBUS_SYSTEM_BUS_ADDRESS={}", bus.address));
    let policy = sandbox.control().join("policy/etc/gated");
    fs::create_dir_all(&policy).unwrap();
    fs::write(policy.join("ceiling.toml"), format!("schema = 1\n[users]\nmay_run = [\"{}\"]\n", user::NAME)).unwrap();
    // Where everybody can execute them.
    let [run, notify] = ["gated-run", "gated-notify"].map(|name| sandbox.root().join("bin").join(name));
    fs::copy(env!("CARGO_BIN_EXE_gated-run"), &run).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_gated-notify"), &notify).unwrap();
    let mut line: Vec<OsString> = vec!["env".into(), address.clone(), env!("CARGO_BIN_EXE_gatedd").into()];
    for (option, file) in
        [("--runtime", "run"), ("--audit", "records/audit.jsonl"), ("--policy-root", "policy"), ("--state", "state")]
    {
        line.extend([option.into(), sandbox.control().join(file).into()]);
    }
    line.extend(["--supervisors", "spawn"].map(OsString::from));
    let _daemon = Daemon(sandbox.start_line(Side::Gated, &line, None));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(bus.wait_for("org.gated.Gated1"));

    let secret = sandbox.control().join("secret");
    write(&secret, SECRET, 0o600);
    let bridge = Bridge::start(&secret);
    let (own, url) = (sandbox.home().join(".config/gated/webhook.toml"), format!("http://{}", bridge.address));
    sandbox.file(&own, &format!("url = \"{url}/gated\"\nreply_url = \"{url}/replies\"\nsecret = \"{SECRET}\"\n"));
    fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut line: Vec<OsString> = vec!["env".into(), address.clone()];
    // Nobody is there: who looked at these would reach nothing.
    line.extend(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| format!("{name}=http://127.0.0.1:9").into()));
    line.extend(["sh", "-c", NOTIFY, "sh"].map(OsString::from));
    line.push(sandbox.control().join("etc").into());
    line.extend([user::UID.to_string().into(), user::GID.to_string().into(), notify.into()]);
    let agent = Daemon(sandbox.start_line(Side::Gated, &line, None));
    until("the agent", || agent.0.errors_so_far().contains("a consent agent from now on").then_some(()));

    let write_to = |name: &str| {
        let file = sandbox.outside().join(name);
        let mut line: Vec<OsString> = vec!["env".into(), address.clone(), run.clone().into()];
        line.extend(["--consent", "none", "sh", "-c"].map(OsString::from));
        line.push(format!("echo hello > {}", file.display()).into());
        (sandbox.start_line(Side::Bare, &line, None), file)
    };
    let (running, file) = write_to("yes");
    bridge.press("Allow once", &file.display().to_string());
    running.finish().assert_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "hello\n", "{}", agent.0.errors_so_far());
    let (running, file) = write_to("no");
    bridge.press("Deny", &file.display().to_string());
    let outcome = running.finish();
    assert!(!file.exists() && outcome.code() != 0, "{outcome}");
    let records = fs::read_to_string(sandbox.control().join("records/audit.jsonl")).unwrap();
    assert_eq!(records.matches(&format!("\"answered_by\":\"webhook:{}\"", user::NAME)).count(), 2, "{records}");
    assert!(!agent.0.errors_so_far().contains(SECRET));
}
