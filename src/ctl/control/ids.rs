//! Ids as a person types them: the first digits of one are enough. Pure.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

use super::failure::Failure;

/// The digits that an id needs at the least: fewer would soon mean another id than a moment ago.
pub const LEAST_DIGITS: usize = 4;

/// What has ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Request,
    Session,
    Grant,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Request, Kind::Session, Kind::Grant];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Request => "request",
            Kind::Session => "session",
            Kind::Grant => "grant",
        }
    }

    /// Of a whole id, as `common::id` makes them.
    fn digits(self) -> usize {
        match self {
            Kind::Request => 32,
            Kind::Session => 8,
            Kind::Grant => 16,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The beginning of an id, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        match text.len() {
            _ if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Err("an id has hexadecimal digits only".into()),
            0..LEAST_DIGITS => Err(format!("at least {LEAST_DIGITS} digits of an id are needed")),
            33.. => Err("no id is that long".into()),
            _ => Ok(Prefix(text.to_ascii_lowercase())),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Prefix {
    /// The id, if all of its digits are here. Such a one can also be of something that this user does not see.
    pub fn whole(&self, kind: Kind) -> Option<&str> {
        (self.0.len() == kind.digits()).then_some(&*self.0)
    }

    pub fn begins(&self, id: &str) -> bool {
        id.strip_prefix(&self.0).is_some()
    }

    /// The one of `items` whose id begins so.
    pub fn pick<T>(
        &self,
        kind: Kind,
        items: impl IntoIterator<Item = T>,
        id: impl Fn(&T) -> String,
    ) -> Result<T, Failure> {
        let mut found: Vec<T> = items.into_iter().filter(|item| self.begins(&id(item))).collect();
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(Failure::NotFound { kind, prefix: self.clone() }),
            (Some(one), true) => Ok(one),
            (Some(one), false) => {
                // The same id twice would be one thing to whoever reads it.
                let mut candidates: Vec<String> = found.iter().chain([&one]).map(id).collect();
                candidates.sort_unstable();
                Err(Failure::Ambiguous { kind, prefix: self.clone(), candidates })
            }
        }
    }
}

/// How many digits of each of these ids tell it from the others: 8, or more if that is not enough.
pub fn shown_digits<'a>(ids: impl IntoIterator<Item = &'a str>) -> usize {
    let mut sorted: Vec<&str> = ids.into_iter().collect();
    sorted.sort_unstable();
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let longest = sorted.windows(2).filter_map(|pair| pair.first().zip(pair.last())).map(|(a, b)| common(a, b)).max();
    longest.map_or(8, |common| common.saturating_add(1)).max(8)
}

/// The first `digits` of an id.
pub fn short(id: &str, digits: usize) -> &str {
    id.get(..digits).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(prefix: &str, ids: &[&'static str]) -> Result<&'static str, Failure> {
        prefix.parse::<Prefix>().unwrap().pick(Kind::Request, ids.iter().copied(), |id| (*id).to_owned())
    }

    #[test]
    fn four_digits_name_an_id_if_no_other_begins_so() {
        let ids = ["abcd1111", "abcd2222", "12345678"];
        assert_eq!(pick("1234", &ids).unwrap(), "12345678");
        assert_eq!(pick("ABCD1", &ids).unwrap(), "abcd1111");
        assert!(matches!(pick("abcd", &ids), Err(Failure::Ambiguous { candidates, .. }) if candidates.len() == 2));
        assert!(matches!(pick("ffff", &ids), Err(Failure::NotFound { .. })));
        for wrong in ["", "123", "12g4", "0x12", "../a", "123456781234567812345678123456781"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_whole_id_is_as_long_as_ids_are_made() {
        use crate::common::id::{GrantId, RequestId, SessionId};
        for (kind, id) in [
            (Kind::Request, RequestId::random().unwrap().to_string()),
            (Kind::Session, SessionId::random().unwrap().to_string()),
            (Kind::Grant, GrantId::random().unwrap().to_string()),
        ] {
            assert_eq!(id.parse::<Prefix>().unwrap().whole(kind), Some(&*id));
            assert_eq!(id[1..].parse::<Prefix>().unwrap().whole(kind), None);
        }
    }

    #[test]
    fn as_many_digits_are_shown_as_are_needed() {
        assert_eq!(shown_digits(["abcd1111aaaa", "12345678aaaa"]), 8);
        assert_eq!(shown_digits(["abcd1111aaaa", "abcd1111abbb"]), 10);
        assert_eq!(shown_digits([]), 8);
    }
}
