//! The policy language: files of an admin or a user in, verdicts out. Pure data and pure functions that run with any
//! privilege: files are read through a function that the caller gives, and what a tool chose is only ever a path to match.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | a profile with everything substituted and merged: what crosses to a supervisor |
//! | `file` | the notation of one file, with the place of every value |
//! | [`mod@load`], [`layers`] | where profiles are looked up, and what they extend |
//! | `merge` | files laid over each other, `~` and variables substituted, what is refused |
//! | [`select`] | which profile holds where none was named |
//! | [`ceiling`], [`floors`] | the admin's limit on everybody |
//! | `execrule`, `netrule`, `socketrule` | the terms of a rule on programs, hosts or sockets, and its examples |
//! | [`decide`] | the verdict on one access to one path, independent of the order of rules |
//! | `tables` | the rules of the profile, and those of the ceiling, apart |
//! | `execution` | the verdict on one execve(2) |
//! | `reading` | what a command line means, with `git`, `linker` and `interpreters` for those that need it |
//! | `programs` | which rules speak of a program |
//! | [`mod@variables`] | environment variables that carry code |
//! | [`network`] | the verdict on names, connections and listening sockets |
//! | `hosts` | which rules speak of a name or an address |
//! | [`sockets`] | the verdict on unix sockets, and which service is behind one |
//! | [`publish`] | whether a session may be reached where whoever starts it says |
//! | [`grants`], `granted` | the answers that outlive their request; those of one session, and how they are found |
//! | `commands`, `hostscope` | how far an answer to an execve(2), or about the network, reaches |
//! | [`compare`], `samples` | what becomes wider or narrower from one profile to another |
//! | [`expect`] | files of what a profile is to decide |
//! | [`lint`] | rules that do not do what they seem to |
//! | [`merged`] | a profile as the language writes it, everything merged |
//! | [`explain`] | a verdict in words, and questions about hosts and sockets |
//! | [`question`] | everything that a policy says of one attempt |
//! | [`unasked`] | answers that somebody gives before anything asked |
//! | [`lasting`] | how far an answer reaches, as it is kept on disk |
//! | [`learn`] | from what a session that learned did to a profile that is proposed |
//! | [`plan`] | what the floor may give natively |
//! | [`regions`] | where reads have to be held |

pub mod ceiling;
mod commands;
pub mod compare;
pub mod decide;
mod execrule;
mod execution;
pub mod expect;
pub mod explain;
mod file;
pub mod floors;
mod git;
pub(crate) mod granted;
pub mod grants;
mod hosts;
mod hostscope;
mod index;
mod interpreters;
pub mod lasting;
pub mod layers;
pub mod learn;
mod linker;
pub mod lint;
pub mod load;
pub mod meeting;
mod merge;
pub mod merged;
pub mod model;
mod netrule;
pub mod network;
pub mod plan;
mod programs;
pub mod publish;
pub mod question;
mod reading;
pub mod regions;
mod samples;
pub mod select;
mod socketrule;
pub mod sockets;
mod tables;
pub mod unasked;
pub mod variables;

pub use ceiling::Ceiling;
pub use commands::CommandScope;
pub use decide::{Policy, Source, Verdict};
pub use file::MAX_FILE;
pub use grants::{Bounds, Grant, Grants, Scope, TooBroad};
pub use hostscope::{HostScope, ScopeHost};
pub use load::{Context, PolicyError, ProfileSelector, load};
pub use model::Profile;
pub use programs::Follow;
pub use reading::operand;
pub use sockets::SocketScope;
