//! The daemon on a real bus, with supervisors that the test plays. What needs no other user runs without root; `foreign` needs
//! it, for peers that are somebody else.

#[path = "../support/mod.rs"]
mod support;

mod ceiling;
mod consent;
mod faults;
mod foreign;
mod groups;
mod introspection;
mod lasting;
mod later;
mod learning;
mod methods;
mod policy;
mod same;
mod statistics;
mod unasked;
mod world;
mod xml;
