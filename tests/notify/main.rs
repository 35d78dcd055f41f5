//! The consent agent of a desktop: what it shows, which clicks count, and all of it on real desktops: an X server, buses of
//! the test's own, and notification servers as they are installed.

#[path = "../support/bus.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod bus;
mod desk;
mod drawing;
mod fake;
mod prompts;
mod protocol;
mod queue;
mod screens;
#[path = "../support/user.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod user;
mod whole;
