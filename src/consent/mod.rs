//! Consent agents: show a request to a person or hand it to a script, and bring the answer back. Run as whoever is asked,
//! or inside `gated-run --embedded` as the invoking process. What they show is a tool's choice of words and paths, and
//! goes through [`crate::common::text`]; what they return comes from the person or the script alone.
//!
//! The trait is [`crate::common::consent::ConsentAgent`], so that the broker need not know who is here.

pub mod bus;
pub mod none;
pub mod notify;
pub mod plain;
pub mod script;
pub mod terminal;
pub mod told;
pub mod webhook;
pub mod words;
