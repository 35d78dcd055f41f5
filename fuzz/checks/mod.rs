//! What is tried with any bytes at all, by `cargo fuzz` (fuzz/targets) and, on the inputs that are kept, by the ordinary tests
//! (tests/fuzz_corpus.rs). A check panics where something does not hold.

pub mod addresses;
mod attempts;
pub use attempts::context;
pub mod bridge;
pub mod ceiling;
pub mod details;
mod feed;
pub mod filter;
pub mod keyboard;
pub mod memory;
pub mod messages;
pub mod packets;
pub mod patterns;
pub mod policy;
pub mod programs;
pub mod records;
pub mod script;
pub mod text;

/// The name of a target, which is that of its corpus too, and its check.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 15] = [
    ("addresses", addresses::check),
    ("bridge", bridge::check),
    ("ceiling", ceiling::check),
    ("details", details::check),
    ("filter", filter::check),
    ("keyboard", keyboard::check),
    ("memory", memory::check),
    ("messages", messages::check),
    ("packets", packets::check),
    ("patterns", patterns::check),
    ("policy", policy::check),
    ("programs", programs::check),
    ("records", records::check),
    ("script", script::check),
    ("text", text::check),
];
