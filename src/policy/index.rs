//! Finds the strongest of many patterns for one path without looking at all of them. Built once per session from the
//! profile; asked by the supervisor on every trapped call with the tool's path.
//!
//! Patterns hang in a tree of their components. A path walks it with a set of nodes, one component at a time; a node for
//! `**` stays in the set. The work is the path's components times the nodes that are alive, whatever the path.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::common::access::Level;
use crate::common::scope::{NameGlob, Part, Pattern, Reach};

/// A pattern and what it stands for.
#[derive(Debug)]
pub(super) struct Entry {
    pub pattern: Pattern,
    pub level: Level,
    /// Whether others than the session's user answer: at the same level they come first.
    pub others: bool,
    /// The position of the rule among all; the lower is named first.
    pub rule: usize,
}

impl Entry {
    /// Above `allow`, on a name that may be at any depth.
    pub fn guards_floating(&self) -> bool {
        self.level > Level::Allow && self.pattern.is_floating()
    }

    /// Smaller is stronger.
    pub fn rank(&self) -> (Reverse<Level>, Reverse<bool>, usize) {
        (Reverse(self.level), Reverse(self.others), self.rule)
    }
}

/// FNV-1a. The keys are the policy's: a tool can look up but not add, so it cannot crowd a table.
#[derive(Debug)]
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_usize(&mut self, length: usize) {
        self.0 = (self.0 ^ length as u64).wrapping_mul(0x0100_0000_01b3);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A child that is reached by a name with a star.
#[derive(Debug)]
struct GlobEdge {
    /// What the name begins and ends with, if that is known.
    outer: (Option<u8>, Option<u8>),
    /// Whether nothing hangs below the child, so that only a path's last name can lead there.
    is_last: bool,
    child: usize,
    glob: NameGlob,
}

#[derive(Debug, Default)]
struct Node {
    names: HashMap<Vec<u8>, usize, BuildHasherDefault<Fnv>>,
    globs: Vec<GlobEdge>,
    /// The child for `**`.
    deep: Option<usize>,
    /// Positions of the entries whose pattern ends here, the strongest first.
    ends: Vec<usize>,
    /// Whether this is a node for `**`.
    is_deep: bool,
    /// Whether there is one on the way here, itself not counted.
    under_deep: bool,
    /// The position of the strongest entry here and below.
    strongest: usize,
}

impl GlobEdge {
    fn may_match(&self, name: &[u8], is_last: bool) -> bool {
        let fits = |wanted: Option<u8>, given: Option<&u8>| wanted.is_none() || wanted.as_ref() == given;
        (is_last || !self.is_last) && fits(self.outer.1, name.last()) && fits(self.outer.0, name.first())
    }
}

impl Node {
    fn is_leaf(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty() && self.deep.is_none()
    }
}

/// The patterns of one access.
#[derive(Debug)]
pub(super) struct Index {
    /// From strong to weak, so that a lower position is a stronger entry.
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    /// Entries below this position are above `allow`.
    guards: usize,
    floating: bool,
}

/// The best position so far, and the test that an entry must pass.
struct Search<'a, F> {
    index: &'a Index,
    counts: F,
    best: usize,
}

impl Index {
    pub fn new(mut entries: Vec<Entry>) -> Index {
        entries.sort_by_key(Entry::rank);
        let mut index = Index {
            nodes: vec![Node { strongest: usize::MAX, ..Node::default() }],
            guards: entries.iter().filter(|entry| entry.level > Level::Allow).count(),
            floating: entries.iter().any(Entry::guards_floating),
            entries: Vec::new(),
        };
        for (at, entry) in entries.iter().enumerate() {
            index.insert(at, entry.pattern.parts());
        }
        index.entries = entries;
        index
    }

    fn insert(&mut self, at: usize, parts: &[Part]) {
        let mut here = 0;
        for (depth, part) in parts.iter().enumerate() {
            let is_last = depth.saturating_add(1) == parts.len();
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(here) else { return };
            node.strongest = node.strongest.min(at);
            let child = match part {
                Part::Name(name) => *node.names.entry(name.clone()).or_insert(fresh),
                Part::Deep => *node.deep.get_or_insert(fresh),
                Part::Glob(glob) => match node.globs.iter_mut().find(|edge| edge.glob == *glob) {
                    Some(edge) => {
                        edge.is_last &= is_last;
                        edge.child
                    }
                    None => {
                        let edge = GlobEdge { outer: glob.outer_bytes(), is_last, child: fresh, glob: glob.clone() };
                        node.globs.push(edge);
                        fresh
                    }
                },
            };
            if child == fresh {
                let under_deep = node.under_deep || node.is_deep;
                let is_deep = *part == Part::Deep;
                self.nodes.push(Node { is_deep, under_deep, strongest: usize::MAX, ..Node::default() });
            }
            here = child;
        }
        if let Some(node) = self.nodes.get_mut(here) {
            node.strongest = node.strongest.min(at);
            node.ends.push(at);
        }
    }

