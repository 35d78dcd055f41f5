//! What the built-in profile for services promises, and one that extends it.

use gated::common::access::{Access, Level};
use gated::common::net::{Destination, Transport};
use gated::policy::model::NoConsentAgent;
use gated::policy::network::Reaching;
use gated::policy::{Grants, Policy};

use super::sample::{CALL, Files, command, path};

fn level(policy: &Policy, access: Access, object: &str) -> Level {
    match access {
        Access::Unix => policy.decide_unix(&path(object), None, CALL, &Grants::new()).level,
        _ => policy.decide(access, &path(object), CALL, &Grants::new()).level,
    }
}

#[test]
fn all_that_nobody_named_is_denied_to_a_service() {
    let profile = Files::default().load("service-base").unwrap();
    assert_eq!(profile.prompt.no_consent_agent, NoConsentAgent::Deny);
    let policy = Policy::new(&profile);
    for free in
        ["/", "/usr/lib/x.so", "/etc/passwd", "/etc/ssl/certs/x.pem", "/proc/1/stat", "/dev/null", "/lib64/ld.so"]
    {
        assert_eq!(level(&policy, Access::Read, free), Level::Allow, "{free}");
    }
    for shut in [
        "/etc/shadow",
        "/etc/ssl/private/x",
        "/etc/gated/ceiling.toml",
        "/home/user/x",
        "/var/lib/x",
        "/srv/x",
        "/boot/x",
    ] {
        assert_eq!(level(&policy, Access::Read, shut), Level::Deny, "{shut}");
    }
    for shut in ["/usr/lib/x", "/etc/passwd", "/var/lib/x", "/srv/x", "/home/user/project/x"] {
        assert_eq!(level(&policy, Access::Write, shut), Level::Deny, "{shut}");
    }
    assert_eq!(level(&policy, Access::Unix, "/run/x"), Level::Deny);
    assert_eq!(policy.decide_exec(&command("sh -c x"), CALL, &Grants::new()).level, Level::Deny);
    let destination = Destination::address("192.0.2.1:443".parse().unwrap(), Transport::Tcp, Vec::new());
    let reaching = Reaching { destination: &destination, program: &|| None };
    assert_eq!(policy.decide_connect(&reaching, CALL, &Grants::new()).level, Level::Deny);
    assert_eq!(policy.decide_bind(&reaching, CALL, &Grants::new()).level, Level::Deny);
}

#[test]
fn a_profile_says_where_its_service_keeps_its_state() {
    let text =
        "schema = 1\n[profile]\nname = \"own\"\nextends = [\"service-base\"]\n[vars]\nstate = \"/var/lib/own\"\n";
    let files = Files::default().with("/etc/gated/profiles/own.toml", text);
    let policy = Policy::new(&files.load("own").unwrap());
    for access in [Access::Read, Access::Write] {
        assert_eq!(level(&policy, access, "/var/lib/own/db"), Level::Allow);
        assert_eq!(level(&policy, access, "/var/lib/other"), Level::Deny);
    }
}
