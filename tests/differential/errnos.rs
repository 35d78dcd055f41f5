//! The errnos of every system call that the supervisor performs, against the manual pages: for each the situation that
//! provokes it, run bare and inside, where result and side effects must be the same.
//!
//! Reads `errnos/*.txt` (the format is in `errnos/README.md`), makes the trials and writes `docs/errnos.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gated::tool::syscalls::{Action, Arch, Class, class_of};
use libtest_mimic::{Failed, Trial};

use super::compare::{Pair, Sides, alike, both, lines_apart};
use super::program::{Step, from_text, to_text};

/// What the manual pages of Debian's manpages-dev 6.03 list under ERRORS, a line each: `page: ERRNO ...`.
const PAGES: &str = include_str!("errnos/pages.txt");

/// In the order of the page that is written.
const TABLES: &[&str] = &[
    include_str!("errnos/files.txt"),
    include_str!("errnos/attributes.txt"),
    include_str!("errnos/sockets.txt"),
    include_str!("errnos/programs.txt"),
];

/// One manual page.
#[derive(Default)]
struct Section {
    page: String,
    /// Forms of the page's calls on something that is there, and on a name that is to be made.
    forms: Vec<String>,
    makes: Vec<String>,
    /// Errnos of all paths that are none of this page.
    without: Vec<String>,
    rows: Vec<Row>,
}

/// An errno in a situation.
#[derive(Clone, Default)]
struct Row {
    /// As the page has it.
    errno: String,
    /// Where Linux says something else, or nothing is wrong.
    gives: Option<String>,
    situation: String,
    /// Why nobody provokes it here.
    reason: Option<String>,
    setup: Vec<String>,
    stars: Vec<String>,
    /// Arguments for the forms: for all, for those on what is there, for those that make; and descriptors of directories.
    paths: Vec<(Where, String)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Where {
    Everywhere,
    There,
    New,
    Directory,
}

/// One program of a row, and the call that is looked at: its last.
struct Case {
    row: usize,
    steps: Vec<Step>,
}

impl Row {
    fn expected(&self) -> &str {
        self.gives.as_deref().unwrap_or(&self.errno)
    }
}

fn sections() -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    let lines = TABLES.iter().flat_map(|table| table.lines());
    for line in lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        read_line(&mut all, line).unwrap_or_else(|| panic!("not a line of a table of errnos: {line}"));
    }
    let common = all.remove(0);
    assert_eq!(common.page, "path_resolution(7)", "what all paths have in common comes first");
    for section in &mut all {
        if !section.forms.is_empty() || !section.makes.is_empty() {
            let shared: Vec<Row> = common.rows.iter().filter(|row| section.takes(row)).cloned().collect();
            section.rows.splice(0..0, shared);
        }
    }
    all
}

fn read_line(all: &mut Vec<Section>, line: &str) -> Option<()> {
    if let Some(page) = line.strip_prefix("= ") {
        all.push(Section { page: page.to_owned(), ..Section::default() });
        return Some(());
    }
    let section = all.last_mut()?;
    if let Some(form) = line.strip_prefix("form ") {
        section.forms.push(form.to_owned());
    } else if let Some(form) = line.strip_prefix("make ") {
        section.makes.push(form.to_owned());
    } else if let Some(errno) = line.strip_prefix("without ") {
        section.without.push(errno.to_owned());
    } else if line.starts_with('E') {
        let (errno, rest) = line.split_once(' ')?;
        let mut row = Row { errno: errno.to_owned(), situation: rest.to_owned(), ..Row::default() };
        if let Some((gives, situation)) = rest.strip_prefix("gives ").and_then(|rest| rest.split_once(": ")) {
            (row.gives, row.situation) = (Some(gives.to_owned()), situation.to_owned());
        } else if let Some(reason) = rest.strip_prefix("- ") {
            (row.reason, row.situation) = (Some(reason.to_owned()), String::new());
        }
        section.rows.push(row);
    } else {
        let row = section.rows.last_mut()?;
        let (word, rest) = line.trim_start().split_once(' ')?;
        let mut path = |place| row.paths.push((place, rest.to_owned()));
        match word {
            "*" => row.stars.push(rest.to_owned()),
            "path" => path(Where::Everywhere),
            "there" => path(Where::There),
            "new" => path(Where::New),
            "at" => path(Where::Directory),
            _ => row.setup.push(line.trim().to_owned()),
        }
    }
    Some(())
}

impl Section {
    /// Whether a row of all paths says something of this page: the page itself may say more of one call.
    fn takes(&self, row: &Row) -> bool {
        !self.without.contains(&row.errno) && self.cases_of(0, row).next().is_some()
    }

    fn cases_of<'a>(&'a self, index: usize, row: &'a Row) -> impl Iterator<Item = Case> + 'a {
        let forms = self.forms.iter().map(|form| (form, false)).chain(self.makes.iter().map(|form| (form, true)));
        let from_forms = forms.flat_map(move |(form, makes)| {
            row.paths.iter().filter_map(move |(place, text)| match place {
                Where::Directory if form.contains("AT ") => {
                    Some(form.replacen("AT ", &format!("{text} "), 1).replace("PATH", "\"n1\""))
                }
                Where::Directory => None,
                Where::There if makes => None,
                Where::New if !makes => None,
                _ => Some(form.replace("PATH", text)),
            })
        });
        row.stars.iter().cloned().chain(from_forms).map(move |last| {
            let text = row.setup.iter().map(|line| format!("{line}\n")).collect::<String>();
            Case { row: index, steps: from_text(&format!("{text}{}", last.replace("AT ", "-100 "))) }
        })
    }

    fn cases(&self) -> Vec<Case> {
        self.rows.iter().enumerate().flat_map(|(index, row)| self.cases_of(index, row)).collect()
    }
}

