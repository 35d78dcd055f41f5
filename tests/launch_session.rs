//! How `gated-run` starts a command: what the command has of its caller, what it has not, and that nothing stays.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use support::{Outcome, PidFd, Sandbox, Side, profiles, until, user, wait};

const SOON: Duration = Duration::from_secs(20);

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// Runs `script` as root outside, where `"$@"` is `gated-run` with the command `inner`.
fn around(sandbox: &Sandbox, script: &str, inner: &[&str]) -> Outcome {
    let mut line: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
    line.extend(sandbox.gated_argv(inner));
    sandbox.start_line(Side::Gated, &line, None).finish()
}

/// The same with copies of the programs, for a script that hides where this checkout may lie.
fn around_with_copies(sandbox: &Sandbox, script: &str, inner: &[&str]) -> Outcome {
    let built = Path::new(env!("CARGO_BIN_EXE_gated-run"));
    let copy = sandbox.root().join("bin/gated-run");
    for name in ["gated-run", "gated-session"] {
        fs::copy(built.with_file_name(name), copy.with_file_name(name)).expect("copy");
    }
    let mut line: Vec<OsString> = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
    line.push(copy.into());
    line.extend(sandbox.gated_argv(inner).into_iter().skip(1));
    sandbox.start_line(Side::Gated, &line, None).finish()
}

fn as_root(sandbox: &Sandbox, inner: &[&str]) -> Outcome {
    let mut line = sandbox.gated_argv(inner);
    let at = line.iter().position(|word| word == user::NAME).expect("--user");
    line[at] = "root".into();
    sandbox.start_line(Side::Gated, &line, None).finish()
}

#[test]
fn the_exit_status_is_the_commands_own() {
    let sandbox = Sandbox::new();
    for (command, code) in [
        (sh("exit 0"), 0),
        (sh("exit 3"), 3),
        (sh("kill -TERM $$"), 128 + 15),
        (sh("kill -KILL $$"), 128 + 9),
        (["no-such-command", "", ""], 127),
        (["/etc/passwd", "", ""], 126),
        (["/etc", "", ""], 126),
    ] {
        let outcome = sandbox.run(&command);
        outcome.assert_code(code);
        outcome.assert(
            outcome.err().lines().count() == usize::from(matches!(code, 126 | 127)),
            "a line for our own errors only",
        );
    }
}

#[test]
fn an_error_of_our_own_is_125_and_one_line() {
    let mut sandbox = Sandbox::new();
    sandbox.profile_named("no-such-profile");
    let outcome = sandbox.run(&["true"]);
    outcome.assert_code(125);
    outcome.assert(outcome.err().lines().count() == 1 && outcome.err().starts_with("gated-run: "), "one line");

    let gated_run = env!("CARGO_BIN_EXE_gated-run");
    for (argv, word) in [
        (vec![gated_run, "--", "true"], "--embedded"),
        (vec![gated_run, "--embedded", "--user", "nobody-at-all", "--", "true"], "nobody-at-all"),
        (vec![gated_run, "--embedded", "--consent", "anyone", "--", "true"], "auto, tty, script:FILE or none"),
        (vec![gated_run, "--embedded"], "Usage"),
    ] {
        let line: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        let outcome = sandbox.start_line(Side::Gated, &line, None).finish();
        outcome.assert_code(125);
        outcome.assert(outcome.err().contains(word), word);
    }
}

#[test]
fn who_is_not_root_is_told_what_to_do() {
    let sandbox = Sandbox::new();
    let line = sandbox.gated_argv(&["true"]);
    let outcome = sandbox.start_line(Side::Bare, &line, None).finish();
    outcome.assert_code(125);
    outcome.assert(outcome.err().contains("sudo gated-run"), "what to do");
}

