//! Finds the strongest of many patterns for one path without looking at all of them. Built once per session from the
//! profile; asked by the supervisor on every trapped call with the tool's path.
//!
//! Patterns hang in a tree of their literal components; those that begin with `**/NAME` are found by that name. What cannot
//! be found either way is tried one by one, the strongest first.

use std::collections::HashMap;

use crate::common::access::Level;
use crate::common::scope::{Part, Pattern, Reach};

/// A pattern and what it stands for.
#[derive(Debug)]
pub(super) struct Entry {
    pub pattern: Pattern,
    pub level: Level,
    /// The position of the rule among all; the lower is named first.
    pub rule: usize,
}

impl Entry {
    /// Above `allow`, on a name that may be at any depth.
    pub fn guards_floating(&self) -> bool {
        self.level > Level::Allow && self.pattern.is_floating()
    }

    /// Smaller is stronger.
    fn rank(&self) -> (std::cmp::Reverse<Level>, usize) {
        (std::cmp::Reverse(self.level), self.rule)
    }
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Vec<u8>, usize>,
    /// Patterns that end here.
    ends: Vec<usize>,
    /// Patterns that end here in `**`.
    trees: Vec<usize>,
    /// Patterns that go on with a wildcard.
    rest: Vec<usize>,
    /// Whether something above `allow` hangs here or below.
    guarded: bool,
}

/// The patterns of one access.
#[derive(Debug)]
pub(super) struct Index {
    /// From strong to weak, so that every list of positions is in that order when it is made in order.
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    /// `**/NAME...` by NAME.
    named: HashMap<Vec<u8>, Vec<usize>>,
    /// `**/` and a wildcard.
    loose: Vec<usize>,
    /// Positions of guarding `**/NAME/NAME...`.
    runs: Vec<usize>,
    floating: bool,
}

impl Index {
    pub fn new(mut entries: Vec<Entry>) -> Index {
        entries.sort_by_key(Entry::rank);
        let mut index = Index {
            entries: Vec::new(),
            nodes: vec![Node::default()],
            named: HashMap::new(),
            loose: Vec::new(),
            runs: Vec::new(),
            floating: false,
        };
        for (at, entry) in entries.iter().enumerate() {
            index.insert(at, entry);
        }
        index.entries = entries;
        index
    }

    fn insert(&mut self, at: usize, entry: &Entry) {
        let guards = entry.level > Level::Allow;
        self.floating |= entry.guards_floating();
        match entry.pattern.parts() {
            [Part::Deep, rest @ ..] if !rest.is_empty() => {
                match rest {
                    [Part::Name(name), ..] => self.named.entry(name.clone()).or_default().push(at),
                    _ => self.loose.push(at),
                }
                if guards && rest.len() > 1 {
                    self.runs.push(at);
                }
            }
            parts => self.hang(at, parts, guards),
        }
    }

    fn hang(&mut self, at: usize, parts: &[Part], guards: bool) {
        let mut here = 0;
        let mut left = parts;
        loop {
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(here) else { return };
            node.guarded |= guards;
            match left {
                [] => return node.ends.push(at),
                [Part::Deep] => return node.trees.push(at),
                [Part::Name(name), below @ ..] => {
                    here = *node.children.entry(name.clone()).or_insert(fresh);
                    left = below;
                    if here == fresh {
                        self.nodes.push(Node::default());
                    }
                }
                _ => return node.rest.push(at),
            }
        }
    }

    /// The strongest entry whose pattern matches and that `counts`.
    pub fn strongest(&self, names: &[&[u8]], counts: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let mut best = usize::MAX;
        let mut consider = |list: &[usize], known: bool| {
            for &at in list.iter().take_while(|&&at| at < best) {
                let fits = |entry: &&Entry| (known || entry.pattern.matches_names(names)) && counts(entry);
                if self.entries.get(at).filter(fits).is_some() {
                    best = at;
                    break;
                }
            }
        };
        consider(&self.loose, false);
        if !self.named.is_empty() {
            names.iter().filter_map(|&name| self.named.get(name)).for_each(|list| consider(list, false));
        }
        let mut node = self.nodes.first();
        for &name in names {
            let Some(here) = node else { break };
            consider(&here.trees, true);
            consider(&here.rest, false);
            node = here.children.get(name).and_then(|&child| self.nodes.get(child));
        }
        if let Some(here) = node {
            consider(&here.trees, true);
            consider(&here.rest, false);
            consider(&here.ends, true);
        }
        self.entries.get(best)
    }

    /// Whether a name that may be anywhere is guarded.
    pub fn has_floating(&self) -> bool {
        self.floating
    }

    /// The entries above `allow` that reach at least so far strictly below the directory, the strongest first. Not for
    /// [`Reach::Floating`].
    pub fn guards_below(&self, directory: &[&[u8]], least: Reach) -> Vec<&Entry> {
        let mut found = self.runs.clone();
        let mut node = self.nodes.first();
        for &name in directory {
            let Some(here) = node else { break };
            found.extend_from_slice(&here.rest);
            node = here.children.get(name).and_then(|&child| self.nodes.get(child));
        }
        let mut subtree: Vec<&Node> = node.into_iter().collect();
        while let Some(here) = subtree.pop() {
            if here.guarded {
                found.extend(here.ends.iter().chain(&here.trees).chain(&here.rest));
                subtree.extend(here.children.values().filter_map(|&child| self.nodes.get(child)));
            }
        }
        found.sort_unstable();
        found.dedup();
        let guards = found.into_iter().filter_map(|at| self.entries.get(at));
        guards.filter(|entry| entry.level > Level::Allow && entry.pattern.reach_below(directory) >= least).collect()
    }
}
