//! The session supervisor: builds a session, then holds its notification listeners, decides and performs.
//!
//! Starts as root ([`launch`]) and leaves it for good before the tool exists; from then on it runs as the user, without a
//! capability, in the session's mount namespace and the host's pid and network namespaces. All that comes from the tool is
//! hostile; all that leaves towards the broker and the callers is typed ([`crate::common::wire`]).

pub mod agents;
pub mod attend;
pub mod calls;
pub mod crew;
pub mod decimal;
pub mod decode;
pub mod exec;
pub mod floor;
mod held;
pub mod hostroot;
pub mod inside;
pub mod interrupt;
pub mod judge;
pub mod kin;
pub mod launch;
pub mod life;
pub mod listener;
pub mod names;
pub mod net;
pub mod perform;
pub mod pool;
mod processor;
pub mod procthread;
pub mod reads;
pub mod resolve;
pub mod reunion;
pub mod start;
pub mod stuck;
pub mod sys;
pub mod target;
pub mod upstream;
mod wanted;