#[test]
fn sudo_gives_the_invoking_users_session_and_nobody_elses() {
    let sandbox = Sandbox::new();
    let by_sudo = |more: &str| {
        let gated_run = env!("CARGO_BIN_EXE_gated-run");
        let script = format!(
            "export SUDO_UID={} SUDO_GID={} SUDO_USER={} HOME=/root USER=root LOGNAME=root\n\
             exec {gated_run} --embedded --consent none {more} -- sh -c 'id -u; echo $HOME $USER ${{SUDO_UID-none}}'",
            user::UID,
            user::GID,
            user::NAME,
        );
        let line: Vec<OsString> = ["sh", "-c", &script].map(OsString::from).to_vec();
        sandbox.start_line(Side::Gated, &line, None).finish()
    };
    let audit = format!("--audit {}", sandbox.outside().join("audit").display());
    let outcome = by_sudo(&audit);
    outcome.assert_code(0);
    let expected = format!("{}\n{} {} none\n", user::UID, sandbox.home().display(), user::NAME);
    outcome.assert(outcome.out() == expected, "the user's own ids and home");
    // A rule in sudoers for gated-run alone must not hand out everybody's rights, nor root's on files.
    by_sudo(&format!("{audit} --user root")).assert_code(125);
    let secret = sandbox.control().join("secret.toml");
    fs::write(&secret, "secret = 1").expect("write");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("chmod");
    for option in ["--profile", "--events", "--audit"] {
        let rest = if option == "--audit" { "" } else { audit.as_str() };
        let outcome = by_sudo(&format!("{rest} {option} {}", secret.display()));
        outcome.assert_code(125);
        outcome.assert(outcome.err().contains("Permission denied"), option);
    }
    assert_eq!(fs::read_to_string(&secret).expect("read"), "secret = 1");
}

#[test]
fn bytes_pass_through_pipes_unchanged() {
    let sandbox = Sandbox::new();
    let script = "head -c 3000000 /dev/urandom > data && \"$@\" < data > copy && \
                  cat data | \"$@\" | cmp - data && cmp data copy && \"$@\" < /dev/null | wc -c";
    let outcome = around(&sandbox, script, &["cat"]);
    outcome.assert_code(0);
    outcome.assert(outcome.out().trim() == "0", "no byte too many");
}

#[test]
fn the_callers_conditions_are_the_commands() {
    let sandbox = Sandbox::new();
    let script = "umask 027; trap '' HUP; ulimit -n 777; exec 9</etc/passwd; KEPT=1 exec \"$@\"";
    let inner = "pwd; umask; echo kept=$KEPT; grep -h SigIgn /proc/self/status; ulimit -n; ls /proc/self/fd | wc -l; \
                 grep 'Max core' /proc/self/limits";
    let outcome = around(&sandbox, script, &sh(inner));
    outcome.assert_code(0);
    let out = outcome.out();
    let lines: Vec<&str> = out.lines().collect();
    let core = lines.get(6).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    outcome.assert(lines.first() == Some(&sandbox.workspace().to_str().expect("UTF-8")), "the directory");
    outcome.assert(lines.get(1..3) == Some(&["0027", "kept=1"]), "umask and environment");
    // Whatever else this test's own caller ignores is ignored bare as well.
    let bare = sandbox.bare(&sh("trap '' HUP; exec grep -h SigIgn /proc/self/status")).out();
    outcome.assert(lines.get(3) == Some(&bare.trim_end()) && bare.contains('1'), "SIGHUP is ignored as it is bare");
    outcome.assert(lines.get(4..6) == Some(&["777", "4"]), "the caller's limit; 0, 1, 2 and the listing itself");
    outcome.assert(core.as_deref() == Some("Max core file size 1 1 bytes"), "no core_pattern handler runs");
}

/// As under sudo and wherever core files are switched off for good.
#[test]
fn a_caller_that_may_have_no_core_files_gets_a_session() {
    const CAP_SYS_RESOURCE: u32 = 24;
    let sandbox = Sandbox::new();
    let outcome = around(&sandbox, "ulimit -c 0; exec \"$@\"", &sh("ulimit -H -c; ulimit -S -c"));
    outcome.assert_code(0);
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("capabilities");
    let capabilities = u64::from_str_radix(capabilities.trim(), 16).expect("a mask");
    // dash counts in blocks of 512 bytes: 1 byte is 0 of them.
    outcome.assert(outcome.out() == "0\n0\n", "core files are off");
    let limits = around(&sandbox, "ulimit -c 0; exec \"$@\"", &["grep", "Max core", "/proc/self/limits"]).out();
    let expected = if capabilities >> CAP_SYS_RESOURCE & 1 == 1 { "1 1" } else { "0 0" };
    let found: Vec<&str> = limits.split_whitespace().skip(4).take(2).collect();
    assert_eq!(found.join(" "), expected, "{limits}");
}

#[test]
fn variables_that_the_profile_denies_are_not_passed() {
    let sandbox = Sandbox::new();
    sandbox.profile(&format!("{}\n[env]\ndeny = [\"*_TOKEN\", \"AWS_*\"]\n", profiles::WORKSPACE));
    let script = "GITHUB_TOKEN=a AWS_KEY=b TOKENS=c exec \"$@\"";
    let outcome = around(&sandbox, script, &["env"]);
    outcome.assert_code(0);
    let out = outcome.out();
    outcome
        .assert(out.contains("TOKENS=c") && !out.contains("GITHUB_TOKEN") && !out.contains("AWS_KEY"), "what is kept");
}

