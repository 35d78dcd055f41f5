//! What runs between the start of a session and the first instruction of the tool: as root until [`privileges`] drops it
//! for good, then as the user, always before any byte that the tool controls is looked at.

pub mod busproxy;
pub mod command;
pub mod descriptors;
pub mod ending;
pub mod fanotify;
pub mod filter;
pub mod floor;
pub mod forget;
pub mod init;
pub mod keeper;
pub mod leader;
pub mod link;
pub mod messages;
pub mod mounts;
pub mod namespaces;
pub mod network;
pub mod ownfiles;
pub mod parting;
pub mod privileges;
pub mod probe;
pub mod procstat;
pub mod regions;
pub mod syscalls;
