//! The policy language: files of an admin or a user in, verdicts out. Pure data and pure functions that run with any
//! privilege: files are read through a function that the caller gives, and what a tool chose is only ever a path to match.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | a profile with everything substituted and merged: what crosses to a supervisor |
//! | `file` | the notation of one file, with the place of every value |
//! | [`mod@load`] | where profiles are looked up, and what they extend |
//! | `merge` | files laid over each other, `~` and variables substituted, what is refused |
//! | [`ceiling`] | the admin's limit on everybody: who may start sessions |
//! | [`decide`] | the verdict on one access to one path, independent of the order of rules |
//! | [`grants`] | the answers that outlive their request |
//! | [`explain`] | a verdict in words |
//! | [`plan`] | what the floor may give natively |
//! | [`regions`] | where reads have to be held |

pub mod ceiling;
pub mod decide;
pub mod explain;
mod file;
pub mod grants;
mod index;
pub mod load;
mod merge;
pub mod model;
pub mod plan;
pub mod regions;

pub use ceiling::Ceiling;
pub use decide::{Policy, Source, Verdict};
pub use file::MAX_FILE;
pub use grants::{Grant, Grants, TooBroad};
pub use load::{Context, PolicyError, ProfileSelector, load};
pub use model::Profile;
