//! What becomes secret, or of another shape, while a session runs; and what is left when it ends.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::judge::{self, ASKS, SECRET};
use crate::support::{Sandbox, Side, until, wait};
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_secret_that_is_made_inside_is_held_when_it_is_opened_again", made_inside),
    ("a_file_replaced_as_editors_do_it_is_held_again", replaced),
    ("a_secret_moved_to_an_allowed_name_of_its_region_is_still_one", moved_to_an_allowed_name),
    ("rules_reach_into_regions_and_out_of_them", nested),
    ("what_is_asked_once_is_read_again_without_a_question_and_recorded_once", granted),
    ("a_supervisor_killed_while_a_read_waits_lets_nothing_through", killed),
    ("a_session_leaves_no_mounts_and_no_processes", nothing_left),
    ("a_signal_ends_the_wait_for_an_answer", interrupted),
    ("with_reads_denied_a_program_sees_what_its_profile_names", service),
    ("another_users_home_is_not_read", others_home),
    ("many_regions_are_held", many),
    ("a_secret_that_an_outsider_makes_or_replaces_is_held", outside),
    ("whoever_is_too_deep_in_a_tree_of_processes_is_no_outsider", from_the_depth),
    ("a_secret_that_an_outsider_makes_in_a_directory_that_was_moved_is_held", outside_after_a_move),
];

pub const INSIDE: &[Inside] = &[
    ("made", made),
    ("moved", moved),
    ("again", again),
    ("hung", hung),
    ("waiting", waiting),
    ("deep", deep),
    ("moving", moving),
];

fn home() -> PathBuf {
    std::env::var_os("HOME").expect("HOME").into()
}

fn say(key: &str, result: std::io::Result<String>) {
    match result {
        Ok(text) => println!("{key} got {}", text.trim_end()),
        Err(error) => println!("{key} {error}"),
    }
}

fn made_inside() {
    for side in [Side::Bare, Side::Gated] {
        let mut sandbox = judge::sandbox(ASKS);
        judge::answering_reads_with_no(&mut sandbox);
        let outcome = sandbox.on(side, &sandbox.inside::<&str>("made", &[]));
        outcome.assert(outcome.out().contains("ran made"), "it came to its end");
        let got = outcome.out().matches(SECRET).count();
        outcome.assert(got == if side == Side::Bare { 8 } else { 0 }, "what was read");
    }
}

/// Makes secrets at names that were not there, in every way, and reads them back.
fn made(_: &[String]) {
    let read = |key: &str, path: PathBuf| say(key, fs::read_to_string(path));
    fs::write("new.env", SECRET).expect("an ordinary file");
    fs::create_dir_all("sub").expect("a directory");
    fs::write("sub/.env", SECRET).expect("made");
    read("created", "sub/.env".into());
    fs::rename("new.env", "sub/.env.prod").expect("renamed");
    read("renamed", "sub/.env.prod".into());
    fs::write("plain", SECRET).expect("an ordinary file");
    fs::hard_link("plain", "sub/.env.linked").expect("linked");
    read("linked", "sub/.env.linked".into());
    read("linked-by-its-first-name", "plain".into());
    fs::create_dir(home().join(".aws")).expect("a guarded directory");
    fs::write(home().join(".aws/credentials"), SECRET).expect("made");
    read("in-a-new-directory", home().join(".aws/credentials"));
    fs::create_dir(home().join(".aws/deep")).expect("a directory in it");
    fs::write(home().join(".aws/deep/er"), SECRET).expect("made");
    read("deeper", home().join(".aws/deep/er"));
    fs::rename(home().join(".aws/deep"), home().join("plain/away")).expect("moved out");
    read("moved-out", home().join("plain/away/er"));
    fs::create_dir_all("tree/a").expect("directories");
    fs::write("tree/a/file", SECRET).expect("made");
    fs::rename("tree", home().join(".aws/tree")).or_else(|_| fs::rename("tree", "tree2")).expect("moved in");
    read("moved-in", home().join(".aws/tree/a/file"));
}

fn replaced() {
    for name in [".netrc", "work/.env"] {
        for side in [Side::Bare, Side::Gated] {
            let mut sandbox = judge::sandbox(ASKS);
            judge::answering_reads_with_no(&mut sandbox);
            let script = format!(
                "f=$HOME/{name}; echo {SECRET} >$f.new; mv $f.new $f || exit 7; cat $f; rm $f; echo {SECRET} >$f; cat $f"
            );
            let outcome = sandbox.on(side, &["sh", "-c", script.as_str()]);
            outcome.assert(outcome.code() != 7, "it was replaced");
            let read = outcome.out().matches(SECRET).count();
            outcome.assert(read == if side == Side::Bare { 2 } else { 0 }, "what was read");
            let now = fs::read_to_string(sandbox.home().join(name)).expect("the host sees the new file");
            assert_eq!(now.trim_end(), SECRET);
        }
    }
}

