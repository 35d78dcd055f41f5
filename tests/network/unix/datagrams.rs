//! Datagrams: attack 24. What is sent without connect(2), and by calls whose address no filter sees.

use super::host::{Host, arrived};
use crate::Test;
use crate::support::Side;

pub const TESTS: &[Test] = &[
    ("only_what_was_judged_arrives", judged),
    ("no_way_of_sending_is_left_out", ways),
    ("within_the_session_they_arrive", within),
];

const SEND: &str = "import errno,socket,sys\n\
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
    try: print(one.sendto(b'word', sys.argv[1]))\n\
    except OSError as error: print(errno.errorcode[error.errno])\n";

fn judged() {
    let host = Host::new();
    let sockets = ["/run/systemd/journal/socket", "/tmp/plain.sock"];
    let [journal, plain] = sockets.map(|path| host.receive(path));
    let send = |host: &Host, side, path: &str| host.sandbox.on(side, &["/usr/bin/python3", "-c", SEND, path]).out();
    for path in sockets {
        assert_eq!(send(&host, Side::Bare, path), "4\n");
    }
    assert_eq!((arrived(&journal).len(), arrived(&plain).len()), (1, 1));
    host.profile("ask", "[[rule]]\nid = \"log\"\naccess = [\"unix\"]\nsocket = [\"@journal\"]\nlevel = \"allow\"\n");
    assert_eq!(send(&host, Side::Gated, sockets[0]), "4\n");
    assert_eq!(send(&host, Side::Gated, sockets[1]), "EACCES\n");
    assert_eq!((arrived(&journal), arrived(&plain).len()), (vec!["word".to_owned()], 0));
    host.answers("[[answer]]\naccess = \"unix\"\nobject = \"/tmp/plain.sock\"\nanswer = \"once\"\n");
    assert_eq!(send(&host, Side::Gated, sockets[1]), "4\n");
    assert_eq!(arrived(&plain), ["word"]);
}

/// One line for each way that got through, `reached`, or what it met.
const WAYS: &str = "import array,ctypes,errno,os,socket,sys\n\
    to = sys.argv[1]\n\
    def make(kind=socket.SOCK_DGRAM): return socket.socket(socket.AF_UNIX, kind)\n\
    def way(name, send):\n\
    \x20   try: send(); print(name, 'reached')\n\
    \x20   except OSError as error: print(name, errno.errorcode[error.errno])\n\
    def connected(one): one.connect(to); return one\n\
    way('sendmsg', lambda: make().sendmsg([b'sendmsg'], [], 0, to))\n\
    way('raw', lambda: make(socket.SOCK_RAW).sendmsg([b'raw'], [], 0, to))\n\
    way('connect', lambda: connected(make()).send(b'connect'))\n\
    way('write', lambda: os.write(connected(make()).fileno(), b'write'))\n\
    way('rights', lambda: make().sendmsg([b'rights'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))], 0, to))\n\
    def pair(): a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendmsg([b'pair'], [], 0, to)\n\
    way('pair', pair)\n\
    def pair_raw(): a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW); a.sendmsg([b'pair'], [], 0, to)\n\
    way('pair-raw', pair_raw)\n\
    def unset():\n\
    \x20   one = make(); one.bind(''); one.connect(one.getsockname()); one.sendmsg([b'unset'], [], 0, to)\n\
    way('connected to itself', unset)\n\
    def many():\n\
    \x20   class Iov(ctypes.Structure): _fields_ = [('base', ctypes.c_char_p), ('length', ctypes.c_size_t)]\n\
    \x20   class Msg(ctypes.Structure): _fields_ = [('name', ctypes.c_char_p), ('namelen', ctypes.c_uint), ('iov', ctypes.POINTER(Iov)), ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t), ('flags', ctypes.c_int), ('sent', ctypes.c_uint)]\n\
    \x20   address = b'\\1\\0' + to.encode() + b'\\0'\n\
    \x20   iov = Iov(b'many', 4); one = make()\n\
    \x20   message = Msg(address, len(address), ctypes.pointer(iov), 1, None, 0, 0, 0)\n\
    \x20   libc = ctypes.CDLL(None, use_errno=True)\n\
    \x20   if libc.sendmmsg(one.fileno(), ctypes.byref(message), 1, 0) != 1: raise OSError(ctypes.get_errno(), '')\n\
    way('sendmmsg', many)\n";

fn ways() {
    let host = Host::new();
    let socket = host.receive("/tmp/plain.sock");
    host.profile("deny", "");
    let run = |side| host.sandbox.on(side, &["/usr/bin/python3", "-c", WAYS, "/tmp/plain.sock"]).out();
    let bare = run(Side::Bare);
    let reached = bare.lines().filter(|line| line.ends_with("reached")).count();
    assert!(reached >= 8, "bare they are ways:\n{bare}");
    assert_eq!(arrived(&socket).len(), reached, "{bare}");
    let inside = run(Side::Gated);
    assert_eq!(inside.lines().count(), bare.lines().count(), "{inside}");
    assert!(!inside.contains("reached"), "{inside}");
    assert_eq!(arrived(&socket), Vec::<String>::new());
}

fn within() {
    let host = Host::new();
    host.profile("deny", "");
    let script = "import socket\n\
        for address in ['/tmp/within', '\\0within']:\n\
        \x20   server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); server.bind(address)\n\
        \x20   one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)\n\
        \x20   one.sendto(b'word', address); print(server.recv(9).decode())\n";
    let outcome = host.sandbox.run(&["/usr/bin/python3", "-c", script]);
    outcome.assert(outcome.out() == "word\nword\n", "by path and by name");
    outcome.assert(outcome.events_of("consent_required").count() == 0, "without a question");
}