#[test]
fn the_command_has_the_users_ids_and_groups_and_no_capability() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&sh("id -u; id -g; id -G; grep -E '^(Cap|NoNewPrivs|Uid)' /proc/self/status"));
    outcome.assert_code(0);
    let groups = format!("{}\n{}\n{} {}\n", user::UID, user::GID, user::GID, user::EXTRA_GID);
    outcome.assert(outcome.out().starts_with(&groups), "ids and groups");
    assert_powerless(&outcome, user::UID);
}

#[track_caller]
fn assert_powerless(outcome: &Outcome, uid: u32) {
    let out = outcome.out();
    let capabilities: Vec<&str> = out.lines().filter(|line| line.starts_with("Cap")).collect();
    outcome.assert(capabilities.len() == 5, "five sets");
    outcome.assert(capabilities.iter().all(|line| line.ends_with(":\t0000000000000000")), "no capability in any set");
    outcome.assert(out.contains("NoNewPrivs:\t1"), "no new privileges");
    outcome.assert(out.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")), "the same user everywhere");
}

#[test]
fn a_setuid_program_gains_nothing() {
    let sandbox = Sandbox::new();
    let program = sandbox.root().join("bin/cat");
    fs::copy("/bin/cat", &program).expect("copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).expect("chmod");
    let argv = [program.to_str().expect("UTF-8"), "/proc/self/status"];
    let bare = sandbox.bare(&argv);
    bare.assert(bare.out().contains(&format!("Uid:\t{}\t0\t0\t0", user::UID)), "bare it becomes root");
    assert_powerless(&sandbox.run(&argv), user::UID);
    assert_powerless(&as_root(&sandbox, &argv), 0);
}

#[test]
fn roots_own_tool_is_a_user_like_any_other() {
    let sandbox = Sandbox::new();
    sandbox.profile(profiles::ALLOW_ALL);
    let private = sandbox.outside().join("private");
    sandbox.file(&private, "secret");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).expect("chmod");
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").expect("hostname");
    let script = format!(
        "cat {0}; chown 1 {0}; chmod 777 {0}; echo x > {0}; mknod {1}/null c 1 3; mount -t tmpfs none /mnt; \
         echo gated > /proc/sys/kernel/hostname; echo 1 > /sys/kernel/mm/ksm/run; echo h > /proc/sysrq-trigger; \
         hostname gated; touch /run/x /dev/x; head -c1 /proc/kcore; echo end",
        private.display(),
        sandbox.outside().display()
    );
    let outcome = as_root(&sandbox, &sh(&script));
    outcome.assert(outcome.out() == "end\n", "nothing was read or done");
    assert_eq!(fs::read_to_string(&private).expect("read"), "secret");
    assert_eq!(fs::metadata(&private).expect("stat").permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_to_string("/proc/sys/kernel/hostname").expect("hostname"), hostname);
    assert!(!sandbox.outside().join("null").exists());
}

/// Else a writer into the caller's pipe would not learn that the command has closed its end.
#[test]
fn the_supervisor_keeps_none_of_the_callers_standard_files() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(Side::Gated, &sh("echo ready; while ! test -e done; do sleep 0.05; done"));
    running(&started);
    let child_of = |parent: i32| {
        let is_child = |status: &str| status.lines().any(|line| line == format!("PPid:\t{parent}"));
        let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let child = pids.find(|pid| is_child(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()));
        child.expect("the supervisor, init and the leader are there")
    };
    let mut process = started.pid();
    for _ in 0..3 {
        process = child_of(process);
        for number in 0..3 {
            let leads_to = fs::read_link(format!("/proc/{process}/fd/{number}")).expect("it is open");
            assert_eq!(leads_to, std::path::Path::new("/dev/null"), "{number} of {process}");
        }
    }
    fs::write(sandbox.workspace().join("done"), "").expect("write");
    started.finish().assert_code(0);
}

