//! The errors of gated's interfaces. Their names are the interface; the text behind one is a detail for programs and logs,
//! in one line, and empty where the name says it all. Clients get the same type back from a failed call.

use zbus::DBusError;

use crate::common::text;

/// `org.gated.Gated1.Error.*`.
#[derive(Debug, DBusError)]
#[zbus(prefix = "org.gated.Gated1.Error")]
pub enum Error {
    /// For clients: something else than an answer of the daemon's.
    #[zbus(error)]
    ZBus(zbus::Error),
    /// The caller is not who may do this; the detail is the polkit action that would let it, if there is one.
    NotAuthorized(String),
    /// The caller runs inside a session, where nobody may do this.
    InsideSession(String),
    NoSuchSession(String),
    NoSuchRequest(String),
    AlreadyDecided(String),
    NoSuchGrant(String),
    /// An `a{sv}` has this key, which is not known, or a value of another type in it.
    InvalidOption(String),
    InvalidArgument(String),
    /// A policy file that cannot be used: `FILE:LINE:COLUMN: what is wrong`, where it has a place.
    Policy(String),
    /// The ceiling does not let this user start sessions.
    NotPermitted(String),
    /// The limit that is reached.
    TooMany(String),
    /// A session could not be started, or is in no state for this.
    Engine(String),
    /// The daemon's own failure; the log has more.
    Internal(String),
}

/// Columns of a detail that go over the bus.
const MAX_DETAIL: usize = 1024;

/// A detail that holds words of a client or of a file: one line, escaped, and cut.
pub fn detail(words: &str) -> String {
    text::escaped_within(words.as_bytes(), MAX_DETAIL)
}

#[cfg(test)]
mod tests {
    use zbus::DBusError;

    use super::*;
    use crate::common::bus;

    #[test]
    fn every_error_has_a_name_of_the_interface() {
        let named = [
            (Error::NotAuthorized(String::new()), "NotAuthorized"),
            (Error::InsideSession(String::new()), "InsideSession"),
            (Error::NoSuchSession(String::new()), "NoSuchSession"),
            (Error::NoSuchRequest(String::new()), "NoSuchRequest"),
            (Error::AlreadyDecided(String::new()), "AlreadyDecided"),
            (Error::NoSuchGrant(String::new()), "NoSuchGrant"),
            (Error::InvalidOption(String::new()), "InvalidOption"),
            (Error::InvalidArgument(String::new()), "InvalidArgument"),
            (Error::Policy(String::new()), "Policy"),
            (Error::NotPermitted(String::new()), "NotPermitted"),
            (Error::TooMany(String::new()), "TooMany"),
            (Error::Engine(String::new()), "Engine"),
            (Error::Internal(String::new()), "Internal"),
        ];
        for (error, name) in named {
            assert_eq!(error.name().as_str(), format!("{}.{name}", bus::ERROR_PREFIX));
        }
    }

    #[test]
    fn a_detail_is_one_short_line() {
        let told = detail(&format!("a\nb\u{202e}{}", "x".repeat(10_000)));
        assert!(!told.chars().any(|c| c.is_control() || c == '\u{202e}'), "{told}");
        assert!(told.chars().count() <= MAX_DETAIL, "{told}");
    }
}
