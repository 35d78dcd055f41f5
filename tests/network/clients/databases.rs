//! psql.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::case::{Client, Servers, nothing};
use crate::support::network::{Program, WWW, World};
use crate::support::user::{self, Mount};

pub const CLIENTS: &[Client] = &[Client {
    name: "psql",
    script: "psql -X -At -h www.example.org -U gated-test postgres <<'SQL'\n\
             create table words (word text);\n\
             insert into words select 'hello' || number from generate_series(1, 1000) as number;\n\
             select 'says', count(*), max(length(word)) from words;\n\
             \\copy words to 'words.txt'\n\
             SQL\n\
             wc -l <words.txt\n",
    needs: &[("psql", "postgresql"), ("/usr/lib/postgresql", "postgresql")],
    servers: postgres,
    prepare: nothing,
    hosts: &["www.example.org:5432"],
    says: "CREATE TABLE\nINSERT 0 1000\nsays|1000|9\nCOPY 1000\n1000\n",
    refused: &["could not translate host name \"www.example.org\" to address"],
    connects: true,
}];

fn postgres(world: &World) -> Servers {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("apt-get install postgresql").flatten();
    let programs: PathBuf = versions.map(|entry| entry.path().join("bin")).max().expect("a version");
    let directory = world.files().join("postgres");
    fs::create_dir(&directory).expect("mkdir");
    std::os::unix::fs::chown(&directory, Some(user::UID), Some(user::GID)).expect("chown");
    user::write_files(world.files(), &directory).expect("passwd and group");
    let mounts =
        ["passwd", "group"].map(|name| Mount::bind(&world.files().join(name), &PathBuf::from("/etc").join(name)));
    let script = "cd \"$2\"
        \"$1/initdb\" -A trust -N --no-instructions -D data
        echo 'host all all all trust' >>data/pg_hba.conf
        exec \"$1/postgres\" -D data -c listen_addresses='*' -c unix_socket_directories= -c fsync=off";
    let mut command = world.internet.command("/bin/sh");
    command.args(["-euc", script, "sh"]).args([&programs, &directory]).env("LC_ALL", "C.UTF-8");
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(&mut command, move || {
            user::enter(&mounts)?;
            user::become_test_user()?;
            // The change of credentials cleared it.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    let at = SocketAddr::new(WWW, 5432);
    vec![Box::new(Program::start(&world.internet, command, at, &world.files().join("postgres.log")))]
}
