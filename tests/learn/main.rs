//! Learning: sessions that ask nothing and record all, the profiles that are proposed for what they did, and what runs under
//! those afterwards. Real sessions, as root; the proposals themselves without any.

#[path = "../support/mod.rs"]
mod support;

mod proposals;
mod served;
mod sessions;