fn moved_to_an_allowed_name() {
    for side in [Side::Bare, Side::Gated] {
        let mut sandbox = judge::sandbox(ASKS);
        judge::answering_reads_with_no(&mut sandbox);
        let outcome = sandbox.on(side, &sandbox.inside::<&str>("moved", &[]));
        outcome.assert(outcome.out().contains("ran moved"), "it came to its end");
        let read = outcome.out().matches(SECRET).count();
        outcome.assert(read == if side == Side::Bare { 3 } else { 0 }, "what was read");
    }
}

fn moved(_: &[String]) {
    let ssh = home().join(".ssh");
    fs::hard_link(ssh.join("id"), ssh.join("id2")).expect("within the region");
    fs::rename(ssh.join("id"), ssh.join("known_hosts")).expect("over an allowed name");
    say("renamed", fs::read_to_string(ssh.join("known_hosts")));
    fs::remove_file(ssh.join("known_hosts")).expect("removed");
    fs::hard_link(ssh.join("id2"), ssh.join("known_hosts")).expect("at an allowed name");
    say("linked", fs::read_to_string(ssh.join("known_hosts")));
    fs::remove_dir_all(ssh.join("public")).expect("removed");
    fs::rename(ssh.join("deep"), ssh.join("public")).expect("at an allowed name");
    say("tree", fs::read_to_string(ssh.join("public/er/id")));
}

fn nested() {
    let rules = r#"
[[rule]]
id = "closed"
access = ["read"]
path = ["~/a/**"]
except = ["~/a/open/**"]
level = "deny"

[[rule]]
id = "closed-again"
access = ["read"]
path = ["~/a/open/closed/**"]
level = "deny"
"#;
    let sandbox = judge::sandbox(rules);
    for name in ["a/one", "a/open/two", "a/open/closed/three", "b"] {
        sandbox.file(&sandbox.home().join(name), &format!("{name}\n"));
    }
    let outcome = sandbox.run(&["sh", "-c", "cd; cat b a/one a/open/two a/open/closed/three"]);
    outcome.assert(outcome.out() == "b\na/open/two\n", "what was read");
}

fn granted() {
    let mut sandbox = judge::sandbox(ASKS);
    judge::answering(&mut sandbox, "session");
    let outcome = sandbox.run(&sandbox.inside::<&str>("again", &[]));
    outcome.assert(outcome.number("read") == 300, "all were read");
    outcome.assert(outcome.events_of("consent_required").count() == 1, "one question");
    let recorded = outcome.audit.iter().filter(|line| line["access"] == "read").count();
    outcome.assert(recorded == 2, "the answer, and the first read that it let through");
}

fn again(_: &[String]) {
    let id = home().join(".ssh/id");
    println!("read {}", (0..300).filter(|_| fs::read_to_string(&id).is_ok_and(|text| text.contains(SECRET))).count());
}

fn killed() {
    let mut sandbox = judge::sandbox(ASKS);
    sandbox.answers("[[answer]]\naccess = \"read\"\nobject = \"/**\"\nanswer = \"session\"\nafter = \"60s\"\n");
    for victim in ["gated-session", "gated-run"] {
        let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("hung", &[]));
        until("the read is asked for", || {
            let asked = running.events_so_far().iter().any(|event| event["event"] == "consent_required");
            asked.then_some(())
        });
        let all = wait::descendants(running.pid());
        let comm = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut hit = 0;
        for process in all.iter().chain(&wait::PidFd::open(running.pid())) {
            if comm(process.pid).trim_end() == victim {
                process.kill(libc::SIGKILL);
                hit += 1;
            }
        }
        assert!(hit > 0, "no process {victim}");
        for process in &all {
            assert!(process.ends_within(Duration::from_secs(10)), "{} lives on", process.pid);
        }
        let outcome = running.finish();
        outcome.assert(!outcome.out().contains(SECRET), "nobody read it");
        // Where the client went, the supervisor had the time to say no.
        outcome.assert(victim == "gated-run" || !outcome.out().contains("past"), "nobody came past the open");
        let _ = fs::remove_file(sandbox.events_file());
    }
}

