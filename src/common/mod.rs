//! Pure data that every trust domain shares: the words of the design as types, patterns on paths, sanitised text and the
//! messages between processes. Runs with any privilege, touches nothing.

pub mod access;
pub mod argv;
pub mod bus;
pub mod consent;
pub mod decision;
pub mod details;
pub mod errno;
pub mod exec;
pub mod id;
pub mod mask;
pub mod moment;
pub mod net;
pub mod notice;
pub mod path;
pub mod procstat;
pub mod request;
pub mod scope;
pub mod shellwords;
pub mod text;
pub mod wire;
