//! What would run ([`Execution`]) in the keys `exec-…` of [`super::Details`]. Pure data; see the module above.

use super::{Details, DetailsError, MAX_ARGV, MAX_WORD, bytes};
use crate::common::access::Access;
use crate::common::exec::{Execution, Parent};
use crate::common::mask;
use crate::common::text::Untrusted;

/// Interpreters of one command at the most: the kernel follows `#!` no further than BINPRM_MAX_RECURSION allows.
const MAX_INTERPRETERS: usize = 16;
/// As [`Execution::parents`] says.
const MAX_PARENTS: usize = 16;
/// Words of a parent at the most, as [`Parent::argv`] says.
const MAX_PARENT_WORDS: usize = 16;
/// Bytes of a parent's word at the most: 256, and what masking may add.
const MAX_PARENT_WORD: usize = 4 * 256;

/// A [`Parent`]: pid, program and argv.
pub type ParentOnBus = (u32, Vec<u8>, Vec<Vec<u8>>);

pub fn bytes_of(words: &[Untrusted]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// For the bus, with secrets masked.
pub fn parent_of(parent: &Parent) -> ParentOnBus {
    let pid = u32::try_from(parent.pid).unwrap_or_default();
    (pid, parent.program.as_bytes().to_vec(), bytes_of(&mask::argv(&parent.argv)))
}

/// Takes the keys out of `details`. All of them are there where the access is exec, and none else.
pub fn execution(details: &mut Details, access: Access) -> Result<Option<Execution>, DetailsError> {
    if access != Access::Exec {
        return match &details.exec_argv {
            Some(_) => Err(DetailsError::Misplaced("exec-argv")),
            None => Ok(None),
        };
    }
    // Empty where the first word alone is too long to be shown.
    let argv = words("exec-argv", take("exec-argv", &mut details.exec_argv)?, MAX_ARGV)?;
    let interpreters = take("exec-interpreters", &mut details.exec_interpreters)?;
    if interpreters.len() > MAX_INTERPRETERS {
        return Err(DetailsError::TooLong("exec-interpreters"));
    }
    let variables = words("exec-variables", take("exec-variables", &mut details.exec_variables)?, MAX_ARGV)?;
    if variables.iter().any(|variable| !variable.as_bytes().contains(&b'=')) {
        return Err(DetailsError::Word("exec-variables"));
    }
    let parents = take("exec-parents", &mut details.exec_parents)?;
    if parents.len() > MAX_PARENTS {
        return Err(DetailsError::TooLong("exec-parents"));
    }
    Ok(Some(Execution {
        argv,
        words_left_out: take("exec-words-left-out", &mut details.exec_words_left_out)?,
        interpreters: interpreters
            .into_iter()
            .map(|path| bytes("exec-interpreters", path))
            .collect::<Result<_, _>>()?,
        variables,
        parents: parents.into_iter().map(parent).collect::<Result<_, _>>()?,
        is_new: take("exec-new", &mut details.exec_new)?,
        is_first: take("exec-first", &mut details.exec_first)?,
        version: None,
    }))
}

fn take<T>(key: &'static str, value: &mut Option<T>) -> Result<T, DetailsError> {
    value.take().ok_or(DetailsError::Missing(key))
}

/// Words as the kernel passes them: without NUL, and of so many bytes together.
pub fn words(key: &'static str, words: Vec<Vec<u8>>, most: usize) -> Result<Vec<Untrusted>, DetailsError> {
    let total = words.iter().map(|word| word.len().saturating_add(1)).fold(0, usize::saturating_add);
    if total > most {
        Err(DetailsError::TooLong(key))
    } else if words.iter().any(|word| word.contains(&0)) {
        Err(DetailsError::Nul(key))
    } else {
        Ok(words.into_iter().map(Untrusted::new).collect())
    }
}

fn parent((pid, program, argv): ParentOnBus) -> Result<Parent, DetailsError> {
    const KEY: &str = "exec-parents";
    if argv.len() > MAX_PARENT_WORDS || argv.iter().any(|word| word.len() > MAX_PARENT_WORD) {
        return Err(DetailsError::TooLong(KEY));
    }
    Ok(Parent {
        pid: i32::try_from(pid).map_err(|_| DetailsError::Range(KEY))?,
        program: bytes(KEY, program)?,
        argv: words(KEY, argv, MAX_WORD)?,
    })
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::common::path::RawPath;

    fn path() -> impl Strategy<Value = RawPath> {
        prop::collection::vec(1u8.., 0..60).prop_map(|tail| RawPath::new([b"/".as_slice(), &tail].concat()))
    }

    fn some_words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Untrusted>> {
        let word = prop::collection::vec(1u8.., 0..40).prop_map(Untrusted::new);
        prop::collection::vec(word, count)
    }

    /// What a supervisor can find.
    pub fn execution() -> impl Strategy<Value = Execution> {
        let parent = (0..i32::MAX, path(), some_words(0..16));
        let parent = parent.prop_map(|(pid, program, argv)| Parent { pid, program, argv });
        let variable = ("[A-Z_]{1,12}", prop::collection::vec(1u8.., 0..40));
        let variable = variable.prop_map(|(name, value)| Untrusted::new([name.as_bytes(), b"=", &value].concat()));
        let own = (some_words(0..20), any::<u32>(), prop::collection::vec(path(), 0..3));
        let rest = (prop::collection::vec(variable, 0..4), prop::collection::vec(parent, 0..=16));
        (own, rest, any::<bool>(), any::<bool>()).prop_map(|(own, rest, is_new, is_first)| Execution {
            argv: own.0,
            words_left_out: own.1,
            interpreters: own.2,
            variables: rest.0,
            parents: rest.1,
            is_new,
            is_first,
            version: None,
        })
    }
}
