//! An answer as the `decision` and `scope` of the bus. Pure data; see the module above.

use std::collections::HashMap;
use std::time::Duration;

use zbus::{OwnedVariant, Variant};

use super::group::{term_of, term_word};
use super::{DetailsError, exec, microseconds, word};
use crate::common::consent::Answer;
use crate::common::decision::Width;
use crate::common::exec::SHOWN_BYTES;

/// Bytes of a command that somebody wrote at the most, each word with its NUL: a longer one could not be shown whole.
pub const MAX_EDITED: usize = SHOWN_BYTES;

/// An answer as `decision` and `scope`.
pub fn answer_to_bus(answer: &Answer) -> (&'static str, HashMap<&'static str, Variant<'static>>) {
    let scope = |width: &Width| HashMap::from([("width", Variant::from(width.as_str()))]);
    let with = |width: &Width, key, value| HashMap::from([("width", Variant::from(width.as_str())), (key, value)]);
    match answer {
        Answer::Deny => ("deny", HashMap::new()),
        Answer::Once(width) => ("once", scope(width)),
        Answer::Session(width) => ("session", scope(width)),
        Answer::For(width, time) => ("for", with(width, "time", Variant::from(microseconds(*time)))),
        Answer::Always(width) => ("always", scope(width)),
        Answer::Block(width, term) => {
            let mut scope = with(width, "term", Variant::from(term_word(*term)));
            scope.extend(term.time().map(|time| ("time", Variant::from(microseconds(time)))));
            ("block", scope)
        }
        Answer::Split => ("split", HashMap::new()),
        Answer::Edit(argv) => ("edit", HashMap::from([("argv", Variant::from(argv.clone()))])),
    }
}

/// `decision` and `scope` as an answer; without a width it is the object alone.
pub fn answer_from_bus(decision: &str, scope: &HashMap<String, OwnedVariant>) -> Result<Answer, DetailsError> {
    let (mut width, mut time, mut term, mut argv) = (None, None, None, None);
    for (key, value) in scope {
        match (key.as_str(), &**value) {
            ("width", Variant::Str(text)) if !matches!(decision, "edit" | "split") => {
                width = Some(word("width", text.as_str())?);
            }
            ("time", Variant::U64(micros)) if matches!(decision, "for" | "block") => time = Some(*micros),
            ("term", Variant::Str(text)) if decision == "block" => term = Some(text.as_str().to_owned()),
            ("argv", value) if decision == "edit" => {
                let words = value.try_clone().ok().and_then(|value| Vec::<Vec<u8>>::try_from(value).ok());
                argv = Some(words.ok_or(DetailsError::Scope)?);
            }
            _ => return Err(DetailsError::Scope),
        }
    }
    let width = width.unwrap_or(Width::Exact);
    match decision {
        "deny" => Ok(Answer::Deny),
        "once" => Ok(Answer::Once(width)),
        "session" => Ok(Answer::Session(width)),
        "for" => match time.map(Duration::from_micros).ok_or(DetailsError::Missing("time"))? {
            Duration::ZERO => Err(DetailsError::Range("time")),
            time => Ok(Answer::For(width, time)),
        },
        "always" => Ok(Answer::Always(width)),
        "block" => {
            let term = term_of(&term.ok_or(DetailsError::Missing("term"))?, time).ok_or(DetailsError::Word("term"))?;
            match (term.time(), time) {
                (None, Some(_)) => Err(DetailsError::Scope),
                _ => Ok(Answer::Block(width, term)),
            }
        }
        "split" => Ok(Answer::Split),
        "edit" => edited(argv.ok_or(DetailsError::Missing("argv"))?).map(Answer::Edit),
        _ => Err(DetailsError::Word("decision")),
    }
}

