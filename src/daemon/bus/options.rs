//! The `a{sv}` arguments of calls: known keys of the right type, and nothing else. Runs as root in the daemon on what any
//! local user sent.

use std::collections::{BTreeMap, HashMap};

use zbus::{OwnedVariant, Variant};

use super::error::{Error, detail};
use crate::common::path::RawPath;

/// Bytes of a path at the most.
const LONGEST_PATH: usize = 4096;

/// What a caller sent, of which every key must be taken.
pub struct Options(HashMap<String, OwnedVariant>);

impl Options {
    pub fn new(map: HashMap<String, OwnedVariant>) -> Options {
        Options(map)
    }

    /// The value of a key, if it is there.
    pub fn take<T>(&mut self, key: &'static str) -> Result<Option<T>, Error>
    where
        T: TryFrom<OwnedVariant>,
    {
        let wrong = || Error::InvalidOption(key.to_owned());
        self.0.remove(key).map(|value| T::try_from(value).map_err(|_| wrong())).transpose()
    }

    /// An absolute path without `.`, `..`, empty components and NUL.
    pub fn path(&mut self, key: &'static str) -> Result<Option<RawPath>, Error> {
        let Some(bytes) = self.take::<Vec<u8>>(key)? else { return Ok(None) };
        path(bytes).map(Some).ok_or_else(|| Error::InvalidOption(key.to_owned()))
    }

    /// Texts by name, sent as bytes because a file may hold anything.
    pub fn texts(&mut self, key: &'static str) -> Result<BTreeMap<String, String>, Error> {
        let files: BTreeMap<String, Vec<u8>> = self.take(key)?.unwrap_or_default();
        let text = |(name, bytes)| Some((name, String::from_utf8(bytes).ok()?));
        let texts: Option<BTreeMap<String, String>> = files.into_iter().map(text).collect();
        texts.ok_or_else(|| Error::InvalidOption(key.to_owned()))
    }

    /// Nothing else may be there.
    pub fn end(self) -> Result<(), Error> {
        match self.0.into_keys().next() {
            Some(key) => Err(Error::InvalidOption(detail(&key))),
            None => Ok(()),
        }
    }
}

/// A path as the kernel writes it.
pub fn path(bytes: Vec<u8>) -> Option<RawPath> {
    let is_plain = bytes == b"/"
        || bytes.strip_prefix(b"/").is_some_and(|rest| {
            rest.split(|byte| *byte == b'/').all(|name| !name.is_empty() && name != b"." && name != b"..")
        });
    (is_plain && bytes.len() <= LONGEST_PATH && !bytes.contains(&0)).then(|| RawPath::new(bytes))
}

/// A value of a plain type, which always goes into a variant.
pub fn value<'a>(value: impl Into<Variant<'a>>) -> Variant<'a> {
    value.into()
}
