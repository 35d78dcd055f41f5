//! Resolvers other than glibc's: musl's in a static program, c-ares.

use super::case::{Client, Servers, no_servers, nothing};
use crate::support::network::World;

pub const CLIENTS: &[Client] = &[
    Client {
        name: "musl",
        script: "exec \"$1/musl\" www.example.org 80\n",
        needs: &[("musl-gcc", "musl-tools")],
        servers: musl,
        prepare: nothing,
        hosts: &["www.example.org:80"],
        says: "address 192.0.2.10\naddress 2001:db8:2::10\nHTTP/1.1 200 .\n",
        refused: &["Try again", "Name does not resolve"],
        connects: true,
    },
    Client {
        name: "c_ares",
        script: "exec /usr/bin/python3 - <<'PYTHON'\n\
                 import os, pycares, select, sys\n\
                 channel, told = pycares.Channel(), []\n\
                 def ask(kind, name, show):\n\
                 \x20   def answer(result, error):\n\
                 \x20       if error:\n\
                 \x20           print(f'{name}: {pycares.errno.strerror(error)}', file=sys.stderr, flush=True)\n\
                 \x20           os._exit(1)\n\
                 \x20       told.append(show(result))\n\
                 \x20   channel.query(name, kind, answer)\n\
                 \x20   while True:\n\
                 \x20       reading, writing = channel.getsock()\n\
                 \x20       if not reading and not writing: break\n\
                 \x20       ready, able, _ = select.select(reading, writing, [], channel.timeout())\n\
                 \x20       for fd in ready: channel.process_fd(fd, pycares.ARES_SOCKET_BAD)\n\
                 \x20       for fd in able: channel.process_fd(pycares.ARES_SOCKET_BAD, fd)\n\
                 \x20       if not ready and not able: channel.process_fd(pycares.ARES_SOCKET_BAD, pycares.ARES_SOCKET_BAD)\n\
                 ask(pycares.QUERY_TYPE_A, 'www.example.org', lambda found: found[0].host)\n\
                 ask(pycares.QUERY_TYPE_AAAA, 'www.example.org', lambda found: found[0].host)\n\
                 ask(pycares.QUERY_TYPE_TXT, 'text.example.org', lambda found: found[0].text)\n\
                 ask(pycares.QUERY_TYPE_TXT, 'long.example.org', lambda found: len(found[0].text))\n\
                 ask(pycares.QUERY_TYPE_SRV, '_http._tcp.example.org', lambda found: (found[0].host, found[0].port))\n\
                 for line in told: print('says', line)\n\
                 PYTHON\n",
        needs: &[("/usr/lib/python3/dist-packages/pycares", "python3-pycares")],
        servers: no_servers,
        prepare: nothing,
        hosts: &["www.example.org:80", "text.example.org:80", "long.example.org:80", "example.org:80"],
        says: "says 192.0.2.10\nsays 2001:db8:2::10\nsays hello world\nsays 4000\nsays ('www.example.org', 80)\n",
        refused: &["DNS server refused query", "Could not contact DNS servers", "Domain name not found"],
        connects: false,
    },
];

fn musl(world: &World) -> Servers {
    let program = world.files().join("musl").display().to_string();
    let source = include_str!("../scripts/musl.c");
    world.internet.output("musl-gcc", &["-static", "-O1", "-o", &program, "-x", "c", "-"], source);
    Vec::new()
}