fn hung(_: &[String]) {
    let text = fs::read(home().join(".ssh/id"));
    println!("past the open with {}", String::from_utf8_lossy(&text.unwrap_or_default()));
}

fn nothing_left() {
    let sandbox = judge::sandbox(ASKS);
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let root = sandbox.root().display().to_string();
    let outcome = sandbox.run(&["sh", "-c", "cat ~/.ssh/id; mount | grep -c .ssh; exit 0"]);
    outcome.assert_code(0);
    assert!(!mounts().contains(&root), "no mount of it is here");
    until("no process is left", || sandbox.processes().is_empty().then_some(()));
    keepers_end(&sandbox);
    // What was a mount point inside is none here.
    fs::remove_dir_all(sandbox.home().join(".ssh")).expect("removed");
}

/// The keeper has no environment and no words by which it could be known; it is looked for by name and user.
fn keepers_end(_: &Sandbox) {
    let ours = |pid: &str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "gated-keeper")
            && fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.contains("\nPPid:\t1\n"))
    };
    until("no keeper is left behind", || {
        let all = fs::read_dir("/proc").expect("/proc").flatten();
        (!all.filter_map(|entry| entry.file_name().into_string().ok()).any(|pid| ours(&pid))).then_some(())
    });
}

fn interrupted() {
    let mut sandbox = judge::sandbox(ASKS);
    sandbox.answers("[[answer]]\naccess = \"read\"\nobject = \"/**\"\nanswer = \"session\"\nafter = \"60s\"\n");
    let script = "trap 'echo trapped' ALRM; timeout -s ALRM 0.3 cat ~/.ssh/id; echo then $?";
    let outcome = sandbox.run(&["sh", "-c", script]);
    outcome.assert(outcome.out().contains("then 124"), "the wait ended with the signal");
    outcome.assert(outcome.audit.iter().any(|line| line["result"] == "cancelled"), "the question was taken back");
}

fn service() {
    let profile = r#"
schema = 1

[profile]
name = "service"

[vars]
workspace = "@cwd"

[defaults]
read = "deny"
write = "deny"

[[rule]]
id = "system"
access = ["read"]
path = ["/usr/**", "/bin/**", "/lib/**", "/lib64/**", "/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"]
level = "allow"

[[rule]]
id = "state"
access = ["read", "write"]
path = ["{workspace}/**"]
level = "allow"
"#;
    let sandbox = judge::sandbox("");
    sandbox.profile(profile);
    sandbox.file(&sandbox.workspace().join("mine"), "mine\n");
    sandbox.file(&sandbox.outside().join("theirs"), "theirs\n");
    let theirs = sandbox.outside().join("theirs").display().to_string();
    let script = format!(
        "ls /usr/bin >list && wc -l <list; cat mine; cat {theirs}; cat ~/.ssh/id; ls ~; ls /etc; ls /; echo end"
    );
    let outcome = sandbox.run(&["sh", "-c", script.as_str()]);
    outcome.assert(outcome.out().contains("mine\nend\n"), "nothing else was read");
    let listed: u32 = outcome.out().lines().next().and_then(|line| line.parse().ok()).unwrap_or(0);
    outcome.assert(listed > 20, "the system's programs were listed");
    let denied = outcome.audit.iter().filter(|line| line["access"] == "read" && line["result"] == "not_permitted");
    outcome.assert(denied.count() >= 5, "each denial is recorded");
}

fn others_home() {
    let sandbox = judge::sandbox("");
    let homes = sandbox.root().join("homes");
    sandbox.file(&homes.join("other/file"), "theirs\n");
    sandbox.file(&homes.join("me/file"), "mine\n");
    let homes = homes.display().to_string();
    sandbox.profile(&format!(
        "schema = 1\n[profile]\nname = \"homes\"\n[[rule]]\nid = \"homes\"\naccess = [\"read\"]\npath = [\"{homes}/*/**\"]\nexcept = [\"{homes}/me/**\"]\nlevel = \"deny\"\n"
    ));
    let script = format!("cat {homes}/me/file {homes}/other/file");
    for side in [Side::Bare, Side::Gated] {
        let outcome = sandbox.on(side, &["sh", "-c", script.as_str()]);
        let expected = if side == Side::Bare { "mine\ntheirs\n" } else { "mine\n" };
        outcome.assert(outcome.out() == expected, "what was read");
    }
}

