//! git over HTTP and over ssh.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::case::{Client, Servers, nothing};
use super::shells;
use crate::support::network::{Request, Response, World};
use crate::support::user;

pub const CLIENTS: &[Client] = &[
    Client {
        name: "git_over_http",
        script: concat!("url=http://www.example.org/git/repo.git\n", include_str!("../scripts/git.sh")),
        needs: &[("git", "git")],
        servers: http,
        prepare: nothing,
        hosts: &["www.example.org:80"],
        says: "says hello\nsays 2 refs\nsays pushed\n",
        refused: &["Could not resolve host: www.example.org"],
        connects: true,
    },
    Client {
        name: "git_over_ssh",
        script: concat!(
            "url=gated-test@www.example.org:repo.git\n",
            "export GIT_SSH_COMMAND=\"ssh -F none -i $PWD/key -o BatchMode=yes -o UserKnownHostsFile=$1/ssh/known\"\n",
            include_str!("../scripts/git.sh")
        ),
        needs: &[("git", "git"), ("ssh", "openssh-client"), ("sshd", "openssh-server")],
        servers: ssh,
        prepare: shells::with_key,
        hosts: &["www.example.org:22"],
        says: "says hello\nsays 2 refs\nsays pushed\n",
        refused: &["Could not resolve hostname www.example.org"],
        connects: true,
    },
];

/// A bare repository `repo.git` with one commit.
const MAKE: &str = "cd \"$1\"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
git init -q -b main first
echo hello >first/file
git -C first add file
git -C first commit -q -m first
git clone -q --bare first repo.git
git -C repo.git config http.receivepack true
rm -r first";

fn http(world: &World) -> Servers {
    let directory = world.files().join("git");
    fs::create_dir(&directory).expect("mkdir");
    world.internet.output("/bin/sh", &["-euc", MAKE, "sh", &directory.display().to_string()], "");
    let root = directory.display().to_string();
    world.web.handle(move |request| request.path().strip_prefix("/git").map(|path| backend(&root, path, request)));
    Vec::new()
}

fn ssh(world: &World) -> Servers {
    let servers = shells::servers(world);
    let home = world.files().join("ssh/home");
    world.internet.output("/bin/sh", &["-euc", MAKE, "sh", &home.display().to_string()], "");
    let owner = format!("{}:{}", user::UID, user::GID);
    world.internet.output("/bin/chown", &["-R", &owner, &home.display().to_string()], "");
    servers
}

/// git-http-backend(1), a CGI program.
fn backend(root: &str, path: &str, request: &Request) -> Response {
    let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
    let mut command = Command::new("git");
    command.arg("http-backend").env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("PATH_INFO", path);
    command.env("REQUEST_METHOD", &request.method).env("CONTENT_TYPE", header("content-type"));
    command.env("QUERY_STRING", request.target.split_once('?').map_or("", |(_, query)| query));
    command.env("HTTP_CONTENT_ENCODING", header("content-encoding")).env("GIT_PROTOCOL", header("git-protocol"));
    command.env("CONTENT_LENGTH", request.body.len().to_string()).env("REMOTE_USER", "a").env("REMOTE_ADDR", "a");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git");
    let mut stdin = child.stdin.take().expect("a pipe");
    let body = request.body.clone();
    let feeder = std::thread::spawn(move || {
        let _ = stdin.write_all(&body);
    });
    let output = child.wait_with_output().expect("wait").stdout;
    let _ = feeder.join();
    let end = output.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(output.len());
    let mut response =
        Response { status: 200, headers: Vec::new(), body: output.get(end + 4..).unwrap_or_default().to_vec() };
    for (name, value) in String::from_utf8_lossy(&output[..end]).lines().filter_map(|line| line.split_once(": ")) {
        match name {
            "Status" => response.status = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500),
            _ => response.headers.push((name.to_owned(), value.to_owned())),
        }
    }
    response
}
