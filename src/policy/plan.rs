//! What the floor may give natively. Asked by whoever builds a session, with nothing but the profile: Landlock cannot deny
//! inside a tree that it allows, so a tree that holds anything with rules of its own must be judged instead.

use crate::common::access::Access;
use crate::common::path::RawPath;
use crate::common::scope::{Pattern, Reach};

use super::model::Profile;

/// The trees that a session has to itself.
pub const PRIVATE: [&str; 2] = ["/tmp", "/dev/shm"];

/// Roots of scratch, by who gives the right to change what is below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// The floor grants these; nothing in them is judged.
    pub native: Vec<RawPath>,
    /// These hold a place with rules and are judged call by call; put them into [`Profile::scratch`] to have what no rule
    /// speaks about allowed.
    pub judged: Vec<RawPath>,
}

/// Which of the session's private trees and the profile's scratch the floor may grant. A private tree is not native if the
/// workspace or `cwd` lies in it (they are bound into it from outside); scratch is not native if the workspace or a file of
/// gated's own does. Neither is where a floor of the ceiling speaks, of anything in scratch, of a private tree by its name; nor
/// if something that `denied` matches may lie in it: changes that somebody denies, whatever a rule says.
pub fn scratch(profile: &Profile, private: &[RawPath], cwd: &RawPath, denied: &[&Pattern]) -> Scratch {
    let holds = |root: &RawPath, place: &RawPath| place.is_within(root);
    let mut plan = Scratch::default();
    for (root, is_private) in
        private.iter().map(|root| (root, true)).chain(profile.scratch.iter().map(|root| (root, false)))
    {
        // Of the host's files below a private tree only the workspace and the cwd are there in the session.
        let judged = profile.workspace.iter().any(|place| holds(root, place))
            || denied.iter().any(|pattern| may_lie_in(pattern, root))
            || if is_private { holds(root, cwd) } else { profile.protected.iter().any(|place| holds(root, place)) }
            || is_limited(profile, root, is_private);
        let list = if judged { &mut plan.judged } else { &mut plan.native };
        if !list.contains(root) {
            list.push(root.clone());
        }
    }
    plan
}

/// Whether something that the pattern matches may be in this tree.
fn may_lie_in(pattern: &Pattern, tree: &RawPath) -> bool {
    let start = pattern.literal_prefix();
    start.is_within(tree) || tree.is_within(&start)
}

/// Whether a floor of the ceiling may speak of a change below. What a session has to itself is no place that a pattern means
/// which begins elsewhere, or may be anywhere.
fn is_limited(profile: &Profile, root: &RawPath, is_private: bool) -> bool {
    let names: Vec<&[u8]> = root.components().collect();
    let floors = profile.rules.iter().filter(|rule| rule.is_ceiling && rule.access.contains(&Access::Write));
    floors.flat_map(|rule| &rule.path).any(|pattern| match is_private {
        true => pattern.literal_prefix().is_within(root),
        false => pattern.matches(root) || pattern.reach_below(&names) > Reach::Nothing,
    })
}