/// A command that can be executed: a name to look for, and no word that ends within itself.
fn edited(argv: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, DetailsError> {
    if argv.first().is_none_or(Vec::is_empty) {
        return Err(DetailsError::Range("argv"));
    }
    let words = exec::words("argv", argv, MAX_EDITED)?;
    Ok(exec::bytes_of(&words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::decision::Term;

    fn own(scope: HashMap<&'static str, Variant<'static>>) -> HashMap<String, OwnedVariant> {
        scope.into_iter().map(|(key, value)| (key.to_owned(), value.try_into_owned().unwrap())).collect()
    }

    fn scope(key: &'static str, value: Variant<'static>) -> HashMap<String, OwnedVariant> {
        own(HashMap::from([(key, value)]))
    }

    #[test]
    fn answers_survive_the_bus_and_nothing_else_is_one() {
        let paths = [Width::Exact, Width::Directory, Width::Tree];
        let others = [Width::Prefix, Width::Program, Width::Host, Width::Domain];
        let widths = paths.into_iter().chain(others);
        let time = Duration::from_secs(3600);
        let yes = widths.flat_map(|width| {
            let terms = [Term::Call, Term::Session, Term::For(time), Term::Always];
            let blocks = terms.map(|term| Answer::Block(width, term));
            let yes = [Answer::Once(width), Answer::Session(width), Answer::For(width, time), Answer::Always(width)];
            yes.into_iter().chain(blocks)
        });
        let edit = Answer::Edit(vec![b"git".to_vec(), b"".to_vec(), b"\xff \x1b".to_vec()]);
        for answer in yes.chain([Answer::Deny, Answer::Split, edit]) {
            let (decision, scope) = answer_to_bus(&answer);
            assert_eq!(answer_from_bus(decision, &own(scope)), Ok(answer));
        }
        let none = HashMap::new();
        assert_eq!(answer_from_bus("once", &none), Ok(Answer::Once(Width::Exact)));
        for decision in ["", "Deny", "allow", "once "] {
            assert_eq!(answer_from_bus(decision, &none), Err(DetailsError::Word("decision")));
        }
        assert_eq!(answer_from_bus("once", &scope("wide", "tree".into())), Err(DetailsError::Scope));
        assert_eq!(answer_from_bus("deny", &scope("wide", "tree".into())), Err(DetailsError::Scope));
        assert_eq!(answer_from_bus("once", &scope("width", 3u32.into())), Err(DetailsError::Scope));
        assert_eq!(answer_from_bus("once", &scope("width", "all".into())), Err(DetailsError::Word("width")));
    }

    #[test]
    fn a_command_that_somebody_wrote_is_one_or_refused() {
        let argv = |words: Vec<Vec<u8>>| answer_from_bus("edit", &scope("argv", Variant::from(words)));
        assert_eq!(answer_from_bus("edit", &HashMap::new()), Err(DetailsError::Missing("argv")));
        assert_eq!(argv(vec![]), Err(DetailsError::Range("argv")));
        assert_eq!(argv(vec![vec![], b"x".to_vec()]), Err(DetailsError::Range("argv")));
        assert_eq!(argv(vec![b"a\0b".to_vec()]), Err(DetailsError::Nul("argv")));
        assert_eq!(argv(vec![vec![b'x'; MAX_EDITED]]), Err(DetailsError::TooLong("argv")));
        assert_eq!(argv(vec![b"x".to_vec(); MAX_EDITED]), Err(DetailsError::TooLong("argv")));
        assert_eq!(argv(vec![vec![b'x'; MAX_EDITED - 1]]), Ok(Answer::Edit(vec![vec![b'x'; MAX_EDITED - 1]])));
        assert_eq!(answer_from_bus("edit", &scope("argv", "git".into())), Err(DetailsError::Scope));
        assert_eq!(answer_from_bus("edit", &scope("width", "exact".into())), Err(DetailsError::Scope));
        let words = || Variant::from(vec![b"x".to_vec()]);
        for decision in ["deny", "once", "session"] {
            assert_eq!(answer_from_bus(decision, &scope("argv", words())), Err(DetailsError::Scope));
        }
    }
}
