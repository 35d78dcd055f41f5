//! What workers wrote down, what must be there after it, and what is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Bytes of a file from this place on: what was made of several writes, cut and continued, can still be told from anything else.
pub fn content(_name: &str, from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at % 251) as u8).collect()
}

/// One attempt; without an end it may have happened or not.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub words: Vec<String>,
    pub came: Option<Came>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// With the bytes that were written.
    Ok(usize),
    Errno(i32),
}

impl Attempt {
    fn kind(&self) -> &str {
        &self.words[0]
    }

    pub fn name(&self) -> &str {
        self.words.get(1).map_or("", String::as_str)
    }

    fn number(&self, at: usize) -> usize {
        self.words[at].parse().expect("a number")
    }
}

/// The attempts of a worker, each thread's in its order, and whether it came to its end.
pub struct Journal {
    pub threads: BTreeMap<usize, Vec<Attempt>>,
    pub is_whole: bool,
}

impl Journal {
    pub fn read(text: &str) -> Result<Journal, String> {
        let mut journal = Journal { threads: BTreeMap::new(), is_whole: false };
        // A line that was being written when its writer died is none.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let wrong = || format!("no line of a journal: {line:?}");
            match words.as_slice() {
                ["D"] => journal.is_whole = true,
                ["B", thread, _, rest @ ..] => {
                    let thread = thread.parse().map_err(|_| wrong())?;
                    let attempt = Attempt { words: rest.iter().map(|word| (*word).to_owned()).collect(), came: None };
                    journal.threads.entry(thread).or_default().push(attempt);
                }
                ["E", thread, _, how, number] => {
                    let thread: usize = thread.parse().map_err(|_| wrong())?;
                    let number: i64 = number.parse().map_err(|_| wrong())?;
                    let last = journal.threads.get_mut(&thread).and_then(|all| all.last_mut()).ok_or_else(wrong)?;
                    let came = if *how == "ok" { Came::Ok(number as usize) } else { Came::Errno(number as i32) };
                    last.came = Some(came);
                }
                // What gated says, or a shell: not of a worker.
                _ => {}
            }
        }
        Ok(journal)
    }

    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.threads.values().flatten()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File { length: usize, mode: u32 },
    Directory,
    Link,
}

pub type Tree = BTreeMap<String, Node>;

/// What is below this directory, by names relative to it.
pub fn found(place: &Path) -> Result<Tree, String> {
    let mut tree = Tree::new();
    let mut left = vec![String::new()];
    while let Some(directory) = left.pop() {
        let entries = fs::read_dir(place.join(&directory)).map_err(|error| format!("{directory}: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            let meta = entry.metadata().map_err(|error| error.to_string())?;
            let node = if meta.is_dir() {
                left.push(name.clone());
                Node::Directory
            } else if meta.is_symlink() {
                Node::Link
            } else {
                let bytes = fs::read(entry.path()).map_err(|error| error.to_string())?;
                if bytes != content(&name, 0, bytes.len()) {
                    return Err(format!("{name}: {} bytes that nobody wrote", bytes.len()));
                }
                Node::File { length: bytes.len(), mode: meta.permissions().mode() & 0o7777 }
            };
            tree.insert(name, node);
        }
    }
    Ok(tree)
}

/// What an attempt makes of a tree. `written` is of its bytes what came to be.
fn apply(tree: &mut Tree, attempt: &Attempt, written: usize) -> Result<(), String> {
    let name = attempt.name().to_owned();
    let missing = || format!("succeeded on what is not there: {:?}", attempt.words);
    match attempt.kind() {
        "create" => {
            if tree.insert(name, Node::File { length: written, mode: 0o644 }).is_some() {
                return Err(format!("created what is there: {:?}", attempt.words));
            }
        }
        "append" => match tree.get_mut(&name) {
            Some(Node::File { length, .. }) => *length += written,
            _ => return Err(missing()),
        },
        "truncate" => match tree.get_mut(&name) {
            Some(Node::File { length, .. }) => *length = attempt.number(2),
            _ => return Err(missing()),
        },
        "chmod" => match tree.get_mut(&name) {
            Some(Node::File { mode, .. }) => *mode = attempt.number(2) as u32,
            _ => return Err(missing()),
        },
        "rename" => {
            let node = tree.remove(&name).ok_or_else(missing)?;
            tree.insert(attempt.words[2].clone(), node);
        }
        "unlink" | "rmdir" => {
            tree.remove(&name).ok_or_else(missing)?;
        }
        "mkdir" => {
            tree.insert(name, Node::Directory);
        }
        "symlink" => {
            tree.insert(name, Node::Link);
        }
        "secret" => return Err("a secret was read".to_owned()),
        other => return Err(format!("no attempt: {other}")),
    }
    Ok(())
}

/// Names that an attempt touches.
fn touched(attempt: &Attempt) -> Vec<&String> {
    let both = attempt.kind() == "rename";
    attempt.words.iter().skip(1).take(if both { 2 } else { 1 }).collect()
}

/// Holds one thread's attempts against what is there, and takes what they explain out of it. Threads of a worker touch names of
/// their own, so each can be held alone. `of` are the names it is about, by a prefix (`out:` or none).
pub fn settle(attempts: &[Attempt], prefix: &str, there: &mut Tree) -> Result<(), String> {
    let mut tree = Tree::new();
    let own: Vec<&Attempt> = attempts
        .iter()
        .filter(|attempt| attempt.name().starts_with("out:") == (prefix == "out:") || attempt.kind() == "secret")
        .collect();
    let mut open: Option<&Attempt> = None;
    for attempt in own {
        match attempt.came {
            Some(Came::Ok(written)) => apply(&mut tree, attempt, written)?,
            Some(Came::Errno(_)) => {}
            // The last one of a thread that was killed.
            None => open = Some(attempt),
        }
    }
    let bare = |name: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
    if let Some(attempt) = open.filter(|attempt| attempt.kind() != "secret") {
        let names = touched(attempt);
        let is = |names: &[&String], tree: &Tree| names.iter().all(|name| tree.get(*name) == there.get(&bare(name)));
        let mut outcomes = vec![tree.clone()];
        let bytes = if matches!(attempt.kind(), "create" | "append") { attempt.number(2) } else { 0 };
        for written in 0..=bytes {
            let mut after = tree.clone();
            if apply(&mut after, attempt, written).is_ok() {
                outcomes.push(after);
            }
        }
        let Some(at) = outcomes.iter().position(|tree| is(&names, tree)) else {
            return Err(format!(
                "neither done nor not done: {:?}: {:?}",
                attempt.words,
                names.iter().map(|name| there.get(&bare(name))).collect::<Vec<_>>()
            ));
        };
        tree = outcomes.swap_remove(at);
    }
    for (name, node) in tree {
        let found = there.remove(&bare(&name));
        if found.as_ref() != Some(&node) {
            return Err(format!("{name}: {node:?} was to be there, and is {found:?}"));
        }
    }
    Ok(())
}