fn many() {
    let mut sandbox = judge::sandbox(ASKS);
    judge::answering(&mut sandbox, "deny");
    for at in 0..300 {
        sandbox.file(&sandbox.workspace().join(format!("d{at}/.env")), SECRET);
    }
    let outcome = sandbox.run(&["sh", "-c", "cat d*/.env 2>&1 | grep -c 'not permitted'"]);
    outcome.assert(outcome.out() == "300\n", "each was held");
}

fn outside() {
    let mut sandbox = judge::sandbox(ASKS);
    judge::answering_reads_with_no(&mut sandbox);
    let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("waiting", &[]));
    until("the session is there", || running.so_far().contains("ready").then_some(()));
    let make = |name: &str| {
        let path = sandbox.home().join(name);
        let fresh = path.with_extension("fresh");
        sandbox.file(&fresh, SECRET);
        fs::rename(&fresh, &path).expect("as editors do it");
    };
    for name in [".netrc", "work/.env", "work/web/.env.local", "work/.env.new", ".aws/credentials", "plain/go"] {
        make(name);
    }
    let outcome = running.finish();
    outcome.assert(outcome.out().contains("ran waiting"), "it came to its end");
    outcome.assert(!outcome.out().contains("never held"), "each is held in the end");
}

/// Names made outside are held as soon as the supervisor has heard of them, which it is given time for.
fn waiting(_: &[String]) {
    println!("ready");
    let go = home().join("plain/go");
    until("all are made", || go.exists().then_some(()));
    for name in [".netrc", "work/.env", "work/web/.env.local", "work/.env.new", ".aws/credentials"] {
        let path = home().join(name);
        let is_held = || fs::read(&path).is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
        until("it is held", || is_held().then_some(()));
    }
}

/// Makes or replaces a file as an editor does it, outside of the session.
fn replace(sandbox: &crate::support::Sandbox, name: &str) {
    let path = sandbox.home().join(name);
    let fresh = path.with_extension("fresh");
    sandbox.file(&fresh, SECRET);
    fs::rename(&fresh, &path).expect("as editors do it");
}

fn from_the_depth() {
    let mut sandbox = judge::sandbox(ASKS);
    judge::answering_reads_with_no(&mut sandbox);
    let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("deep", &[]));
    until("the session is there", || running.so_far().contains("ready").then_some(()));
    replace(&sandbox, "work/.env");
    replace(&sandbox, "plain/go");
    let outcome = running.finish();
    outcome.assert(outcome.out().contains("from the depth: "), "it came to its end");
    outcome.assert(!outcome.out().contains(SECRET), "what was read");
}

/// A file with a mark of its own is read by a process with more ancestors than anybody looks at.
fn deep(_: &[String]) {
    println!("ready");
    let secret = home().join("work/.env");
    until("it is made", || home().join("plain/go").exists().then_some(()));
    until("it is held", || fs::read(&secret).is_err().then_some(()));
    below(4200);
}

/// In so many processes, each the child of the one before. They share their memory, as vfork(2) does it, and each waits.
fn below(depth: usize) {
    extern "C" fn child(depth: *mut libc::c_void) -> i32 {
        match depth as usize {
            0 => say("from the depth:", fs::read_to_string(home().join("work/.env"))),
            depth => below(depth - 1),
        }
        0
    }
    let stack = vec![0_u8; 64 << 10].leak();
    // SAFETY: the stack is the child's alone, and this process waits in the kernel until the child has ended.
    unsafe {
        let top = stack.as_mut_ptr_range().end.cast();
        let child =
            libc::clone(child, top, libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD, depth as *mut libc::c_void);
        assert!(child > 0, "a child");
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

fn outside_after_a_move() {
    let mut sandbox = judge::sandbox(ASKS);
    judge::answering_reads_with_no(&mut sandbox);
    let running = sandbox.start(Side::Gated, &sandbox.inside::<&str>("moving", &[]));
    until("the session is there", || running.so_far().contains("ready").then_some(()));
    replace(&sandbox, "work/moved/.env.local");
    replace(&sandbox, "plain/go");
    let outcome = running.finish();
    outcome.assert(outcome.out().contains("ran moving"), "it came to its end");
    outcome.assert(!outcome.out().contains("never held"), "it is held in the end");
}

fn moving(_: &[String]) {
    fs::rename("web", "moved").expect("renamed");
    println!("ready");
    until("it is made", || home().join("plain/go").exists().then_some(()));
    let is_held = || fs::read("moved/.env.local").is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
    until("it is held", || is_held().then_some(()));
}