/// Whoever ran it would have root's rights, and capabilities too.
#[test]
fn roots_own_tool_makes_no_set_user_id_program() {
    let sandbox = Sandbox::new();
    sandbox.profile(profiles::ALLOW_ALL);
    let folder = sandbox.root().join("of-root");
    fs::create_dir(&folder).expect("mkdir");
    let script = format!(
        "cd {} && cp /bin/true made && chmod 755 made && for mode in 4755 2755 6755; do chmod $mode made; done; \
         install -m 4755 /bin/true second; chmod g+s .; echo end",
        folder.display()
    );
    let outcome = as_root(&sandbox, &sh(&script));
    outcome.assert(outcome.out() == "end\n", "the script came to its end");
    let mode = |name: &str| fs::metadata(folder.join(name)).map_or(0, |meta| meta.permissions().mode() & 0o7777);
    assert_eq!(mode("made"), 0o755, "{outcome}");
    assert_eq!(mode("second") & 0o6000, 0, "{outcome}");
    assert_eq!(mode(".") & 0o2000, 0o2000, "a directory's bit only gives a group: {outcome}");
}

#[test]
fn the_network_is_a_loopback_that_works() {
    let sandbox = Sandbox::new();
    let outcome =
        sandbox.run(&sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; grep -c 127.0.0.1 /proc/net/fib_trie"));
    let out = outcome.out();
    let mut lines = out.lines();
    outcome.assert(lines.next() == Some("lo"), "lo is the only interface");
    outcome.assert(lines.next().is_some_and(|count| count != "0"), "and is up");
    sandbox.profile(&profiles::WORKSPACE.replace("[vars]", "network = \"host\"\n\n[vars]"));
    let outcome = sandbox.run(&sh("cat /proc/net/dev"));
    let host = fs::read_to_string("/proc/net/dev").expect("/proc/net/dev");
    let names = |text: &str| {
        text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(names(&outcome.out()), names(&host), "a profile can ask for the host's");
}

#[test]
fn the_services_of_the_host_are_out_of_sight() {
    let mut sandbox = Sandbox::new();
    sandbox.tmpfs(Path::new("/run"), "mode=755");
    sandbox.tmpfs(Path::new("/tmp"), "mode=1777");
    let script = "mkdir -p /run/user/1 /run/dbus /run/systemd/resolve /run/media/disk /tmp/.X11-unix\n\
                  touch /run/user/1/bus /run/dbus/system_bus_socket /run/systemd/private /run/docker.sock\n\
                  echo nameserver > /run/systemd/resolve/resolv.conf; echo photo > /run/media/disk/photo\n\
                  touch /tmp/.X11-unix/X0 /tmp/other\n\
                  exec \"$@\"";
    let inner = "find /run /tmp -not -path '/run/gated/etc/*' | sort; cat /run/media/disk/photo";
    let outcome = around_with_copies(&sandbox, script, &sh(inner));
    outcome.assert_code(0);
    let seen = "/run\n/run/gated\n/run/gated/bus\n/run/gated/call.sock\n/run/gated/etc\n/run/media\n/run/media/disk\n/run/media/disk/photo\n/run/systemd\n/run/systemd/resolve\n\
                /run/systemd/resolve/resolv.conf\n/tmp\nphoto\n";
    assert_eq!(outcome.out(), seen, "{outcome}");
}

#[test]
fn tmp_and_shm_are_the_sessions_own() {
    let mut sandbox = Sandbox::new();
    sandbox.tmpfs(Path::new("/tmp"), "mode=1777");
    sandbox.tmpfs(Path::new("/dev/shm"), "mode=1777");
    let script = "touch /tmp/outer /dev/shm/outer; \"$@\"; ls -A /tmp /dev/shm";
    let inner =
        "echo a > /tmp/inner && mkdir /tmp/d && mv /tmp/inner /tmp/d && echo b > /dev/shm/inner && ls -A /tmp /dev/shm";
    let outcome = around_with_copies(&sandbox, script, &sh(inner));
    outcome.assert_code(0);
    assert_eq!(outcome.out(), "/dev/shm:\ninner\n\n/tmp:\nd\n/dev/shm:\nouter\n\n/tmp:\nouter\n", "{outcome}");
    outcome.assert(outcome.events_of("consent_required").next().is_none(), "nobody is asked");
}

#[test]
fn a_workspace_below_tmp_is_there_and_alone() {
    let mut sandbox = Sandbox::new();
    sandbox.tmpfs(Path::new("/tmp"), "mode=1777");
    let script = format!(
        "mkdir -p /tmp/a/work /tmp/a/sibling; chown {0}:{0} /tmp/a/work; cd /tmp/a/work && \"$@\" && cat made",
        user::UID
    );
    let outcome = around_with_copies(&sandbox, &script, &sh("echo made > made; find /tmp -mindepth 1; pwd"));
    outcome.assert_code(0);
    let mut seen: Vec<String> = outcome.out().lines().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, ["/tmp/a", "/tmp/a/work", "/tmp/a/work", "/tmp/a/work/made", "made"], "{outcome}");

    let outcome = around_with_copies(&sandbox, "cd /tmp && exec \"$@\"", &["true"]);
    outcome.assert_code(125);
    outcome.assert(outcome.err().contains("/tmp"), "the session's own /tmp cannot be the host's");
}

#[test]
fn a_directory_as_stdin_is_refused() {
    let sandbox = Sandbox::new();
    let outcome = around(&sandbox, "exec \"$@\" < /", &["true"]);
    outcome.assert_code(125);
    outcome.assert(outcome.err().contains("stdin is a directory"), "why");
}

#[test]
fn device_nodes_elsewhere_open_nothing() {
    let sandbox = Sandbox::new();
    let node = sandbox.root().join("bin/zero");
    let path = CString::new(node.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 5)) }, 0);
    fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).expect("chmod");
    let argv = ["head", "-c1", node.to_str().expect("UTF-8")];
    sandbox.bare(&argv).assert_code(0);
    sandbox.run(&argv).assert_code(1);
    let outcome =
        sandbox.run(&sh("head -c1 /dev/zero | wc -c; head -c1 /dev/urandom | wc -c; echo x > /dev/null; ls /dev/tty"));
    outcome.assert(outcome.out() == "1\n1\n/dev/tty\n", "the session's own devices work");
}

