//! The daemon on the bus: what `dbus/` says. Runs as root, on messages of anybody who may talk to the system bus. The objects
//! identify who calls, check the arguments and pass them to [`super::core`], which decides.

pub mod agent;
pub mod error;
pub mod grants;
pub mod handle;
pub mod manager;
pub mod objects;
pub mod options;
pub mod policy;
pub mod service;
pub mod statistics;

pub use options::path;

use std::future::Future;
use std::pin::Pin;

use super::orders::Refusal;

/// What the core does for a caller.
pub type Doing<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>>>>;
