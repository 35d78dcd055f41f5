//! What there is of the places that policy speaks about: patterns followed to directories and files that exist, and names at any
//! depth looked for. Runs as root while the session is built, with the user's file rights, on trees that the user, or a tool of
//! an earlier session, may have made as large and odd as they like.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, FileType};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::common::path::RawPath;
use crate::common::scope::Pattern;
use crate::common::wire::Identity;
use crate::policy::decide::Policy;
use crate::policy::regions::{Places, Step};
use crate::tool::mounts::is_of_the_session;
use crate::tool::privileges::{PrivilegeError, with_file_rights_of};
use crate::tool::regions::Spot;

/// Names looked at in one search, and how long it may take; beyond, the whole tree is held.
const NAMES_AT_MOST: usize = 300_000;
const TIME_AT_MOST: Duration = Duration::from_secs(2);
/// Names that one step of a pattern may lead to; beyond, the directory is held.
const EACH_AT_MOST: usize = 4096;
/// How deep, and among how many names, links that lead out of a held tree are looked for.
const LINKS_DEPTH: usize = 2;
const LINKS_AMONG: usize = 2048;

/// Directories that are not searched for a profile's rules: what programs make there by the thousand, from what can be had again.
const HEAVY: [&[u8]; 13] = [
    b"node_modules",
    b"target",
    b".venv",
    b"venv",
    b"__pycache__",
    b".tox",
    b".mypy_cache",
    b".pytest_cache",
    b".gradle",
    b".next",
    b".terraform",
    b"objects",
    b"lfs",
];
/// These only below a directory of this name.
const HEAVY_IN_GIT: [&[u8]; 2] = [b"objects", b"lfs"];

/// What was found, and what it took.
#[derive(Debug, Default)]
pub struct Survey {
    pub spots: Vec<Spot>,
    /// Names looked at while searching.
    pub looked_at: usize,
    /// Names found by searching.
    pub found: usize,
    /// Trees that were too large to be searched, and are held as a whole.
    pub too_large: Vec<RawPath>,
    pub took: Duration,
    /// Directories in which a guarded name may come to be, or be replaced, from outside.
    pub watched: BTreeSet<RawPath>,
}

/// Looks for the places of the policy.
pub fn survey(policy: &Policy, user: &Identity, workspace: &RawPath) -> Result<Survey, PrivilegeError> {
    let places = Places::of(policy.profile());
    with_file_rights_of(user, || {
        let began = Instant::now();
        let (spots, entered) = (BTreeMap::new(), HashMap::new());
        let mut surveyor = Surveyor { policy, workspace, spots, survey: Survey::default(), began, entered };
        surveyor.look(&places);
        let took = began.elapsed();
        Survey { spots: surveyor.spots.into_values().collect(), took, ..surveyor.survey }
    })
}

/// Whether [`HEAVY`] directories are searched, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thorough {
    Yes,
    No,
}

struct Surveyor<'a> {
    policy: &'a Policy,
    workspace: &'a RawPath,
    spots: BTreeMap<RawPath, Spot>,
    survey: Survey,
    began: Instant,
    /// What names on the way led to: many patterns begin alike.
    entered: HashMap<RawPath, Option<RawPath>>,
}