#[test]
fn other_processes_of_the_host_cannot_be_seen() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&sh("cat /proc/[0-9]*/comm | sort -u; kill -0 1"));
    outcome.assert(outcome.code() != 0, "init cannot be signalled");
    let out = outcome.out();
    let seen: Vec<&str> = out.lines().collect();
    outcome.assert(
        seen.iter().all(|name| matches!(*name, "gated-session" | "sh" | "cat" | "sort" | "init" | "leader")),
        "ours only",
    );
}

#[test]
fn the_hosts_mounts_stay_as_they_were() {
    let sandbox = Sandbox::new();
    let script = "cat /proc/self/mountinfo > before; \"$@\"; cat /proc/self/mountinfo > after; cmp before after";
    around(&sandbox, script, &["true"]).assert_code(0);
}

/// Waits for the command's own word, and gives all processes below gated-run.
fn running(running: &support::Running<'_>) -> Vec<PidFd> {
    until("the command to be ready", || running.so_far().contains("ready").then_some(()));
    let all = wait::descendants(running.pid());
    assert!(all.len() >= 4, "supervisor, init, leader and command");
    all
}

#[test]
fn killing_gated_run_kills_every_process_of_its_session() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(Side::Gated, &sh("setsid sleep 1000 & trap '' HUP TERM; echo ready; sleep 1000"));
    let all = running(&started);
    started.pidfd.kill(libc::SIGKILL);
    assert!(all.iter().all(|process| process.ends_within(SOON)), "everything dies");
    started.finish().assert_code(128 + 9);
}

#[test]
fn killing_the_supervisor_or_init_kills_the_session_and_is_told() {
    for victim in ["supervisor", "init"] {
        let sandbox = Sandbox::new();
        let started = sandbox.start(Side::Gated, &sh("echo ready; sleep 1000"));
        let all = running(&started);
        let supervisor =
            all.iter().find(|one| wait::parent_of(one.pid) == Some(started.pid())).expect("the supervisor");
        let init = all.iter().find(|one| wait::parent_of(one.pid) == Some(supervisor.pid)).expect("init");
        if victim == "init" { init } else { supervisor }.kill(libc::SIGKILL);
        assert!(all.iter().all(|process| process.ends_within(SOON)), "{victim}: everything dies");
        let outcome = started.finish();
        outcome.assert_code(125);
        outcome.assert(outcome.err().lines().count() == 1, "one line");
    }
}

#[test]
fn what_the_command_leaves_behind_ends_with_it() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(Side::Gated, &sh("setsid sleep 1000 & sleep 0.2; echo ready; read never; exit 5"));
    let outcome = started.finish();
    outcome.assert_code(5);
    assert!(sandbox.processes().iter().all(|process| process.ends_within(SOON)), "nothing runs on");
}

#[test]
fn signals_to_gated_run_reach_the_command() {
    let sandbox = Sandbox::new();
    for (signal, name) in
        [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGHUP, "HUP"), (libc::SIGUSR1, "USR1")]
    {
        let script = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.05; done");
        let started = sandbox.start(Side::Gated, &sh(&script));
        running(&started);
        started.pidfd.kill(signal);
        started.finish().assert_code(42);
    }
}
