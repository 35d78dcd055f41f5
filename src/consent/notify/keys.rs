//! What buttons are called on the bus, for one drawing of one request. Nobody who has not seen that drawing can name them,
//! so no click on an earlier one, under whichever id, is taken for a click on this one.
//!
//! dunst keeps actions in a GLib hash table and lists them in that table's order, which would now put "Allow once" first and
//! now "Deny". So names are drawn until they fall into place there too. Where a server has another order of its own, the
//! labels still say which is which.

use crate::common::id::{NoRandomness, RequestId};

use super::queue::Choice;

/// After so many draws any order will do; one in ten of three names is in order.
const DRAWS: usize = 1000;

/// A name for each choice.
pub fn name(choices: &[Choice]) -> Result<Vec<String>, NoRandomness> {
    let mut names = Vec::new();
    for _ in 0..DRAWS {
        // Each with bits of its own: with the same ones they would always fall in the same order.
        let drawn = choices.iter().map(|choice| Ok(format!("{}-{}", word(*choice), RequestId::random()?)));
        names = drawn.collect::<Result<_, _>>()?;
        if names.iter().map(|name| slot(name)).is_sorted_by(|one, next| one < next) {
            break;
        }
    }
    Ok(names)
}

fn word(choice: Choice) -> &'static str {
    match choice {
        Choice::Deny => "deny",
        Choice::Once => "once",
        Choice::Session => "session",
        Choice::Always => "always",
    }
}

/// Where GLib puts a name in a small table: `g_str_hash` and `g_hash_table_hash_to_index` of GLib 2.74.
fn slot(name: &str) -> u32 {
    let hash = name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
    hash.wrapping_mul(11) % 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_never_the_same() {
        let choices = [Choice::Deny, Choice::Once, Choice::Session];
        let mut seen = std::collections::HashSet::new();
        for count in [2, 3] {
            for _ in 0..100 {
                let names = name(&choices[..count]).unwrap();
                assert_eq!(names.len(), count);
                assert!(names[0].starts_with("deny-") && names[1].starts_with("once-"));
                assert!(names.windows(2).all(|pair| slot(&pair[0]) < slot(&pair[1])), "{names:?}");
                assert!(names.into_iter().all(|name| seen.insert(name)));
            }
        }
    }
}
