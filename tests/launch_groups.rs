//! A real program that does much at once, in a real session on a terminal: one prompt for all of it, and what each answer to
//! it lets happen.

#[path = "support/mod.rs"]
mod support;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use support::terminal::Person;
use support::{Running, Sandbox, Side, until};

const MANY: usize = 214;

/// The first thread makes a symbolic link, which is asked for by itself; the others create a file each while that is shown.
/// Says how many could.
const CREATOR: &str = r#"
import os, sys, threading
place, many = sys.argv[1], int(sys.argv[2])
made = [0] * many
def create(number):
    try:
        with open(os.path.join(place, str(number)), "w") as file:
            file.write("data")
        made[number] = 1
    except OSError:
        pass
def link():
    try:
        os.symlink("nowhere", os.path.join(place, "first"))
    except OSError:
        pass
threading.stack_size(256 * 1024)
threads = [threading.Thread(target=link)] + [threading.Thread(target=create, args=(n,)) for n in range(many)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("made", sum(made), "end")
"#;

/// The program on a terminal, once everything that it wants is asked, and only the symbolic link is shown.
fn creating<'a>(sandbox: &'a mut Sandbox, many: usize) -> (Person, Running<'a>) {
    sandbox.consent("tty");
    let sandbox: &Sandbox = sandbox;
    let (person, slave) = Person::new();
    let place = sandbox.outside().into_os_string();
    let program = ["python3", "-I", "-S", "-B", "-c", CREATOR].map(OsString::from);
    let argv: Vec<OsString> = program.into_iter().chain([place, many.to_string().into()]).collect();
    let mut line: Vec<OsString> = ["sh", "-c", "exec \"$@\" >&0 2>&0", "sh"].map(OsString::from).to_vec();
    line.extend(sandbox.gated_argv(&argv));
    let running = sandbox.start_line(Side::Gated, &line, Some(slave));
    person.sees("wants to make this symbolic link");
    until("all of it to be asked", || (asked(&running) == many + 1).then_some(()));
    // What has come together can be shown together.
    std::thread::sleep(Duration::from_millis(200));
    (person, running)
}

fn asked(running: &Running<'_>) -> usize {
    running.events_so_far().iter().filter(|event| event["event"] == "consent_required").count()
}

/// Answers the prompt that is shown, when it takes keys.
fn answers(person: &Person, keys: &[&str]) {
    for keys in keys {
        person.sees("s] > ");
        person.types(keys);
        person.sees(&format!("> {keys}"));
        person.types("\r");
    }
}

fn files(place: &Path) -> usize {
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    fs::read_dir(place).unwrap().filter(|entry| is_file(entry.as_ref().unwrap())).count()
}

#[test]
fn all_of_two_hundred_files_are_created_by_one_answer() {
    let mut sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let (person, running) = creating(&mut sandbox, MANY);
    assert_eq!(files(&outside), 0, "created before anybody was asked");
    answers(&person, &["d"]);
    person.sees("wants to create 214 files in");
    person.sees("214 in all");
    answers(&person, &["o"]);
    person.sees("made 214 end");
    person.sees_the_rest();
    assert_eq!(asked(&running), MANY + 1);
    running.finish().assert_code(0);
    assert_eq!(files(&outside), MANY);
    assert!(fs::symlink_metadata(outside.join("first")).is_err());
}

#[test]
fn none_of_them_is_created_by_a_no() {
    let mut sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let (person, running) = creating(&mut sandbox, 40);
    answers(&person, &["d"]);
    person.sees("wants to create 40 files in");
    answers(&person, &["d"]);
    person.sees("made 0 end");
    person.sees_the_rest();
    running.finish().assert_code(0);
    assert_eq!(files(&outside), 0);
}

#[test]
fn one_by_one_each_is_created_by_its_own_answer() {
    let mut sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let (person, running) = creating(&mut sandbox, 4);
    answers(&person, &["d"]);
    person.sees("wants to create 4 files in");
    answers(&person, &["1"]);
    for key in ["o", "d", "o", "d"] {
        person.sees("wants to create this file");
        answers(&person, &[key]);
    }
    person.sees("made 2 end");
    person.sees_the_rest();
    running.finish().assert_code(0);
    assert_eq!(files(&outside), 2);
}

#[test]
fn an_answer_for_the_directory_holds_for_what_is_created_later_as_well() {
    let mut sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let (person, running) = creating(&mut sandbox, 3);
    answers(&person, &["d"]);
    person.sees("wants to create 3 files in");
    answers(&person, &["w", "s"]);
    person.sees("made 3 end");
    person.sees_the_rest();
    let grants: Vec<_> = running.events_so_far().into_iter().filter(|event| event["scope"] == "directory").collect();
    assert_eq!(grants.len(), 3);
    running.finish().assert_code(0);
    assert_eq!(files(&outside), 3);
}
