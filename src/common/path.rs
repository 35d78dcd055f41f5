//! Paths as the kernel has them: bytes without NUL, compared by component.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An absolute path, `/`-separated bytes, not necessarily UTF-8. Not normalised by construction: whoever makes one from
/// the kernel's own answer (readlink of an fd) has the canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct RawPath(Vec<u8>);

impl RawPath {
    pub fn new(bytes: impl Into<Vec<u8>>) -> RawPath {
        RawPath(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// This path with one more component.
    pub fn join(&self, name: &[u8]) -> RawPath {
        let mut joined = Vec::with_capacity(self.0.len() + name.len() + 1);
        joined.extend_from_slice(&self.0);
        if joined.last() != Some(&b'/') {
            joined.push(b'/');
        }
        joined.extend_from_slice(name);
        RawPath(joined)
    }

    /// The non-empty components in order.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|part| !part.is_empty())
    }

    /// The path without its last component; `None` for `/`.
    pub fn parent(&self) -> Option<RawPath> {
        let end = self.0.iter().rposition(|&byte| byte == b'/')?;
        match (end, self.0.len()) {
            (0, 1) => None,
            (0, _) => Some(RawPath(b"/".to_vec())),
            _ => Some(RawPath(self.0.get(..end)?.to_vec())),
        }
    }

    /// The last component; empty for `/`.
    pub fn file_name(&self) -> &[u8] {
        self.components().next_back().unwrap_or_default()
    }

    /// Whether this is `tree` or lies below it, by component.
    pub fn is_within(&self, tree: &RawPath) -> bool {
        let mut mine = self.components();
        tree.components().all(|part| mine.next() == Some(part))
    }
}

impl From<PathBuf> for RawPath {
    fn from(path: PathBuf) -> RawPath {
        RawPath(path.into_os_string().into_vec())
    }
}

impl From<&Path> for RawPath {
    fn from(path: &Path) -> RawPath {
        RawPath(path.as_os_str().as_bytes().to_vec())
    }
}

impl From<&str> for RawPath {
    fn from(path: &str) -> RawPath {
        RawPath(path.as_bytes().to_vec())
    }
}

impl fmt::Debug for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
