//! Runs programs on both sides in two fresh, equal sandboxes and finds the first program that tells them apart.

use std::fs;

use super::executor::HUNG;
use super::program::{Step, Word, to_text};
use super::wrong::Wrong;
use crate::support::network::Namespace;
use crate::support::{Outcome, Sandbox, Side, profiles, snapshot};

/// Which two are compared.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub side: Side,
    /// What the second one does wrong on purpose.
    pub wrong: Wrong,
}

/// What one program did on one side.
#[derive(Clone, PartialEq)]
pub struct Trace {
    pub results: Vec<String>,
    pub tree: Vec<String>,
}

impl Trace {
    /// It was ended because it took too long; the executor then leaves out what comes after it.
    pub fn hung(&self) -> bool {
        self.results.last().is_some_and(|line| line == HUNG)
    }
}

/// What both sides did, program by program, and to the foreign directory together.
pub struct Sides {
    pub bare: Vec<Trace>,
    pub other: Vec<Trace>,
    pub foreign: [Vec<String>; 2],
}

/// What programs need of the sandbox.
struct Needs {
    /// Programs that are executed are judged.
    judged: bool,
    /// A network of their own: ports are the same on both sides.
    network: bool,
}

impl Needs {
    fn of(programs: &[Vec<Step>]) -> Needs {
        Needs {
            judged: programs.iter().any(|steps| calls(steps, &["execve", "execveat", "run"])),
            network: programs.iter().any(|steps| uses_network(steps)),
        }
    }
}

pub fn uses_network(steps: &[Step]) -> bool {
    calls(steps, &["socket"])
}

fn calls(steps: &[Step], names: &[&str]) -> bool {
    steps.iter().any(|step| matches!(step, Step::Call { name, .. } if names.contains(&name.as_str())))
}

/// A program that the two sides tell apart.
pub struct Difference {
    pub index: usize,
    pub steps: Vec<Step>,
    pub expected: Trace,
    pub got: Trace,
}

/// Runs programs in their order in one process; a trace each, and what they did to the foreign directory together.
fn traces(programs: &[Vec<Step>], side: Side, wrong: Wrong) -> (Vec<Trace>, Vec<String>) {
    let mut sandbox = Sandbox::new();
    let needs = Needs::of(programs);
    sandbox.profile(&if needs.judged { profiles::allow_all_judged() } else { profiles::ALLOW_ALL.into() });
    if needs.network {
        sandbox.network(&Namespace::new());
    }
    let foreign = sandbox.root().join("foreign");
    let _held = super::prelude::make_foreign(&foreign);
    super::prelude::mounts(&mut sandbox, &foreign);
    let file = sandbox.root().join("programs.txt");
    fs::write(&file, programs.iter().map(|steps| format!("%\n{}", to_text(steps))).collect::<String>()).expect("write");
    let (file, foreign_text) = (file.display().to_string(), foreign.display().to_string());
    let outcome = sandbox.on(side, &sandbox.inside("programs", &[file, foreign_text, format!("{wrong:?}")]));
    let root = sandbox.root().display().to_string();
    let hide = |line: &str| line.replace(&root, "{R}");
    let mut all: Vec<Trace> =
        results(&outcome).into_iter().map(|results| Trace { results, tree: Vec::new() }).collect();
    let hung = all.last().is_some_and(Trace::hung);
    assert!(hung || all.len() == programs.len(), "the executor did not run every program\n{outcome}");
    outcome.assert_code(0);
    for (index, trace) in all.iter_mut().enumerate() {
        let tree = snapshot::of(&sandbox.workspace().join(format!("s{index:04}")));
        trace.tree = tree.iter().map(|line| hide(line)).collect();
        trace.results = trace.results.iter().map(|line| hide(line)).collect();
    }
    (all, snapshot::of(&foreign).iter().map(|line| hide(line)).collect())
}

fn results(outcome: &Outcome) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for line in outcome.out().lines() {
        if line.starts_with("== ") {
            all.push(Vec::new());
        } else if let Some(last) = all.last_mut() {
            last.push(line.to_owned());
        }
    }
    all
}

pub fn both(programs: &[Vec<Step>], pair: Pair) -> Sides {
    let ((bare, foreign_bare), (other, foreign_other)) = std::thread::scope(|scope| {
        let bare = scope.spawn(|| traces(programs, Side::Bare, Wrong::Nothing));
        let other = scope.spawn(|| traces(programs, pair.side, pair.wrong));
        (joined(bare), joined(other))
    });
    Sides { bare, other, foreign: [foreign_bare, foreign_other] }
}

