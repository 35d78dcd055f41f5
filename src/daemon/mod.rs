//! The broker's side: takes requests of supervisors, puts them to consent agents, writes the records and releases the
//! decisions. Runs as root in the daemon, or inside `gated-run --embedded`. Every message comes from a supervisor that runs
//! as the user beside a hostile tool: all of its text is the tool's, and none of it is trusted. It never touches the memory
//! or the files of a tool.

pub mod agents;
pub mod answers;
pub mod audit;
pub mod authz;
pub mod broker;
pub mod bus;
pub mod caller;
pub mod core;
pub mod denials;
pub mod editors;
pub mod endings;
pub mod engine;
pub mod events;
mod explaining;
pub mod install;
pub mod keeping;
pub mod lasting;
pub mod launch;
pub mod link;
pub mod live;
pub mod log;
pub mod message;
pub mod metrics;
pub mod muted;
pub mod newest;
pub mod notices;
pub mod opening;
pub mod orders;
pub mod pending;
pub mod policyfiles;
pub mod process;
pub mod record;
pub mod recorder;
mod refusals;
pub mod release;
pub mod rendezvous;
pub mod requests;
pub mod state;
pub mod statistics;
pub mod store;
pub mod users;
pub mod view;
pub mod watchers;
