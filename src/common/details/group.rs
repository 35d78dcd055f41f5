//! Several requests that are put as one, and what was answered again and again, as they travel on the bus. Pure data; see the
//! module above.

use std::time::Duration;

use super::{Details, DetailsError, MAX_PATTERN, absolute, bytes, microseconds, word};
use crate::common::access::Access;
use crate::common::consent::{Group, MOST_MEMBERS, Member, Suggestion};
use crate::common::decision::Term;

/// Each an operation and an object.
pub(super) fn members_of(group: &Group) -> Vec<(String, Vec<u8>)> {
    let member = |member: &Member| (member.operation.as_str().to_owned(), member.object.as_bytes().to_vec());
    group.members.iter().take(MOST_MEMBERS).map(member).collect()
}

/// The group, if it is one.
pub(super) fn group(details: &mut Details) -> Result<Option<Group>, DetailsError> {
    let (count, place, members) =
        (details.group_count.take(), details.group_place.take(), details.group_members.take());
    let Some(count) = count else {
        return match (place, members) {
            (None, None) => Ok(None),
            _ => Err(DetailsError::Missing("group-count")),
        };
    };
    let place = place.ok_or(DetailsError::Missing("group-place"))?;
    let members = members.ok_or(DetailsError::Missing("group-members"))?;
    if place.len() > MAX_PATTERN {
        return Err(DetailsError::TooLong("group-place"));
    }
    let count = usize::try_from(count).map_err(|_| DetailsError::Range("group-count"))?;
    if count < 2 || members.is_empty() || members.len() > count.min(MOST_MEMBERS) {
        return Err(DetailsError::Range("group-members"));
    }
    let is_path = matches!(word("access", &details.access)?, Access::Read | Access::Write);
    let member = |(operation, object): (String, Vec<u8>)| {
        let operation = word("group-members", &operation)?;
        let object = if is_path { absolute("group-members", object) } else { bytes("group-members", object) };
        Ok(Member { operation, object: object? })
    };
    let members = members.into_iter().map(member).collect::<Result<_, DetailsError>>()?;
    Ok(Some(Group { count, place, members }))
}

/// How often, the width, the word of the term, and its microseconds.
pub(super) fn suggestion_of(suggestion: &Suggestion) -> (u32, String, String, u64) {
    let Suggestion { times, width, term } = suggestion;
    (*times, width.as_str().to_owned(), term_word(*term).to_owned(), term.time().map_or(0, microseconds))
}

pub(super) fn suggestion(details: &mut Details) -> Result<Option<Suggestion>, DetailsError> {
    let Some((times, width, term, time)) = details.suggested.take() else { return Ok(None) };
    Ok(Some(Suggestion {
        times,
        width: word("suggested", &width)?,
        term: term_of(&term, Some(time)).ok_or(DetailsError::Word("suggested"))?,
    }))
}

/// The word of a term; its time goes beside it.
pub(super) fn term_word(term: Term) -> &'static str {
    match term {
        Term::Call => "call",
        Term::Session => "session",
        Term::For(_) => "for",
        Term::Always => "always",
    }
}

/// The term of a word, and of microseconds where it is `for`.
pub(super) fn term_of(word: &str, time: Option<u64>) -> Option<Term> {
    match (word, time) {
        ("call", _) => Some(Term::Call),
        ("session", _) => Some(Term::Session),
        ("for", Some(time)) if time > 0 => Some(Term::For(Duration::from_micros(time))),
        ("always", _) => Some(Term::Always),
        _ => None,
    }
}
