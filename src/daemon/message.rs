//! stub
pub const SESSION_STARTED: &str = "0";
pub const SESSION_ENDED: &str = "0";
pub const SUPERVISOR_LOST: &str = "0";
