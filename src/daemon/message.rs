//! stub
pub const SESSION_STARTED: &str = "0";
pub const SESSION_ENDED: &str = "0";
pub const SUPERVISOR_LOST: &str = "0";
pub const DAEMON_STARTED: &str = "0";
pub const DAEMON_STOPPED: &str = "0";
pub const RELOADED: &str = "0";
pub const RELOAD_FAILED: &str = "0";
