//! The files: whose they must be, who may read them, and where they may send to. And TLS, to whom.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gated::consent::webhook::client::Client;

use super::agent::{Files, write};
use super::server::SECRET;

#[track_caller]
fn refused(files: &Files, because: &str) {
    let error = files.read().expect_err("refused").to_string();
    assert!(error.contains(because) && !error.contains(SECRET) && !error.contains('\n'), "{error}");
}

#[test]
fn a_file_that_others_could_read_or_write_is_refused() {
    let files = Files::new();
    refused(&files, "own.toml: No such file");
    let text = format!("url = \"http://127.0.0.1:1/\"\nsecret = \"{SECRET}\"\n");
    files.own(&text);
    assert!(files.read().is_ok());
    for mode in [0o640, 0o604, 0o620, 0o666] {
        write(&files.place("own.toml"), &text, mode);
        refused(&files, "others may read the secret in it: chmod 600");
    }
    fs::rename(files.place("own.toml"), files.place("elsewhere")).unwrap();
    fs::set_permissions(files.place("elsewhere"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink(files.place("elsewhere"), files.place("own.toml")).unwrap();
    refused(&files, "it is a symbolic link");
    fs::remove_file(files.place("own.toml")).unwrap();
    fs::create_dir(files.place("own.toml")).unwrap();
    refused(&files, "it is no regular file");
    fs::remove_dir(files.place("own.toml")).unwrap();
    files.own(&text);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(files.place("own.toml"), Some(65534), None).unwrap();
        refused(&files, "it belongs to somebody else");
        files.own(&text);
        std::os::unix::fs::chown(files.place("own.toml"), Some(0), None).unwrap();
    }
    write(&files.place("admin.toml"), "hosts = [\"127.0.0.1\"]", 0o664);
    refused(&files, "others than its owner may write it");
}

#[test]
fn without_the_admins_word_nothing_is_sent_anywhere() {
    let files = Files::new();
    let own = |url: &str| files.own(&format!("url = \"{url}\"\nsecret = \"{SECRET}\"\n"));
    own("https://bridge.example.org/hook");
    fs::remove_file(files.place("admin.toml")).unwrap();
    refused(&files, "an administrator must name the hosts");
    files.admin("hosts = []");
    refused(&files, "url: /etc/gated/webhook.toml does not allow bridge.example.org:443");
    files.admin("hosts = [\"Bridge.Example.org\", \"127.0.0.1:8080\", \"[::1]\"]");
    for good in [
        "https://bridge.example.org/hook",
        "https://BRIDGE.example.org:8443/x?y=z",
        "http://127.0.0.1:8080/",
        "http://[::1]:1/",
    ] {
        own(good);
        files.read().unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for elsewhere in [
        "https://example.org/",
        "https://bridge.example.org.evil.org/",
        "https://xbridge.example.org/",
        "http://127.0.0.1:8081/",
        "https://127.0.0.2:8080/",
    ] {
        own(elsewhere);
        refused(&files, "does not allow");
    }
    files.own(&format!(
        "url = \"https://bridge.example.org/\"\nreply_url = \"https://evil.org/\"\nsecret = \"{SECRET}\"\n"
    ));
    refused(&files, "reply_url: /etc/gated/webhook.toml does not allow evil.org:443");
    files.own(&format!(
        "url = \"https://bridge.example.org/\"\nproxy = \"http://evil.org:3128\"\nsecret = \"{SECRET}\"\n"
    ));
    refused(&files, "proxy: /etc/gated/webhook.toml does not allow evil.org:3128");
    for odd in ["hosts = [\"https://x\"]", "hosts = [\"a/b\"]", "hosts = [\"u@x\"]", "hosts = [\"*\"]"] {
        files.admin(odd);
        refused(&files, "is no host");
    }
}

#[test]
fn only_this_machine_is_spoken_to_without_tls() {
    let files = Files::new();
    files.admin("hosts = [\"bridge.example.org\", \"192.0.2.7\", \"localhost\", \"127.0.0.1\"]");
    let own = |url: &str| files.own(&format!("url = \"{url}\"\nsecret = \"{SECRET}\"\n"));
    for plain in ["http://bridge.example.org/", "http://192.0.2.7/", "http://bridge.example.org:443/"] {
        own(plain);
        refused(&files, "http only to this machine");
    }
    for odd in [
        "ftp://127.0.0.1/",
        "127.0.0.1/",
        "https://user:pw@bridge.example.org/",
        "https://bridge.example.org/#x",
        "https:///x",
        "",
    ] {
        own(odd);
        refused(&files, "url: a URL https://HOST/… was expected");
    }
    own("http://localhost:99/");
    assert!(files.read().is_ok());
}

#[test]
fn what_a_file_says_is_checked() {
    let files = Files::new();
    let url = "url = \"http://127.0.0.1:1/\"\n";
    for (text, because) in [
        (String::new(), "missing field `url`"),
        (url.to_owned(), "secret is missing"),
        (format!("{url}secret = \"short\""), "32 characters at the least"),
        (format!("{url}secret = \"{SECRET}\"\nhosts = []"), "unknown field `hosts`"),
        (format!("{url}secret = \"{SECRET}\"\ntimeout = \"11m\""), "timeout: `1s` to `10m`"),
        (format!("{url}secret = \"{SECRET}\"\npoll = \"0s\""), "poll: `1s` to `10m`"),
        (format!("{url}secret = \"{SECRET}\"\ntopic = \"x\""), "are for mode = \"ntfy\""),
        (format!("{url}mode = \"ntfy\""), "topic is missing"),
        (format!("{url}mode = \"ntfy\"\ntopic = \"short\""), "that nobody guesses"),
        (format!("{url}mode = \"ntfy\"\nsecret = \"{SECRET}\""), "are for mode = \"json\""),
        (format!("{url}secret = {SECRET}"), "own.toml: "),
    ] {
        files.own(&text);
        refused(&files, because);
    }
}

/// A server with a certificate for `localhost` by an authority of the test's own.
struct Tls {
    child: Child,
    port: u16,
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

fn openssl(directory: &Path, line: &str) {
    let status = Command::new("openssl").args(line.split(' ')).current_dir(directory).stderr(Stdio::null()).status();
    assert!(status.unwrap().success(), "openssl {line}");
}

fn tls(directory: &Path) -> Tls {
    use std::io::{BufRead, BufReader};
    openssl(
        directory,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test",
    );
    openssl(
        directory,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key -out own.csr -subj /CN=localhost",
    );
    fs::write(directory.join("ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(
        directory,
        "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile ext",
    );
    fs::set_permissions(directory.join("ca.pem"), PermissionsExt::from_mode(0o644)).unwrap();
    let mut child = Command::new("python3");
    child.args(["-c", SERVER, "own.pem", "own.key"]).current_dir(directory);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Tls { child, port: line.trim().parse().unwrap() }
}

#[test]
fn tls_is_believed_by_its_roots_and_its_name_alone() {
    let files = Files::new();
    let server = tls(files.directory.path());
    files.admin("hosts = [\"localhost\", \"127.0.0.1\"]");
    let url = format!("https://localhost:{}/", server.port);
    let get = |url: &str, more: &str| {
        let settings = files.of(url, more);
        Client::new(&settings).unwrap().get(url, &[])
    };
    let own_root = format!("ca_file = \"{}\"", files.place("ca.pem").display());
    assert_eq!(get(&url, &own_root).unwrap(), b"{}");
    let stranger = get(&url, "").unwrap_err();
    assert!(!stranger.is_passing() && stranger.to_string().contains("certificate"), "{stranger}");
    // The certificate is for another name.
    let other = get(&format!("https://127.0.0.1:{}/", server.port), &own_root).unwrap_err();
    assert!(other.to_string().contains("certificate"), "{other}");
    fs::write(files.place("empty.pem"), "nothing").unwrap();
    let none = files.of(&url, &format!("ca_file = \"{}\"", files.place("empty.pem").display()));
    assert!(Client::new(&none).is_err());
}
