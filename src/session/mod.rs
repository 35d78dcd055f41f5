//! The session supervisor: starts as root, builds the session, leaves root for good, and then decides and performs, as the
//! user, what the tool's trapped calls want.

pub mod launch;
pub mod life;