impl Surveyor<'_> {
    fn look(&mut self, places: &Places) {
        let root = RawPath::from("/");
        for pattern in &places.anchored {
            self.follow(&root, &root, &Places::steps(pattern));
        }
        if places.everything {
            self.add(self.workspace, self.workspace, false);
        }
        let wide = outermost(places.limits.iter().flat_map(|base| self.limited(base)).collect());
        let bases = places.searched.iter().map(Pattern::literal_prefix);
        let narrow = bases.map(|base| if self.is_too_wide(&base) { self.workspace.clone() } else { base }).collect();
        for at in outermost(narrow).iter().filter(|at| !wide.iter().any(|other| at.is_within(other))) {
            self.search(at, Thorough::No);
        }
        for at in &wide {
            self.search(at, Thorough::Yes);
        }
        let held: Vec<RawPath> =
            self.spots.values().filter(|spot| spot.is_held).map(|spot| spot.path.clone()).collect();
        for tree in held {
            self.follow_links_out_of(&tree);
        }
    }

    /// Whether a profile's rule that begins here means what a session works on.
    fn is_too_wide(&self, base: &RawPath) -> bool {
        self.workspace.is_within(base) && self.policy.profile().home.is_within(base)
    }

    /// Where what a limit names is looked for. Of the whole machine, where its user keeps things and works.
    fn limited(&self, base: &Pattern) -> Vec<RawPath> {
        let real = |path: &RawPath| fs::canonicalize(path.as_path()).map_or_else(|_| path.clone(), RawPath::from);
        let (base, home) = (base.literal_prefix(), real(&self.policy.profile().home));
        match base.parent().is_none() {
            true if home.parent().is_none() => vec![self.workspace.clone()],
            true => vec![self.workspace.clone(), home],
            false => vec![real(&base)],
        }
    }

    /// `named` is the path as the pattern has it, `real` without links.
    fn follow(&mut self, real: &RawPath, named: &RawPath, steps: &[Step<'_>]) {
        let Some((step, rest)) = steps.split_first() else { return self.add(real, named, false) };
        match step {
            Step::Name(name) => self.enter(real, named, name, rest),
            Step::Each(glob) => {
                let Ok(entries) = fs::read_dir(real.as_path()) else { return };
                for (at, entry) in entries.flatten().enumerate() {
                    if at >= EACH_AT_MOST {
                        return self.add(real, named, true);
                    }
                    let name = entry.file_name();
                    if glob.matches(name.as_bytes()) {
                        self.enter(real, named, name.as_bytes(), rest);
                    }
                }
            }
        }
    }

    /// `real` is without links.
    fn enter(&mut self, real: &RawPath, named: &RawPath, name: &[u8], rest: &[Step<'_>]) {
        let next = real.join(name);
        let next = self.entered.entry(next).or_insert_with_key(|path| without_links(path, name)).clone();
        match next {
            Some(next) => self.follow(&next, &named.join(name), rest),
            // What is not there, or not for this user to see, is no place to be read.
            None => self.watch(real),
        }
    }

    fn add(&mut self, real: &RawPath, named: &RawPath, is_held: bool) {
        if is_of_the_session(real, self.workspace) {
            return;
        }
        let Ok(found) = fs::symlink_metadata(real.as_path()) else { return };
        let guards = |path: &RawPath| match found.is_dir() {
            true => self.policy.guards_reads_below(path),
            false => self.policy.guards_read(path),
        };
        // Of fifos, sockets and devices no open is held.
        if !found.is_dir() && !found.is_file() {
            return;
        }
        let is_held = is_held || guards(real) || guards(named);
        if is_held && let Some(parent) = real.parent() {
            self.watch(&parent);
        }
        let identity = (found.dev(), found.ino());
        let fresh = || Spot { path: real.clone(), names: Vec::new(), identity, is_held: false };
        let spot = self.spots.entry(real.clone()).or_insert_with(fresh);
        spot.is_held |= is_held;
        if real != named && !spot.names.contains(named) {
            spot.names.push(named.clone());
        }
    }

    /// Looks for names that are guarded at any depth.
    fn search(&mut self, tree: &RawPath, thorough: Thorough) {
        self.watch(tree);
        let mut open = vec![tree.clone()];
        while let Some(directory) = open.pop() {
            let Ok(entries) = fs::read_dir(directory.as_path()) else { continue };
            for entry in entries.flatten() {
                self.survey.looked_at = self.survey.looked_at.saturating_add(1);
                if self.survey.looked_at > NAMES_AT_MOST || self.began.elapsed() > TIME_AT_MOST {
                    self.survey.too_large.push(tree.clone());
                    return self.add(tree, tree, true);
                }
                let name = entry.file_name();
                let path = directory.join(name.as_bytes());
                let kind = entry.file_type().ok();
                if self.policy.guards_floating_read(&path) {
                    self.survey.found = self.survey.found.saturating_add(1);
                    self.enter(&directory, &directory, name.as_bytes(), &[]);
                }
                let is_searched = thorough == Thorough::Yes || !is_heavy(&directory, name.as_bytes());
                if is_searched && kind.is_some_and(|kind| kind.is_dir()) {
                    open.push(path);
                }
            }
        }
    }

    /// A link in a held tree leads to what is kept elsewhere, as those who keep their settings in a repository do it.
    fn follow_links_out_of(&mut self, tree: &RawPath) {
        let mut open = vec![(tree.clone(), 0_usize)];
        let mut seen = 0_usize;
        while let Some((directory, depth)) = open.pop() {
            let Ok(entries) = fs::read_dir(directory.as_path()) else { continue };
            for entry in entries.flatten() {
                seen = seen.saturating_add(1);
                if seen > LINKS_AMONG {
                    return;
                }
                let name = entry.file_name();
                let path = directory.join(name.as_bytes());
                match entry.file_type() {
                    Ok(kind) if kind.is_symlink() && self.policy.guards_read(&path) => self.add_target(tree, &path),
                    Ok(kind) if FileType::is_dir(&kind) && depth < LINKS_DEPTH => {
                        open.push((path, depth.saturating_add(1)));
                    }
                    _ => {}
                }
            }
        }
    }

    fn watch(&mut self, directory: &RawPath) {
        if !is_of_the_session(directory, self.workspace) {
            self.survey.watched.insert(directory.clone());
        }
    }

    fn add_target(&mut self, tree: &RawPath, link: &RawPath) {
        let Ok(target) = fs::canonicalize(link.as_path()) else { return };
        let target = RawPath::from(target);
        // A link to what holds the tree itself, such as one to `/`, would hold everything.
        if !target.is_within(tree) && !tree.is_within(&target) {
            self.add(&target, link, false);
        }
    }
}

/// What this is, whose parent is without links; `None` if it is not there, or not to be seen.
fn without_links(path: &RawPath, name: &[u8]) -> Option<RawPath> {
    let found = fs::symlink_metadata(path.as_path()).ok()?;
    let is_plain = !found.is_symlink() && name != b"." && name != b"..";
    if is_plain { Some(path.clone()) } else { fs::canonicalize(path.as_path()).ok().map(RawPath::from) }
}

/// Without those that lie within others.
fn outermost(mut roots: Vec<RawPath>) -> Vec<RawPath> {
    roots.sort();
    roots.dedup();
    let is_inner = |at: &RawPath| roots.iter().any(|other| other != at && at.is_within(other));
    roots.iter().filter(|at| !is_inner(at)).cloned().collect()
}

fn is_heavy(directory: &RawPath, name: &[u8]) -> bool {
    HEAVY.contains(&name) && (!HEAVY_IN_GIT.contains(&name) || directory.file_name() == b".git")
}
