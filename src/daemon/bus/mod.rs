//! The daemon on the bus: what `dbus/` says. Runs as root, on messages of anybody who may talk to the system bus.

pub mod error;
