//! What a prompt on a terminal says, against golden files, and under hostile names in terminals of every size.
//! `GATED_UPDATE_GOLDEN=1` rewrites the files; the difference is then to be read.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use gated::common::access::{Access, Level};
use gated::common::consent::{Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::exec::{Execution, Parent};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::scope::Pattern;
use gated::common::text::{self, Untrusted};
use gated::consent::terminal::dialog::{Dialog, Typed, typed};
use gated::consent::terminal::draw;
use proptest::prelude::*;

fn request(object: &[u8]) -> Request {
    Request {
        id: RequestId(1),
        session: SessionId("00000001".into()),
        call: CallId(1),
        who: Who {
            pid: 4711,
            program: "/usr/bin/python3.11".into(),
            argv: ["python3", "setup.py", "install", "--prefix=/home/alice/my tools"].map(Untrusted::new).to_vec(),
            cwd: "/home/alice/project".into(),
        },
        access: Access::Write,
        operation: Operation::OpenWrite,
        object: RawPath::new(object),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef {
            profile: "coder".into(),
            id: "code-that-runs-outside".into(),
            file: "/etc/gated/profiles/coder.toml".into(),
            line: 31,
            reason: Some("This file is run outside the sandbox later.".into()),
        },
        remember: Lifetime::Session,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
    }
}

fn prompt(request: Request, attempts: usize, waiting: usize) -> Prompt {
    let parent = request.object.parent().unwrap_or_default();
    let offers = [
        (Width::Exact, Pattern::literal(&request.object)),
        (Width::Directory, Pattern::children_of(&parent)),
        (Width::Tree, Pattern::tree_of(&parent)),
    ];
    let offers = offers.map(|(width, pattern)| Offer { width, scope: pattern.to_string() }).to_vec();
    Prompt { attempts, waiting, ..Prompt::new(Rc::new(request), offers, Instant::now()) }
}

/// What `words` would run.
fn execution(words: &[&[u8]]) -> Request {
    let parent = |pid, program: &str, argv: &[&str]| Parent {
        pid,
        program: program.into(),
        argv: argv.iter().map(|word| Untrusted::new(word.as_bytes())).collect(),
    };
    let mut request = request(b"/usr/bin/git");
    request.access = Access::Exec;
    request.operation = Operation::Execute;
    request.who.program = "/usr/bin/dash".into();
    request.who.argv = ["sh", "-c", "git push \"$remote\" && make clean"].map(Untrusted::new).to_vec();
    request.rule.id = "push".into();
    request.rule.reason = None;
    request.execution = Some(Box::new(Execution {
        argv: words.iter().map(|word| Untrusted::new(*word)).collect(),
        words_left_out: 0,
        interpreters: vec![],
        variables: vec![],
        parents: vec![parent(4700, "/usr/bin/make", &["make", "release"]), parent(4600, "/usr/bin/node", &["claude"])],
        is_new: false,
        is_first: false,
        version: None,
    }));
    request
}

fn exec_prompt(request: Request) -> Prompt {
    let offers = [(Width::Exact, "git push origin main"), (Width::Prefix, "git push …"), (Width::Program, "git …")];
    let offers = offers.map(|(width, scope)| Offer { width, scope: scope.to_owned() }).to_vec();
    Prompt { offers, ..prompt(request, 1, 0) }
}

fn change(request: &mut Request) -> &mut Execution {
    request.execution.as_deref_mut().unwrap()
}

/// The page with its line of input, or a word where there is none.
fn render(prompt: &Prompt, keys: &[&[u8]], columns: usize, rows: usize) -> String {
    let first = prompt.request.execution.as_ref().is_some_and(|execution| execution.is_first);
    let mut dialog = Dialog::new(prompt, first);
    for key in keys {
        assert_ne!(typed(key), Typed::Noise);
        dialog.input(typed(key));
    }
    match draw::page(prompt, &dialog, columns, rows) {
        Some(lines) => lines.join("\n") + "\n" + &draw::input(&dialog, 57, columns) + "\n",
        None => "does not fit\n".to_owned(),
    }
}

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("GATED_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "differs from {}", path.display());
}

#[test]
fn an_ordinary_request() {
    let prompt = prompt(request(b"/home/alice/project/.envrc"), 1, 0);
    golden("prompt_ordinary.txt", &render(&prompt, &[], 80, 24));
}

#[test]
fn a_widened_scope_with_others_waiting() {
    let prompt = prompt(request(b"/srv/data/sets/a.csv"), 3, 2);
    golden("prompt_widened.txt", &render(&prompt, &[b"w\r", b"w\r", b"s"], 80, 24));
}

#[test]
fn a_rename_whose_answer_is_not_kept_with_help() {
    let rename = Request {
        operation: Operation::Rename,
        is_directory: true,
        other: Some("/srv/old name".into()),
        remember: Lifetime::Attempt,
        ..request(b"/srv/new")
    };
    let mut prompt = prompt(rename, 1, 0);
    prompt.offers.truncate(1);
    golden("prompt_rename_help.txt", &render(&prompt, &[b"?\r"], 80, 24));
}

#[test]
fn hostile_names() {
    let mut hostile = request(
        "/tmp/\u{202e}gpj.exe\n\n  d = deny   o = allow once\x1b[2J\x1b[1;1H\x07/\u{200b}…(12 bytes)…".as_bytes(),
    );
    hostile.object = hostile.object.join(b"\xff\xfe \\x41");
    hostile.who.program = RawPath::new(b"/tmp/gated: ls\r\x1b]0;owned\x07".to_vec());
    hostile.who.argv = vec![Untrusted::new(b"ls\x1b[31m".to_vec()), Untrusted::new("a'b\u{2066}c")];
    hostile.who.cwd = RawPath::new("/tmp/\u{9b}2J".as_bytes());
    golden("prompt_hostile.txt", &render(&prompt(hostile, 1, 0), &[], 80, 24));
}

#[test]
fn a_path_of_ten_kilobytes_keeps_its_file_name() {
    let long = format!("/home/alice/{}/authorized_keys", "very/deep/".repeat(1000));
    let prompt = prompt(request(long.as_bytes()), 1, 0);
    golden("prompt_long_path.txt", &render(&prompt, &[], 80, 24));
}

#[test]
fn a_narrow_terminal() {
    let prompt = prompt(request(b"/home/alice/.config/autostart/update-notifier-of-the-tool.desktop"), 1, 1);
    golden("prompt_narrow.txt", &render(&prompt, &[], 32, 40));
}

#[test]
fn a_low_terminal_drops_what_matters_least() {
    let prompt = prompt(request(b"/home/alice/project/.git/hooks/post-commit"), 2, 1);
    golden("prompt_low.txt", &render(&prompt, &[], 80, 9));
}

#[test]
fn a_command() {
    let request = execution(&[b"git", b"push", b"origin", b"main"]);
    golden("prompt_exec.txt", &render(&exec_prompt(request), &[], 80, 24));
}

#[test]
fn a_new_script_with_what_carries_code() {
    let mut request = execution(&[b"./deploy", b"to the cloud", b"a\x1b[2Jb\xff", "žluť\u{202e}".as_bytes(), b""]);
    request.object = "/home/alice/project/deploy".into();
    let execution = change(&mut request);
    execution.is_new = true;
    execution.interpreters = vec!["/usr/bin/env".into(), "/usr/bin/python3.11".into()];
    execution.variables = ["LD_PRELOAD=/tmp/x y.so", "PYTHONPATH=lib"].map(Untrusted::new).to_vec();
    golden("prompt_exec_script.txt", &render(&exec_prompt(request), &[b"w\r", b"?\r"], 80, 30));
}

#[test]
fn the_command_that_gated_run_was_given() {
    let mut request = execution(&[b"git", b"push", b"--force"]);
    change(&mut request).is_first = true;
    golden("prompt_exec_first.txt", &render(&exec_prompt(request), &[], 80, 24));
}

#[test]
fn a_directory_that_is_listed() {
    let mut request = request(b"/home/alice/.ssh");
    (request.access, request.operation, request.is_directory) = (Access::Read, Operation::List, true);
    request.rule.id = "secrets".into();
    request.rule.reason = Some("Credentials.".into());
    golden("prompt_read.txt", &render(&prompt(request, 1, 0), &[b"?\r"], 80, 24));
}

/// Everything of the longest command can be seen, and what is pasted is what would run.
#[test]
fn a_long_command_has_further_pages() {
    let mut words: Vec<Vec<u8>> = vec![b"cc".to_vec()];
    words.extend((0..150).map(|number| format!("-DNAME_{number}=a value's {number}\n").into_bytes()));
    words.push(vec![b'x'; 3000]);
    let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut request = execution(&borrowed);
    let parents = (0..16).map(|pid| Parent { pid, program: "/bin/sh".into(), argv: vec![Untrusted::new("sh")] });
    change(&mut request).parents = parents.collect();
    let prompt = exec_prompt(request);
    golden("prompt_exec_long.txt", &render(&prompt, &[], 80, 24));
    golden("prompt_exec_more.txt", &render(&prompt, &[b"m\r"], 80, 24));
    let mut dialog = Dialog::new(&prompt, false);
    let mut all = Vec::new();
    for page in 1.. {
        dialog.input(typed(b"m\r"));
        let lines = draw::page(&prompt, &dialog, 80, 24).unwrap();
        if !lines[0].starts_with("gated: all of it") {
            assert!(page > 7, "after the last page comes the first");
            break;
        }
        let keys = lines.iter().position(|line| line.starts_with("d = deny")).unwrap();
        all.extend(lines[1..keys].iter().map(|line| line[14.min(line.len())..].to_owned()));
    }
    let end = all.iter().position(|line| line == "/usr/bin/git").unwrap();
    // The last word is longer than a line.
    let long = all[..end].iter().position(|line| line.starts_with("xxx")).unwrap();
    let script = all[..long].join("\n") + "\n" + &all[long..end].concat();
    let script = format!("printf '%s\\0' {script}");
    let shell = std::process::Command::new("bash").arg("-c").arg(script).output().unwrap();
    let back: Vec<&[u8]> = shell.stdout.split(|byte| *byte == 0).collect();
    assert!(back.split_last().unwrap().1 == borrowed, "{}", String::from_utf8_lossy(&shell.stdout));
    assert_eq!(all.iter().filter(|line| line.starts_with("sh (/bin/sh, pid ")).count(), 16);
}

#[test]
fn a_command_too_long_to_be_sent_says_so() {
    let mut request = execution(&[b"echo", b"x"]);
    change(&mut request).words_left_out = 7;
    let shown = render(&exec_prompt(request), &[], 80, 24);
    assert!(shown.contains("command     echo x …and 7 more words, too long to be shown\n"), "{shown}");
    let mut request = execution(&[]);
    change(&mut request).words_left_out = 1;
    let shown = render(&exec_prompt(request), &[], 80, 24);
    assert!(shown.contains("…and 1 more word, too long to be shown\n"), "{shown}");
}

#[test]
fn a_terminal_that_cannot_hold_what_is_asked_gets_no_prompt() {
    let prompt = prompt(request(b"/home/alice/project/.git/hooks/post-commit"), 1, 0);
    for (columns, rows) in [(80, 4), (19, 40), (0, 0), (20, 5)] {
        assert_eq!(render(&prompt, &[], columns, rows), "does not fit\n", "{columns}x{rows}");
    }
}

proptest! {
    #[test]
    fn no_command_draws_more_than_itself_on_any_page(
        argv in prop::collection::vec(prop::collection::vec(1u8.., 0..200), 0..30),
        program in prop::collection::vec(1u8.., 0..300),
        variable in prop::collection::vec(1u8.., 0..300),
        flags in any::<[bool; 2]>(),
        left_out in 0u32..3,
        columns in 20usize..200,
        rows in 0usize..60,
        keys in "[wdosm?]{0,6}",
    ) {
        let words: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        let mut request = execution(&words);
        request.object = request.object.join(&program);
        let execution = change(&mut request);
        [execution.is_new, execution.is_first] = flags;
        execution.words_left_out = left_out;
        execution.interpreters = vec![RawPath::new(program)];
        execution.variables = vec![Untrusted::new([b"A=".as_slice(), &variable].concat())];
        execution.parents[0].argv = vec![Untrusted::new(variable)];
        let prompt = exec_prompt(request);
        let mut dialog = Dialog::new(&prompt, flags[1]);
        for key in keys.bytes() {
            dialog.input(typed(&[key, b'\r']));
        }
        let Some(lines) = draw::page(&prompt, &dialog, columns, rows) else {
            prop_assert!(rows < 30, "{columns}x{rows}");
            return Ok(());
        };
        prop_assert!(lines.len() < rows);
        for line in &lines {
            prop_assert!(text::columns(line) <= columns, "{} of {columns}: {line:?}", text::columns(line));
            prop_assert!(line.chars().all(|shown| text::is_showable(shown) || "… ".contains(shown)), "{line:?}");
        }
        // What matters is there on every size that gets a prompt at all.
        let all = lines.join("\n");
        if !keys.contains('m') {
            prop_assert!(all.contains("command") && all.contains("program") && (!flags[0] || all.contains("!! NEW")));
        }
    }

    #[test]
    fn nothing_leaves_its_place_and_the_file_name_stays(
        directory in prop::collection::vec(any::<u8>(), 0..3000),
        name in "[a-z\\x1b\u{202e}\u{4e00}]{1,6}",
        argv in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
        columns in 20usize..200,
        rows in 0usize..60,
        keys in "[wdos?]{0,3}",
    ) {
        let mut request = request(b"/");
        request.object = request.object.join(&directory).join(name.as_bytes());
        request.who.argv = argv.into_iter().map(Untrusted::new).collect();
        let prompt = prompt(request, 1, 0);
        let mut dialog = Dialog::new(&prompt, false);
        for key in keys.bytes() {
            dialog.input(typed(&[key, b'\r']));
        }
        let Some(lines) = draw::page(&prompt, &dialog, columns, rows) else {
            prop_assert!(rows < 24, "{columns}x{rows}");
            return Ok(());
        };
        prop_assert!(lines.len() < rows);
        for line in &lines {
            prop_assert!(text::columns(line) <= columns, "{} of {columns}: {line:?}", text::columns(line));
            prop_assert!(line.chars().all(|shown| text::is_showable(shown) || "… ".contains(shown)), "{line:?}");
        }
        // Read down the lines of the object: they end with the end of the name.
        let object: String = lines
            .iter()
            .skip_while(|line| !line.trim_start().starts_with("object"))
            .take_while(|line| !line.trim_start().starts_with("program") && !line.trim_start().starts_with("command")
                && !line.trim_start().starts_with("yes covers") && !line.is_empty() && !line.trim_start().starts_with("rule"))
            .map(|line| line.trim_start())
            .collect();
        let last = name.chars().next_back().map(String::from).unwrap_or_default();
        let tail = text::escaped(last.as_bytes());
        prop_assert!(object.ends_with(&tail), "{object:?} has lost {tail:?}");
    }
}
