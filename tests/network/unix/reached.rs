//! Connections: attacks 22, 23, 25 and 33's sockets.

use super::host::{Host, WORD, asked};
use crate::Test;
use crate::support::user::UID;
use crate::support::{Side, wait};

pub const TESTS: &[Test] = &[
    ("sockets_of_the_session_are_the_kernels_own", own),
    ("what_starts_programs_is_out_of_reach_whatever_a_file_says", services),
    ("what_is_hidden_is_reached_by_consent_and_only_then", by_consent),
    ("a_socket_is_judged_by_where_links_lead", links),
    ("a_hard_link_is_no_other_name_of_a_service", hard_link),
    ("a_socket_is_not_moved_from_under_what_denies_it", moved),
    ("a_dead_socket_is_refused_without_a_question", dead),
    ("an_ssh_agent_signs_by_consent", ssh_agent),
    ("a_gpg_agent_talks_by_consent", gpg_agent),
    ("a_tmux_server_runs_nothing_without_consent", tmux),
    ("a_full_backlog_holds_up_nobody_else", backlog),
    ("what_an_allowed_server_passes_arrives", rights),
    ("calls_from_inside_know_who_knocked", knocks),
];

const SCRIPT: &str = include_str!("../scripts/unix.py");

fn own() {
    let host = Host::new();
    host.sandbox.profile(
        "schema = 1\n[profile]\nname = \"own\"\n[vars]\nworkspace = \"@cwd\"\n[defaults]\nwrite = \"deny\"\nunix = \"deny\"\n\
         [[rule]]\nid = \"work\"\naccess = [\"write\"]\npath = [\"{workspace}/**\"]\nlevel = \"allow\"\n",
    );
    host.sandbox.file(&host.sandbox.workspace().join("unix.py"), SCRIPT);
    let run = |side, place: &str| {
        let line = format!("rm -rf {place} && mkdir {place} && exec /usr/bin/python3 unix.py {place}");
        let outcome = host.sandbox.on(side, &["/bin/sh", "-c", &line]);
        outcome.assert_code(0);
        outcome.out()
    };
    let place = host.sandbox.workspace().join("d").display().to_string();
    let bare = run(Side::Bare, &place);
    assert!(bare.lines().count() > 45, "{bare}");
    assert_eq!(run(Side::Gated, &place), bare, "in the workspace");
    assert_eq!(run(Side::Gated, "/tmp/d"), bare, "in scratch");
}

fn services() {
    let host = Host::new();
    // A rule that allows all of them cannot lower what is built in.
    host.profile("allow", "");
    let run = format!("/run/user/{UID}");
    let paths = [
        format!("{run}/bus"),
        format!("{run}/systemd/private"),
        format!("{run}/docker.sock"),
        "/run/dbus/system_bus_socket".into(),
        "/run/systemd/private".into(),
        "/run/systemd/resolve/io.systemd.Resolve".into(),
        "/run/docker.sock".into(),
        "/run/containerd/containerd.sock".into(),
        "/run/libvirt/libvirt-sock".into(),
        "/tmp/.X11-unix/X97".into(),
        "/run/gated/supervisors.sock".into(),
    ];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let servers: Vec<_> = paths.iter().map(|path| host.serve(path)).collect();
    assert_eq!(host.connect(Side::Bare, &paths), vec![WORD; paths.len()]);
    let bare: Vec<usize> = servers.iter().map(|server| server.served()).collect();
    assert_eq!(bare, vec![1; paths.len()]);
    let inside = host.connect(Side::Gated, &paths);
    for (path, result) in paths.iter().zip(&inside) {
        assert!(["EACCES", "ENOENT"].contains(&result.as_str()), "{path}: {result}");
    }
    let after: Vec<usize> = servers.iter().map(|server| server.served()).collect();
    assert_eq!(after, bare, "nobody was reached");
    // By the other name of /run, and by a way around.
    let _others = host.serve("/run/nscd/socket");
    let others =
        ["/run/nscd/socket", "/var/run/docker.sock", "/run/../run/docker.sock", "/proc/self/root/run/docker.sock"];
    for result in host.connect(Side::Gated, &others) {
        assert!(["EACCES", "ENOENT", "ELOOP"].contains(&result.as_str()), "{result}");
    }
    assert_eq!(servers.iter().map(|server| server.served()).collect::<Vec<_>>(), bare);
}