    /// The strongest entry whose pattern matches and that `counts`.
    pub fn strongest(&self, names: &[&[u8]], counts: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let mut search = Search { index: self, counts, best: usize::MAX };
        for node in search.walk(names) {
            search.consider(node);
        }
        self.entries.get(search.best)
    }

    /// Whether a name that may be anywhere is guarded.
    pub fn has_floating(&self) -> bool {
        self.floating
    }

    /// The entries above `allow` that reach at least so far strictly below the directory, the strongest first. Not for
    /// [`Reach::Floating`].
    pub fn guards_below(&self, directory: &[&[u8]], least: Reach) -> Vec<&Entry> {
        let mut search = Search { index: self, counts: |_: &Entry| false, best: self.guards };
        let mut subtree = search.walk(directory);
        // What follows the first `**` of a pattern only floats below the nodes that are alive.
        subtree.retain(|node| !node.is_deep || node.under_deep);
        let first_deep = |node: &&Node| if node.is_deep || node.under_deep { None } else { node.deep };
        let skipped: Vec<usize> = subtree.iter().filter_map(first_deep).collect();
        let mut found = Vec::new();
        while let Some(here) = subtree.pop() {
            if here.strongest < self.guards {
                found.extend_from_slice(&here.ends);
                let children = here.names.values().chain(here.globs.iter().map(|edge| &edge.child)).chain(&here.deep);
                let children = children.filter(|child| !skipped.contains(child));
                subtree.extend(children.filter_map(|&child| self.nodes.get(child)));
            }
        }
        found.sort_unstable();
        found.dedup();
        let guards = found.into_iter().filter(|&at| at < self.guards).filter_map(|at| self.entries.get(at));
        guards.filter(|entry| entry.pattern.reach_below(directory) >= least).collect()
    }
}

impl<'a, F: Fn(&Entry) -> bool> Search<'a, F> {
    /// The nodes that are alive after these names, without those that cannot better the best. What ends in a `**` that was
    /// reached has been considered.
    fn walk(&mut self, names: &[&[u8]]) -> Vec<&'a Node> {
        let index = self.index;
        let (mut alive, mut next) = (Vec::with_capacity(16), Vec::with_capacity(16));
        self.enter(0, &mut alive);
        for (at, &name) in names.iter().enumerate() {
            let is_last = at.saturating_add(1) == names.len();
            for here in alive.drain(..) {
                let Some(node) = index.nodes.get(here) else { continue };
                if node.is_deep && !next.contains(&here) {
                    next.push(here);
                }
                if let Some(&child) = node.names.get(name) {
                    self.enter(child, &mut next);
                }
                for edge in node.globs.iter().filter(|edge| edge.may_match(name, is_last)) {
                    if edge.glob.matches(name) {
                        self.enter(edge.child, &mut next);
                    }
                }
            }
            std::mem::swap(&mut alive, &mut next);
        }
        alive.into_iter().filter_map(|node| index.nodes.get(node)).collect()
    }

    /// Adds a node, and the one for `**` below it, to a set.
    fn enter(&mut self, at: usize, set: &mut Vec<usize>) {
        let index = self.index;
        let Some(node) = index.nodes.get(at).filter(|node| node.strongest < self.best) else { return };
        set.push(at);
        let Some((deep, below)) = node.deep.and_then(|deep| Some((deep, index.nodes.get(deep)?))) else { return };
        self.consider(below);
        if !below.is_leaf() && below.strongest < self.best && !set.contains(&deep) {
            set.push(deep);
        }
    }

    /// Takes the strongest entry that ends at a node, if it betters the best.
    fn consider(&mut self, node: &Node) {
        let mut better = node.ends.iter().copied().take_while(|&at| at < self.best);
        if let Some(at) = better.find(|&at| self.index.entries.get(at).is_some_and(&self.counts)) {
            self.best = at;
        }
    }
}
