//! The names of gated on the bus: what the files in `dbus/` say, for the daemon and for its clients. Pure data.

/// The daemon's well-known name.
pub const BUS_NAME: &str = "org.gated.Gated1";

pub const MANAGER_PATH: &str = "/org/gated/Gated1";
pub const SESSIONS_PATH: &str = "/org/gated/Gated1/session";
pub const REQUESTS_PATH: &str = "/org/gated/Gated1/request";
/// Where a consent agent serves [`AGENT_INTERFACE`].
pub const AGENT_PATH: &str = "/org/gated/Gated1/Agent";

pub const MANAGER_INTERFACE: &str = "org.gated.Gated1.Manager";
pub const POLICY_INTERFACE: &str = "org.gated.Gated1.Policy";
pub const GRANTS_INTERFACE: &str = "org.gated.Gated1.Grants";
pub const SESSION_INTERFACE: &str = "org.gated.Gated1.Session";
pub const REQUEST_INTERFACE: &str = "org.gated.Gated1.Request";
/// At [`MANAGER_PATH`] too.
pub const STATISTICS_INTERFACE: &str = "org.gated.Gated1.Statistics";
pub const AGENT_INTERFACE: &str = "org.gated.Gated1.Agent";

/// What every error name begins with.
pub const ERROR_PREFIX: &str = "org.gated.Gated1.Error";

/// The polkit actions, `dbus/org.gated.gated1.policy`.
pub mod action {
    /// Answer requests of another user's session.
    pub const ANSWER_FOR_OTHERS: &str = "org.gated.gated1.answer-for-others";
    /// See and stop sessions of others, and revoke their grants.
    pub const MANAGE_SESSIONS: &str = "org.gated.gated1.manage-sessions";
    pub const EDIT_POLICY: &str = "org.gated.gated1.edit-policy";
    /// Say yes where the rule's level is `authenticate`.
    pub const GRANT_SENSITIVE: &str = "org.gated.gated1.grant-sensitive";
}

/// The socket in a session's own /run on which its supervisor takes further calls from inside the session.
pub const INSIDE_SOCKET: &str = "/run/gated/call.sock";
/// Where supervisors find the daemon, outside of sessions.
pub const SUPERVISORS_SOCKET: &str = "/run/gated/supervisors.sock";