/// All programs that the sides tell apart, as far as both got: the last may be one that hung. A difference in the foreign directory alone is blamed on the last program.
pub fn differences(programs: &[Vec<Step>], pair: Pair) -> Vec<Difference> {
    let Sides { bare, other, foreign: [foreign_expected, foreign_got] } = both(programs, pair);
    let mut found = Vec::new();
    let hung = bare.last().is_some_and(Trace::hung) || other.last().is_some_and(Trace::hung);
    for (index, (expected, got)) in bare.into_iter().zip(other).enumerate() {
        if !alike(&expected, &got) || expected.hung() {
            found.push(Difference { index, steps: programs[index].clone(), expected, got });
        }
    }
    if !hung && found.is_empty() && foreign_expected != foreign_got {
        let whole = |tree| Trace { results: Vec::new(), tree };
        let steps = programs.last().cloned().unwrap_or_default();
        let (expected, got) = (whole(foreign_expected), whole(foreign_got));
        found.push(Difference { index: programs.len() - 1, steps, expected, got });
    }
    found
}

/// Equal, but for two things that no other process can reproduce, and in which nothing is done either way.
///
/// In its own `/proc/PID/fd` a process has rights that nobody else has (`proc_fd_permission`, fs/proc/fd.c), so the kernel
/// gets as far as saying that procfs cannot make or remove names.
///
/// linkat(2) with `AT_EMPTY_PATH` is `ENOENT` for whoever did not open the directory's descriptor itself, a forked child
/// included (`LOOKUP_LINKAT_EMPTY`, fs/namei.c); whose a descriptor is can be seen by the kernel alone.
pub fn alike(expected: &Trace, got: &Trace) -> bool {
    let fails = |line: &str, errnos: &[&str]| errnos.iter().any(|errno| line.ends_with(errno));
    let refused = |line: &str| fails(line, &["-EPERM", "-ENOENT", "-EACCES", "-ENOTDIR"]);
    let below_fd = |line: &str| {
        let names = ["unlink", "rmdir", "rename", "mkdir", "mknod", "symlink", "link"];
        names.iter().any(|name| line.starts_with(name)) && ["/fd/", "/fdinfo/"].iter().any(|part| line.contains(part))
    };
    let inherited = |line: &str| {
        line.starts_with("linkat") && [" 0x1000 = ", " 0x1400 = "].iter().any(|flags| line.contains(flags))
    };
    expected.tree == got.tree
        && expected.results.len() == got.results.len()
        && expected.results.iter().zip(&got.results).all(|(expected, got)| {
            let is_child = expected.starts_with("| ");
            let (expected, got) = (expected.trim_start_matches("| "), got.trim_start_matches("| "));
            expected == got
                || (below_fd(expected) && refused(expected) && refused(got))
                || (is_child && inherited(expected) && fails(expected, &["-ENOENT"]) && got.contains(" = -E"))
        })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Rounds of shrinking; each runs all candidates in one process a side.
const ROUNDS: usize = 40;

/// The same difference with as few steps as leaving some out can reach.
pub fn shrink(mut difference: Difference, pair: Pair) -> Difference {
    for _ in 0..ROUNDS {
        let candidates = shorter(&difference.steps);
        if candidates.is_empty() {
            break;
        }
        match differences(&candidates, pair).into_iter().min_by_key(|found| found.steps.len()) {
            Some(found) => difference = found,
            None => break,
        }
    }
    difference
}

/// The program without a half, a quarter, ..., one step; blocks stay whole or go whole.
fn shorter(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut candidates = Vec::new();
    let mut length = steps.len() / 2;
    while length >= 1 {
        for start in (0..steps.len()).step_by(length) {
            let end = (start + length).min(steps.len());
            candidates.push([&steps[..start], &steps[end..]].concat());
        }
        length /= 2;
    }
    for (at, step) in steps.iter().enumerate() {
        // A block's two ends together.
        if let Step::Word(Word::Fork | Word::Spawn) = step {
            let end = at + 1 + super::executor::matching_end(&steps[at + 1..]);
            candidates.push([&steps[..at], &steps[at + 1..end.saturating_sub(1).max(at + 1)], &steps[end..]].concat());
        }
    }
    candidates.retain(|candidate| balanced(candidate));
    candidates
}

fn balanced(steps: &[Step]) -> bool {
    let mut depth = 0;
    for step in steps {
        match step {
            Step::Word(Word::Fork | Word::Spawn) => depth += 1,
            Step::Word(Word::End) => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

impl Difference {
    /// For a person: the program, then the lines that differ on each side.
    pub fn report(&self) -> String {
        let mut text = format!("{} steps tell the sides apart:\n", self.steps.len());
        for line in to_text(&self.steps).lines() {
            text += &format!("    {line}\n");
        }
        text + &self.lines_apart()
    }

    pub fn lines_apart(&self) -> String {
        lines_apart("result", &self.expected.results, &self.got.results)
            + &lines_apart("tree", &self.expected.tree, &self.got.tree)
    }
}

pub fn lines_apart(what: &str, expected: &[String], got: &[String]) -> String {
    let mut text = String::new();
    let only =
        |of: &[String], other: &[String]| of.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>();
    for line in only(expected, got) {
        text += &format!("  bare {what}:  {line}\n");
    }
    for line in only(got, expected) {
        text += &format!("  gated {what}: {line}\n");
    }
    if text.is_empty() && expected != got {
        text =
            format!("  the same {what} lines in another order or number:\n    bare  {expected:?}\n    gated {got:?}\n");
    }
    text
}
