//! `gatedctl tui` and `gatedctl ask` as a person has them: in a real terminal (tmux), with the daemon's core on a real bus and
//! supervisors that the test plays.

#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "each test program uses its own part")]
#[path = "../daemon_bus/world.rs"]
mod world;

mod answers;
mod lines;
mod screens;
mod seat;
mod terminal;
