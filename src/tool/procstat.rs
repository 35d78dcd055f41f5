//! Whose child a process is: `/proc/PID/stat`. Runs in the supervisor and in leaders, as the user, on processes of a tool.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, openat};

pub use crate::common::procstat::Stat;
use crate::common::procstat::parse;

/// `procfs` is a procfs in whose numbering the process has this id. `None` once it is gone.
pub fn stat(procfs: impl AsFd, process: i32) -> Option<Stat> {
    let file = openat(procfs, format!("{process}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 1024];
    let length = rustix::io::read(&file, &mut text).ok()?;
    parse(text.get(..length)?)
}