fn by_consent() {
    let host = Host::new();
    let paths = ["/tmp/tmux-60777/other", "/run/screen/S-user/1.x", "/run/user/60777/wayland-7", "/tmp/some.sock"];
    let servers: Vec<_> = paths.iter().map(|path| host.serve(path)).collect();
    host.profile("ask", "");
    host.answers("[[answer]]\nanswer = \"deny\"\n");
    assert_eq!(host.connect(Side::Gated, &paths), vec!["EACCES"; 4]);
    assert!(servers.iter().all(|server| server.served() == 0));
    host.answers("[[answer]]\naccess = \"unix\"\nanswer = \"once\"\n");
    let mut argv = vec!["/usr/bin/python3", "-c", super::host::CONNECT];
    argv.extend(paths);
    argv.extend(paths);
    let outcome = host.sandbox.run(&argv);
    outcome.assert(outcome.out().matches(WORD).count() == 8, "all of them are reached");
    outcome.assert(asked(&outcome) == paths, "each asked for once, by its path on the machine");
}

fn links() {
    let host = Host::new();
    let server = host.serve("/run/docker.sock");
    let other = host.serve("/tmp/other.sock");
    let link = host.sandbox.workspace().join("innocent.sock");
    std::os::unix::fs::symlink("/run/docker.sock", &link).expect("symlink");
    host.profile("allow", "");
    let link = link.display().to_string();
    assert_eq!(host.connect(Side::Bare, &[&link]), [WORD]);
    assert_eq!(host.connect(Side::Gated, &[&link, "innocent.sock", "/tmp/other.sock"]), ["EACCES", "EACCES", WORD]);
    assert_eq!((server.served(), other.served()), (1, 1));
}

fn hard_link() {
    let host = Host::new();
    let home = host.sandbox.home();
    let socket = home.join(".gnupg/S.gpg-agent").display().to_string();
    let server = host.serve(&socket);
    let linked = host.sandbox.workspace().join("mine.sock");
    std::fs::hard_link(&socket, &linked).expect("link");
    let rule = format!(
        "[[rule]]\nid = \"mine\"\naccess = [\"unix\"]\nsocket = [\"{}\"]\nlevel = \"allow\"\n",
        linked.display()
    );
    host.profile("deny", &rule);
    assert_eq!(host.connect(Side::Bare, &["mine.sock"]), [WORD]);
    assert_eq!(host.connect(Side::Gated, &["mine.sock"]), ["EACCES"]);
    assert_eq!(server.served(), 1);
}

fn moved() {
    let host = Host::new();
    let outside = host.sandbox.outside();
    let place = outside.display().to_string();
    let paths = ["denied", "kept/denied", "free"].map(|name| format!("{place}/{name}"));
    let servers = paths.each_ref().map(|path| host.serve(path));
    host.sandbox.give(&outside.join("kept"));
    let rules = format!(
        "[[rule]]\nid = \"no\"\naccess = [\"unix\"]\nsocket = [\"{}\", \"{}\"]\nlevel = \"deny\"\n\
         [[rule]]\nid = \"yes\"\naccess = [\"write\"]\npath = [\"/**\"]\nlevel = \"allow\"\n",
        paths[0], paths[1]
    );
    host.profile("allow", &rules);
    let script = format!("import os,sys\nos.chdir({place:?})\nexec(sys.argv[1])\n");
    let ways = [
        "os.rename('denied', 'other')",
        "os.link('denied', 'other'); os.remove('denied')",
        "open('file', 'w').close(); import ctypes; r = ctypes.CDLL(None).renameat2(-100, b'denied', -100, b'file', 2); assert r == 0",
        "open('file', 'w').close(); import ctypes; r = ctypes.CDLL(None).renameat2(-100, b'file', -100, b'denied', 2); assert r == 0",
        "os.rename('kept', 'moved')",
    ];
    for way in ways {
        let outcome = host.sandbox.run(&["/usr/bin/python3", "-c", &script, way]);
        outcome.assert(outcome.code() == 1, way);
    }
    assert!(paths.iter().all(|path| std::path::Path::new(path).exists()));
    assert_eq!(host.connect(Side::Gated, &[&paths[0], &paths[1]]), ["EACCES"; 2]);
    // What no rule keeps has whatever name.
    let free = "os.rename('free', 'freed'); os.rename('freed', 'free'); os.mkdir('d'); os.rename('d', 'e')";
    host.sandbox.run(&["/usr/bin/python3", "-c", &script, free]).assert_code(0);
    for way in [ways[0], "os.rename('other', 'denied')", ways[4], "os.rename('moved', 'kept')"] {
        host.sandbox.bare(&["/usr/bin/python3", "-c", &script, way]).assert_code(0);
    }
    drop(servers);
}