/// The name of the call that a program is about: the last of those with an errno of their own.
fn call_of(steps: &[Step]) -> String {
    let call = steps.iter().rev().find_map(|step| match step {
        Step::Call { name, .. } => Some(name.clone()),
        Step::Word(_) => None,
    });
    call.unwrap_or_default()
}

pub fn trials(pair: Pair) -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("errnos::all_that_the_manual_pages_list_are_in_the_table", all_are_listed),
        Trial::test("errnos::every_performed_system_call_is_in_the_table", all_calls),
        Trial::test("errnos::the_page_is_current", page_is_current),
    ];
    for section in sections() {
        trials.push(Trial::test(format!("errnos::{}", section.page), move || check(&section, pair)));
    }
    trials
}

fn check(section: &Section, pair: Pair) -> Result<(), Failed> {
    let cases = section.cases();
    let programs: Vec<Vec<Step>> = cases.iter().map(|case| case.steps.clone()).collect();
    let Sides { bare, other, foreign: [foreign_bare, foreign_other] } = both(&programs, pair);
    let mut wrong = String::new();
    for (case, (bare, other)) in cases.iter().zip(bare.iter().zip(&other)) {
        let row = &section.rows[case.row];
        let told = bare.results.iter().rev().find(|line| line.contains(" = ")).cloned().unwrap_or_default();
        let is_as_written = match row.expected() {
            "success" => !told.contains(" = -"),
            errno => told.ends_with(&format!(" = -{errno}")),
        };
        if !is_as_written {
            let _ = writeln!(wrong, "{}: bare is not {}: {told}", row.errno, row.expected());
        }
        if !alike(bare, other) {
            let _ = writeln!(wrong, "{}: {}: the sides differ", row.errno, row.situation);
            let _ =
                writeln!(wrong, "{}    bare  {:?}\n    gated {:?}", to_text(&case.steps), bare.results, other.results);
            wrong += &lines_apart("tree", &bare.tree, &other.tree);
        }
    }
    wrong += &lines_apart("foreign", &foreign_bare, &foreign_other);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.into()) }
}

fn all_are_listed() -> Result<(), Failed> {
    let sections = sections();
    let mut missing = Vec::new();
    for line in PAGES.lines() {
        let (page, errnos) = line.split_once(':').ok_or("page: ERRNO ...")?;
        let section = sections.iter().find(|section| section.page == page).ok_or_else(|| format!("no {page}"))?;
        let known: BTreeSet<&str> = section.rows.iter().map(|row| row.errno.as_str()).collect();
        missing.extend(
            errnos.split_whitespace().filter(|errno| !known.contains(errno)).map(|errno| format!("{page} {errno}")),
        );
    }
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n").into()) }
}

fn is_performed(class: &Class) -> bool {
    class.cases.iter().map(|case| case.then).chain([class.otherwise]).any(|action| match action {
        Action::Trapped => true,
        Action::By(feature) => feature.with() == Action::Trapped,
        _ => false,
    })
}

fn all_calls() -> Result<(), Failed> {
    let tried: BTreeSet<String> =
        sections().iter().flat_map(|section| section.cases()).map(|case| call_of(&case.steps)).collect();
    let names = Arch::NATIVE.numbers().iter().map(|(name, _)| *name);
    let missing: Vec<&str> =
        names.filter(|name| class_of(name).is_some_and(is_performed) && !tried.contains(*name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n").into()) }
}

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errnos.md")
}

fn page_is_current() -> Result<(), Failed> {
    let page = page();
    if std::env::var_os("GATED_WRITE_DOCS").is_some() {
        fs::write(page_path(), &page)?;
    }
    let written = fs::read_to_string(page_path()).unwrap_or_default();
    if written == page { Ok(()) } else { Err("docs/errnos.md is not current; run `make docs`".into()) }
}

/// The tables as a page: one section per manual page.
fn page() -> String {
    let sections = sections();
    let programs: usize = sections.iter().map(|section| section.cases().len()).sum();
    let mut page = format!(
        "# Errnos of performed system calls\n\n\
         <!-- Written by `make docs` from tests/differential/errnos/; a test fails if it is not current. -->\n\n\
         What the manual pages (Debian's manpages-dev 6.03) list under ERRORS for the calls that the supervisor performs, and\n\
         what `make test` does to provoke it: {programs} programs, each run bare and inside of a session that allows everything.\n\
         Bare, the last call of each has the errno of its row; inside it has the same one, and files, attributes and all other\n\
         results are the same. Where Linux says something else than the page, the bare run counts. What nobody can provoke in a\n\
         test has its reason; the supervisor passes on what the kernel says to it.\n"
    );
    for section in &sections {
        let _ = writeln!(page, "\n## {}\n\n| errno | calls | situation |\n|---|---|---|", section.page);
        let mut rows: BTreeMap<&str, Vec<(usize, &Row)>> = BTreeMap::new();
        for (index, row) in section.rows.iter().enumerate() {
            rows.entry(&row.errno).or_default().push((index, row));
        }
        for (errno, rows) in rows {
            for (index, row) in rows {
                let calls: BTreeSet<String> = section.cases_of(index, row).map(|case| call_of(&case.steps)).collect();
                let calls = calls.into_iter().collect::<Vec<_>>().join(", ");
                let text = match (&row.reason, &row.gives) {
                    (Some(reason), _) => format!("*not provoked*: {reason}"),
                    (None, Some(gives)) => format!("{}; Linux gives {gives}", row.situation),
                    (None, None) => row.situation.clone(),
                };
                let calls = if calls.is_empty() { "–".to_owned() } else { calls };
                let _ = writeln!(page, "| {errno} | {calls} | {text} |");
            }
        }
    }
    page
}
