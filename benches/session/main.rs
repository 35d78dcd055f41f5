//! What a session costs: each held call, what is not held, the start of a command, memory; beside the same done bare by
//! the same user. `scripts/bench.sh` runs this after the other benchmarks and it takes their figures into its table.
//!
//! Runs as root. Arguments that start with `-` are cargo's and ignored; another is the one part to measure: `calls`,
//! `programs`, `start`, `decision`, `memory`, `reads`, `network` or `daemon`.

mod calls;
mod daemon;
mod memory;
mod network;
mod programs;
mod reads;
#[path = "../../tests/support/mod.rs"]
mod support;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use calls::{IN_SCRATCH, IN_WORKSPACE, Kind};
use support::{Sandbox, Side, until};
use table::{Line, Runs, Target};

/// On both sides, in turn, so that what else the machine does falls on both alike.
const SESSIONS: usize = 3;
const STARTS: usize = 40;
/// Where the private file systems of a session and of the machine are alike.
const SCRATCH: &str = "/dev/shm/gated-bench";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, part, rest @ ..] = args.as_slice()
        && first == "--inside"
    {
        return inside(part, rest);
    }
    let selected = args.iter().find(|arg| !arg.starts_with('-'));
    let wants = |part: &str| selected.is_none_or(|selected| selected == part);
    let mut lines = Vec::new();
    if wants("calls") {
        lines.extend(held_calls());
    }
    if wants("programs") {
        lines.extend(programs::lines());
    }
    if wants("start") {
        lines.push(start_of_true());
    }
    if wants("decision") {
        lines.extend(slowest_decision());
    }
    if wants("memory") {
        lines.extend(memory_of_session());
    }
    if wants("reads") {
        lines.extend(reads::lines());
    }
    if wants("network") {
        lines.extend(network::lines());
    }
    if wants("daemon") {
        lines.extend(daemon::lines());
    }
    let table = table::show(&lines);
    print!("{table}");
    let file = target_directory().join("bench/session.txt");
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).expect("a directory for the table");
    fs::write(&file, table).expect("write the table");
    println!("\nwritten to {}", file.display());
}

fn inside(part: &str, args: &[String]) {
    if daemon::inside(part, args) {
        return;
    }
    match (part, args) {
        ("calls", [workspace]) => {
            calls::run(Path::new(workspace), IN_WORKSPACE);
            calls::run(Path::new(SCRATCH), IN_SCRATCH);
        }
        ("open", [file]) => reads::inside(file),
        ("command", argv) => reads::inside_command(argv),
        ("network", []) => network::inside(),
        ("programs", []) => programs::run(),
        ("wait", [workspace]) => {
            calls::run(Path::new(workspace), IN_WORKSPACE);
            println!("ready");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        _ => panic!("no part {part} with {} arguments", args.len()),
    }
}

/// The workspace's `bench/` is a tmpfs, so that no disk is measured.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.profile(support::profiles::ALLOW_ALL);
    let directory = sandbox.workspace().join("bench");
    sandbox.dir(&directory);
    sandbox.tmpfs(&directory, "mode=0777");
    sandbox
}

fn held_calls() -> Vec<Line> {
    let sandbox = sandbox();
    let directory = sandbox.workspace().join("bench");
    let argv = sandbox.inside("calls", &[&directory]);
    let (mut bare, mut gated) = (String::new(), String::new());
    for _ in 0..SESSIONS {
        for (side, text) in [(Side::Bare, &mut bare), (Side::Gated, &mut gated)] {
            let outcome = sandbox.on(side, &argv);
            outcome.assert_code(0);
            text.push_str(&outcome.out());
        }
    }
    let line = |kind: &Kind| {
        let runs = |text: &str| {
            let figures = text.lines().filter_map(|line| line.strip_prefix(kind.name)?.strip_prefix(": "));
            let figures = figures.flat_map(str::split_whitespace).map(|ns| ns.parse::<f64>().expect("a number"));
            Runs::new(figures.map(|ns| ns / 1000.0).collect())
        };
        let target = match kind.name {
            name if name.starts_with("scratch:") => Target::AtMost(8.0),
            // A walk along links goes component by component.
            "open for writing, through a link" => Target::None,
            name if name.starts_with("open for writing") => Target::AtMost(15.0),
            // Not held. The floor looks at each open, for the right to cut the file later; at the others it does not.
            "open for reading" => Target::MoreThanBare(1.0),
            "stat" | "read" => Target::MoreThanBare(0.2),
            _ => Target::None,
        };
        Line { name: kind.name.to_owned(), unit: "µs", bare: Some(runs(&bare)), gated: runs(&gated), target }
    };
    IN_WORKSPACE.iter().chain(IN_SCRATCH).map(line).collect()
}

fn start_of_true() -> Line {
    let sandbox = sandbox();
    let (mut bare, mut gated) = (Vec::new(), Vec::new());
    for round in 0..=STARTS {
        for (side, runs) in [(Side::Bare, &mut bare), (Side::Gated, &mut gated)] {
            let start = Instant::now();
            let outcome = sandbox.on(side, &["/bin/true"]);
            let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
            outcome.assert_code(0);
            if round > 0 {
                runs.push(milliseconds);
            }
        }
    }
    Line {
        name: "start and end of true".to_owned(),
        unit: "ms",
        bare: Some(Runs::new(bare)),
        gated: Runs::new(gated),
        target: Target::MoreThanBare(15.0),
    }
}

/// The slowest of what `decision` measured, if it has run.
fn slowest_decision() -> Option<Line> {
    let mut slowest: Option<(String, f64)> = None;
    for entry in fs::read_dir(target_directory().join("criterion/decision_500-rules")).ok()?.flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join("new/estimates.json")) else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        let estimates: serde_json::Value = serde_json::from_str(&text).expect("criterion's own JSON");
        // A path of 2048 components is no path of a tool's day.
        let microseconds = estimates["median"]["point_estimate"].as_f64()? / 1000.0;
        if name != "2048-components" && slowest.as_ref().is_none_or(|(_, most)| microseconds > *most) {
            slowest = Some((name, microseconds));
        }
    }
    let (name, microseconds) = slowest?;
    Some(Line {
        name: format!("decision, 500 rules ({name})"),
        unit: "µs",
        bare: None,
        gated: Runs::new(vec![microseconds]),
        target: Target::AtMost(5.0),
    })
}

fn memory_of_session() -> Vec<Line> {
    let sandbox = sandbox();
    let argv = sandbox.inside("wait", &[&sandbox.workspace().join("bench")]);
    let running = sandbox.start(Side::Gated, &argv);
    until("the calls of a session", || running.so_far().contains("ready").then_some(()));
    let memory = memory::of_session_below(running.pid());
    let line = |name: &str, kilobytes: u64, target| Line {
        name: name.to_owned(),
        unit: "MiB",
        bare: None,
        gated: Runs::new(vec![kilobytes as f64 / 1024.0]),
        target,
    };
    vec![
        line(&format!("memory of {} processes, shared once", memory.processes), memory.pss, Target::AtMost(12.0)),
        line("  private to them", memory.private, Target::None),
        line("  resident, shared each time", memory.rss, Target::AtMost(12.0)),
        line("  the supervisor's peak", memory.peak, Target::None),
    ]
}

/// `target/`, or what stands for it: above this program's own `PROFILE/deps/`.
fn target_directory() -> PathBuf {
    let own = std::env::current_exe().expect("/proc/self/exe");
    own.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_else(|| PathBuf::from("target"))
}
