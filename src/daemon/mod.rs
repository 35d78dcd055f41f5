//! The broker's side: takes requests of supervisors, puts them to consent agents, writes the records and releases the
//! decisions. Runs as root in the daemon, or inside `gated-run --embedded`. Every message comes from a supervisor that runs
//! as the user beside a hostile tool: all of its text is the tool's, and none of it is trusted. It never touches the memory
//! or the files of a tool.

pub mod audit;
pub mod authz;
pub mod broker;
pub mod bus;
pub mod caller;
pub mod denials;
pub mod events;
pub mod log;
pub mod message;
pub mod pending;
pub mod policyfiles;
pub mod record;
pub mod recorder;
