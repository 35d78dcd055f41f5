//! ssh, and the server that it and git reach.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

use super::case::{Client, Servers};
use crate::support::Sandbox;
use crate::support::network::{Program, World, any};
use crate::support::user::{self, Mount};

pub const CLIENTS: &[Client] = &[Client {
    name: "ssh",
    script: "ssh() { command ssh -F none -i key -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile=\"$FILES/ssh/known\" \"$@\"; }\n\
             FILES=$1\n\
             ssh gated-test@www.example.org 'echo says; cat' <<'END'\nhello\nEND\n\
             head -c 3000000 /dev/zero | ssh gated-test@www.example.org 'wc -c'\n\
             ssh gated-test@www.example.org 'head -c 3000000 /dev/zero' | wc -c\n",
    needs: &[("ssh", "openssh-client"), ("sshd", "openssh-server")],
    servers,
    prepare: with_key,
    hosts: &["www.example.org:22"],
    says: "says\nhello\n3000000\n3000000\n",
    refused: &["Could not resolve hostname www.example.org"],
    connects: true,
}];

/// sshd on port 22 of the internet for the test user, whose home there is `ssh/home` of the world's files.
pub fn servers(world: &World) -> Servers {
    let directory = world.files().join("ssh");
    let home = directory.join("home");
    fs::create_dir_all(&home).expect("mkdir");
    std::os::unix::fs::chown(&home, Some(user::UID), Some(user::GID)).expect("chown");
    user::write_files(&directory, &home).expect("passwd and group");
    let settings = format!(
        "Port 22\nHostKey {0}/host\nAuthorizedKeysFile {0}/key.pub\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
         PidFile none\nMaxStartups 100\n",
        directory.display()
    );
    fs::write(directory.join("settings"), settings).expect("write");
    let script = "cd \"$1\"
        for name in host key; do ssh-keygen -q -t ed25519 -N '' -f $name; done
        echo \"www.example.org $(cat host.pub)\" >known";
    world.internet.output("/bin/sh", &["-euc", script, "sh", &directory.display().to_string()], "");
    let mut mounts: Vec<Mount> =
        ["passwd", "group"].map(|name| Mount::bind(&directory.join(name), &Path::new("/etc").join(name))).into();
    // Its directory for unprivileged parts, which a package makes at boot.
    mounts.push(Mount::tmpfs(Path::new("/run"), "mode=755"));
    let mut command = world.internet.command("/bin/sh");
    command.args(["-euc", "mkdir /run/sshd; exec /usr/sbin/sshd -D -e -f \"$1/settings\"", "sh"]).arg(&directory);
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || user::enter(&mounts)) };
    vec![Box::new(Program::start(&world.internet, command, any(22), &directory.join("printed")))]
}

/// The user's key in the workspace.
pub fn with_key(world: &World, sandbox: &mut Sandbox) {
    let key = fs::read_to_string(world.files().join("ssh/key")).expect("the key");
    let file = sandbox.workspace().join("key");
    sandbox.file(&file, &key);
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
}
