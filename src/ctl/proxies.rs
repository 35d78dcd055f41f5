//! What the daemon offers on the bus, as its clients call it: the interfaces of `dbus/`, method by method. Runs as the
//! caller; what comes back is the daemon's, and in it the words of tools.
//!
//! Properties are never cached: each client asks once, and most of them are announced to nobody.

use std::collections::HashMap;

use zbus::{Fd, OwnedFd, OwnedObjectPath, OwnedVariant, Variant};

/// The options at the end of a call.
pub type Options<'a> = HashMap<&'a str, Variant<'a>>;
/// What comes back with names.
pub type Fields = HashMap<String, OwnedVariant>;

/// How long a call may take that starts nothing and asks nobody. With polkit a person types a password meanwhile.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

#[zbus::proxy(
    interface = "org.gated.Gated1.Manager",
    default_service = "org.gated.Gated1",
    default_path = "/org/gated/Gated1"
)]
pub trait Manager {
    #[zbus(allow_interactive_auth)]
    fn open_session(&self, options: Options<'_>) -> zbus::Result<(String, OwnedObjectPath)>;

    #[zbus(allow_interactive_auth)]
    fn run(
        &self,
        argv: &[&[u8]],
        environment: &[&[u8]],
        cwd: Fd<'_>,
        stdio: Vec<Fd<'_>>,
        link: Fd<'_>,
        options: Options<'_>,
    ) -> zbus::Result<(String, Fields)>;

    fn register_agent(&self, options: Options<'_>) -> zbus::Result<()>;

    fn unregister_agent(&self) -> zbus::Result<()>;

    #[zbus(allow_interactive_auth)]
    fn decide(&self, request: &str, decision: &str, scope: Options<'_>) -> zbus::Result<()>;

    fn explain(&self, query: Options<'_>) -> zbus::Result<Fields>;

    fn list_grants(&self, filter: Options<'_>) -> zbus::Result<Vec<Fields>>;

    #[zbus(allow_interactive_auth)]
    fn revoke_grant(&self, grant: &str, options: Options<'_>) -> zbus::Result<u32>;

    fn watch(&self, options: Options<'_>) -> zbus::Result<OwnedFd>;

    #[zbus(allow_interactive_auth)]
    fn reload(&self, options: Options<'_>) -> zbus::Result<()>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn version(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn features(&self) -> zbus::Result<Vec<String>>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn sessions(&self) -> zbus::Result<Vec<OwnedObjectPath>>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn pending_requests(&self) -> zbus::Result<Vec<OwnedObjectPath>>;
}

#[zbus::proxy(
    interface = "org.gated.Gated1.Statistics",
    default_service = "org.gated.Gated1",
    default_path = "/org/gated/Gated1"
)]
pub trait Statistics {
    #[zbus(allow_interactive_auth)]
    fn get(&self, options: Options<'_>) -> zbus::Result<Fields>;

    #[zbus(allow_interactive_auth)]
    fn write(&self, options: Options<'_>) -> zbus::Result<()>;
}

#[zbus::proxy(
    interface = "org.gated.Gated1.Policy",
    default_service = "org.gated.Gated1",
    default_path = "/org/gated/Gated1"
)]
pub trait Policy {
    fn explain(&self, session: &str, question: Options<'_>) -> zbus::Result<Vec<String>>;

    fn why(&self, filter: Options<'_>) -> zbus::Result<Vec<String>>;

    #[zbus(allow_interactive_auth)]
    fn install(&self, kind: &str, name: &str, text: &[u8], options: Options<'_>) -> zbus::Result<String>;
}

#[zbus::proxy(
    interface = "org.gated.Gated1.Grants",
    default_service = "org.gated.Gated1",
    default_path = "/org/gated/Gated1"
)]
pub trait Grants {
    #[zbus(allow_interactive_auth)]
    fn add_grant(&self, effect: &str, access: &str, pattern: Options<'_>, options: Options<'_>)
    -> zbus::Result<Fields>;

    #[zbus(allow_interactive_auth)]
    fn list_stored(&self, filter: Options<'_>) -> zbus::Result<Vec<Fields>>;

    fn show(&self, grant: &str) -> zbus::Result<Fields>;

    #[zbus(allow_interactive_auth)]
    fn forget(&self, grant: &str) -> zbus::Result<()>;

    #[zbus(allow_interactive_auth)]
    fn history(&self, filter: Options<'_>) -> zbus::Result<Vec<Fields>>;
}

#[zbus::proxy(interface = "org.gated.Gated1.Session", default_service = "org.gated.Gated1")]
pub trait Session {
    #[zbus(allow_interactive_auth)]
    fn stop(&self, options: Options<'_>) -> zbus::Result<()>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn id(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn user(&self) -> zbus::Result<u32>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn profile(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn directory(&self) -> zbus::Result<Vec<u8>>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn state(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn started(&self) -> zbus::Result<u64>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn unit(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn calls(&self) -> zbus::Result<Vec<Fields>>;
}

#[zbus::proxy(interface = "org.gated.Gated1.Request", default_service = "org.gated.Gated1")]
pub trait Request {
    #[zbus(property(emits_changed_signal = "false"))]
    fn id(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn details(&self) -> zbus::Result<Fields>;
}
