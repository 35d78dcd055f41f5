//! Paths that were seen, generalised: to all files of a directory, or to a tree, where that is specific enough. Pure.

use std::collections::BTreeMap;

use crate::common::path::RawPath;
use crate::common::scope::Pattern;

/// So many things below one directory stand for all of it.
const ENOUGH: usize = 3;

/// How much of a directory is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// What is directly in it.
    Children,
    /// It and everything below.
    Tree,
}

/// A pattern, and the paths that it stands for.
#[derive(Clone, Debug)]
pub struct General {
    pub pattern: Pattern,
    /// The directory of a pattern that is no single path.
    pub whole: Option<(RawPath, Breadth)>,
    pub paths: Vec<RawPath>,
}

/// Whether a directory is so much somebody's or something's own that it may be meant as a whole, for a user with this home.
pub fn is_specific(directory: &RawPath, breadth: Breadth, home: &RawPath) -> bool {
    if home.is_within(directory) {
        return false;
    }
    let names: Vec<&[u8]> = directory.components().collect();
    if directory.is_within(home) {
        let below = names.get(home.components().count()..).unwrap_or_default();
        let least = match below {
            [b".local", b"bin", ..] => return false,
            [b".local", ..] => 3,
            [first, ..] if is_shared_in_home(first) => 2,
            [first, ..] if first.starts_with(b".") => 1,
            // A directory of the person's, such as ~/Documents.
            _ if breadth == Breadth::Children => 1,
            _ => 2,
        };
        return below.len() >= least;
    }
    match names.as_slice() {
        [b"opt" | b"srv", _, ..] => true,
        [b"home" | b"root" | b"proc" | b"sys" | b"dev", ..] => false,
        [b"run", b"user", _, _, ..] => true,
        [b"run", b"user", ..] => false,
        [b"run", _, ..] => true,
        _ => names.len() >= 3,
    }
}

fn is_shared_in_home(name: &[u8]) -> bool {
    matches!(name, b".config" | b".cache" | b".var" | b"snap")
}

#[derive(Default)]
struct Node<'a> {
    below: BTreeMap<&'a [u8], Node<'a>>,
    own: Option<&'a RawPath>,
    /// Paths in here, its own included.
    count: usize,
}

/// Patterns that stand for these paths and, where `may` agrees, for others like them.
pub fn generalise<'a>(
    paths: impl Iterator<Item = &'a RawPath>,
    may: &dyn Fn(&RawPath, Breadth) -> bool,
) -> Vec<General> {
    let mut root = Node::default();
    for path in paths {
        let mut node = &mut root;
        node.count = node.count.saturating_add(1);
        for name in path.components() {
            node = node.below.entry(name).or_default();
            node.count = node.count.saturating_add(1);
        }
        node.own = Some(path);
    }
    let mut general = Vec::new();
    // Deep paths are a tool's: a stack of our own.
    let mut open = vec![(RawPath::from("/"), &root)];
    while let Some((place, node)) = open.pop() {
        let is_flat = node.own.is_none() && node.below.values().all(|child| child.below.is_empty());
        let breadth = if is_flat { Breadth::Children } else { Breadth::Tree };
        // Where all of it is in one directory further down, that one is meant.
        let forks = node.own.is_some() || node.below.len() > 1;
        if node.count >= ENOUGH && forks && !node.below.is_empty() && may(&place, breadth) {
            let pattern = match breadth {
                Breadth::Children => Pattern::children_of(&place),
                Breadth::Tree => Pattern::tree_of(&place),
            };
            general.push(General { pattern, whole: Some((place, breadth)), paths: all(node) });
            continue;
        }
        if let Some(own) = node.own {
            general.push(General { pattern: Pattern::literal(own), whole: None, paths: vec![own.clone()] });
        }
        open.extend(node.below.iter().rev().map(|(name, child)| (place.join(name), child)));
    }
    general
}

fn all(node: &Node<'_>) -> Vec<RawPath> {
    let mut paths = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        paths.extend(node.own.cloned());
        open.extend(node.below.values());
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(paths: &[&str]) -> Vec<String> {
        let home = RawPath::from("/home/me");
        let paths: Vec<RawPath> = paths.iter().map(|path| RawPath::from(*path)).collect();
        let general = generalise(paths.iter(), &|place, breadth| is_specific(place, breadth, &home));
        general.iter().map(|general| general.pattern.to_string()).collect()
    }

    #[test]
    fn siblings_and_trees_are_meant_as_a_whole() {
        assert_eq!(
            shown(&["/home/me/.cache/pip/a", "/home/me/.cache/pip/b"]),
            ["/home/me/.cache/pip/a", "/home/me/.cache/pip/b"]
        );
        assert_eq!(
            shown(&["/home/me/.cache/pip/a", "/home/me/.cache/pip/b", "/home/me/.cache/pip/c"]),
            ["/home/me/.cache/pip/*"]
        );
        assert_eq!(
            shown(&["/home/me/.cargo/registry/a", "/home/me/.cargo/git/b/c", "/home/me/.cargo/x"]),
            ["/home/me/.cargo/**"]
        );
    }

    #[test]
    fn what_is_everybodys_is_never_meant_as_a_whole() {
        let each = |paths: &[&str]| assert_eq!(shown(paths), paths);
        each(&["/a", "/b", "/c", "/d"]);
        each(&["/home/me", "/home/me/a", "/home/me/b", "/home/me/c"]);
        each(&["/home/you/.x/a", "/home/you/.x/b", "/home/you/.x/c"]);
        each(&["/home/me/.cache/a", "/home/me/.cache/b", "/home/me/.cache/c"]);
        each(&["/home/me/.local/bin/a", "/home/me/.local/bin/b", "/home/me/.local/bin/c"]);
        each(&["/usr/lib", "/usr/share", "/usr/src"]);
        each(&["/etc/a", "/etc/b", "/etc/c"]);
    }
}