fn dead() {
    let host = Host::new();
    let path = host.real("/tmp/dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
    host.sandbox.give(&path);
    host.profile("ask", "");
    host.answers("[[answer]]\nanswer = \"once\"\n");
    let outcome = host.sandbox.run(&["/usr/bin/python3", "-c", super::host::CONNECT, "/tmp/dead.sock", "/tmp/none"]);
    outcome.assert(outcome.out() == "/tmp/dead.sock ECONNREFUSED\n/tmp/none ENOENT\n", "the kernel's own errors");
    outcome.assert(outcome.events_of("consent_required").count() == 0, "nobody is asked for what cannot happen");
}

fn ssh_agent() {
    let host = Host::new();
    let socket = "/tmp/ssh-abc/agent.1";
    let _agent = host.daemon(&["ssh-agent", "-D", "-a", socket], socket);
    let line = format!("SSH_AUTH_SOCK={socket} ssh-add -l");
    // 1: it holds no key; 2: it cannot be reached. ssh-add(1).
    host.sandbox.bare(&["/bin/sh", "-c", &line]).assert_code(1);
    host.profile("ask", "[[rule]]\nid = \"agent\"\naccess = [\"unix\"]\nsocket = [\"@ssh_agent\"]\nlevel = \"ask\"\n");
    host.sandbox.run(&["/bin/sh", "-c", &line]).assert_code(2);
    host.answers("[[answer]]\naccess = \"unix\"\nanswer = \"once\"\n");
    let outcome = host.sandbox.run(&["/bin/sh", "-c", &format!("{line}; {line}")]);
    outcome.assert_code(1);
    outcome.assert(asked(&outcome) == [socket], "asked for once in a call");
    outcome.assert(outcome.out().matches("no identities").count() == 2, "the agent answers");
}

fn gpg_agent() {
    let host = Host::new();
    let home = host.sandbox.home().join(".gnupg");
    host.sandbox.dir(&home);
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    let socket = home.join("S.gpg-agent").display().to_string();
    let _agent = host.daemon(&["gpg-agent", "--daemon", "sleep", "600"], &socket);
    let line = format!("gpg-connect-agent --no-autostart -S {socket} 'GETINFO version' /bye");
    host.sandbox.bare(&["/bin/sh", "-c", &line]).assert_code(0);
    host.profile("deny", "[[rule]]\nid = \"agent\"\naccess = [\"unix\"]\nsocket = [\"@gpg_agent\"]\nlevel = \"ask\"\n");
    let outcome = host.sandbox.run(&["/bin/sh", "-c", &line]);
    outcome.assert(!outcome.out().contains("OK"), "not without consent");
    host.answers("[[answer]]\naccess = \"unix\"\nanswer = \"once\"\n");
    let outcome = host.sandbox.run(&["/bin/sh", "-c", &line]);
    outcome.assert(outcome.out().contains("OK"), "by consent");
}

fn tmux() {
    let host = Host::new();
    let socket = format!("/tmp/tmux-{UID}/default");
    let directory = host.real(&format!("/tmp/tmux-{UID}"));
    host.sandbox.dir(&directory);
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    let _server = host.daemon(&["tmux", "-D", "-f", "/dev/null"], &socket);
    let mark = |name: &str| host.sandbox.outside().join(name);
    let line = |name: &str| format!("tmux -S {socket} run-shell 'touch {}'", mark(name).display());
    host.profile("deny", "");
    host.sandbox.bare(&["/bin/sh", "-c", &line("bare")]);
    wait::until("tmux to run it", || mark("bare").exists().then_some(()));
    let outcome = host.sandbox.run(&["/bin/sh", "-c", &line("inside")]);
    outcome.assert(outcome.code() != 0, "it cannot be reached");
    assert!(!mark("inside").exists());
}

fn backlog() {
    let host = Host::new();
    host.profile("deny", "");
    let script = "import errno,os,signal,socket,threading,time\n\
        server = socket.socket(socket.AF_UNIX); server.bind('/tmp/full'); server.listen(0)\n\
        first = socket.socket(socket.AF_UNIX); first.connect('/tmp/full')\n\
        other = socket.socket(socket.AF_UNIX); other.setblocking(False)\n\
        try: other.connect('/tmp/full')\n\
        except OSError as error: print('non-blocking', errno.errorcode[error.errno])\n\
        late = socket.socket(socket.AF_UNIX)\n\
        thread = threading.Thread(target=lambda: late.connect('/tmp/full')); thread.start()\n\
        made = [os.mkdir('/tmp/d%d' % at) for at in range(50)]\n\
        print('waits', thread.is_alive(), len(made))\n\
        server.accept(); thread.join(); print('connected')\n\
        class Woken(Exception): pass\n\
        def wake(*_): raise Woken\n\
        signal.signal(signal.SIGALRM, wake); signal.setitimer(signal.ITIMER_REAL, 0.2)\n\
        try: socket.socket(socket.AF_UNIX).connect('/tmp/full')\n\
        except Woken: print('interrupted')\n\
        one = socket.socket(socket.AF_UNIX); one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b'\\0'*8 + (200000).to_bytes(8, 'little'))\n\
        try: one.connect('/tmp/full')\n\
        except OSError as error: print('time-out', errno.errorcode[error.errno])\n";
    for side in [Side::Bare, Side::Gated] {
        let outcome = host.sandbox.on(side, &["/usr/bin/python3", "-c", script]);
        outcome.assert_code(0);
        let expected = "non-blocking EAGAIN\nwaits True 50\nconnected\ninterrupted\ntime-out EAGAIN\n";
        outcome.assert(outcome.out() == expected, "as the kernel does it");
        let _ = std::fs::remove_dir_all(host.real("/tmp/full"));
        for at in 0..50 {
            let _ = std::fs::remove_dir(host.real(&format!("/tmp/d{at}")));
        }
        let _ = std::fs::remove_file(host.real("/tmp/full"));
    }
}

fn rights() {
    let host = Host::new();
    let secret = host.sandbox.outside().join("given");
    host.sandbox.file(&secret, "contents of what was given\n");
    let socket = host.real("/tmp/giver.sock");
    let serve = format!(
        "import array,os,socket\n\
         server = socket.socket(socket.AF_UNIX); server.bind('/tmp/giver.sock'); server.listen()\n\
         while True:\n\
         \x20   one, _ = server.accept()\n\
         \x20   file = os.open({:?}, os.O_RDONLY)\n\
         \x20   one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file]))]); one.close()\n",
        secret.display().to_string()
    );
    let _giver = host.sandbox.start(Side::Bare, &["/usr/bin/python3", "-c", &serve]);
    wait::until("the server", || socket.exists().then_some(()));
    let take = "import os,socket\n\
        one = socket.socket(socket.AF_UNIX); one.connect('/tmp/giver.sock')\n\
        _, files, _, _ = socket.recv_fds(one, 9, 1); print(os.read(files[0], 99).decode(), end='')\n";
    let argv = ["/usr/bin/python3", "-c", take];
    let given = "contents of what was given\n";
    assert_eq!(host.sandbox.bare(&argv).out(), given);
    host.profile("deny", "");
    let outcome = host.sandbox.run(&argv);
    outcome.assert(outcome.code() != 0 && outcome.out().is_empty(), "nobody is there to give");
    host.profile(
        "deny",
        "[[rule]]\nid = \"giver\"\naccess = [\"unix\"]\nsocket = [\"/tmp/giver.sock\"]\nlevel = \"allow\"\n",
    );
    assert_eq!(host.sandbox.run(&argv).out(), given);
}

fn knocks() {
    let host = Host::new();
    host.profile("deny", "");
    let run = host.sandbox.root().join("bin/gated-run");
    std::fs::copy(env!("CARGO_BIN_EXE_gated-run"), &run).expect("copy");
    let line = format!("for i in 1 2 3 4 5 6 7 8; do {} -- echo call $i & done; wait", run.display());
    let outcome = host.sandbox.run(&["/bin/sh", "-c", &line]);
    outcome.assert_code(0);
    outcome.assert(outcome.out().matches("call ").count() == 8, "each is started");
    outcome.assert(outcome.events_of("call_started").count() == 9, "each as a call of its own");
}
