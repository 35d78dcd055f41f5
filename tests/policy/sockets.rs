//! Verdicts on unix sockets, what is behind them, and how far answers about them reach.

use gated::common::access::{Access, Level};
use gated::common::decision::{Lifetime, Term, Width};
use gated::common::id::GrantId;
use gated::common::net::Service;
use gated::common::request::{Operation, Request};
use gated::policy::grants::offered_widths;
use gated::policy::sockets::Services;
use gated::policy::{Grant, Grants, Policy, Profile};

use super::sample::{CALL, bounds, path, profile, request};

const AGENT: &str = "/home/user/.agent.sock";

fn services() -> Services {
    Services::new(&path("/home/user"), 1000, Some(path(AGENT)))
}

fn of(text: &str) -> Option<Service> {
    services().of(&path(text))
}

pub fn said(policy: &Policy, socket: &str, grants: &Grants) -> (Level, String) {
    let verdict = policy.decide_unix(&path(socket), of(socket), CALL, grants);
    (verdict.level, policy.rule(&verdict).id)
}

fn asked(policy: &Policy, socket: &str) -> Request {
    let verdict = policy.decide_unix(&path(socket), of(socket), CALL, &Grants::new());
    Request {
        access: Access::Unix,
        operation: Operation::ConnectSocket,
        level: verdict.level,
        remember: policy.remember(&verdict),
        remember_for: policy.remember_for(&verdict),
        service: of(socket),
        ..request(socket, false, Lifetime::Session)
    }
}

fn answer(request: &Request, width: Width) -> Option<Grant> {
    Grant::from_answer(GrantId(1), request, width, Term::Session, "tty:user", &bounds(&path("/home/user"))).ok()
}

#[test]
fn services_are_known_by_where_their_sockets_are() {
    use Service::{Docker, GpgAgent, Journal, SessionBus, SshAgent, SystemBus, Wayland, X11};
    for (socket, service) in [
        ("/run/user/1000/bus", Some(SessionBus)),
        ("/run/user/1000/systemd/private", Some(SessionBus)),
        ("/run/user/1000/systemd/notify", Some(SessionBus)),
        ("/run/user/0/bus", Some(SessionBus)),
        ("/run/user/1000/at-spi/bus_0", Some(SessionBus)),
        ("/run/user/1000/keyring/control", Some(SessionBus)),
        ("/run/user/1000/keyring/ssh", Some(SshAgent)),
        ("/run/user/1000/ssh-agent.socket", Some(SshAgent)),
        ("/tmp/ssh-XXXXabc/agent.77", Some(SshAgent)),
        ("/home/user/.ssh/agent/s.abc", Some(SshAgent)),
        (AGENT, Some(SshAgent)),
        ("/run/user/1000/gnupg/S.gpg-agent", Some(GpgAgent)),
        ("/run/user/1000/gnupg/d.abc/S.gpg-agent.extra", Some(GpgAgent)),
        ("/run/user/1000/gnupg/S.gpg-agent.ssh", Some(SshAgent)),
        ("/home/user/.gnupg/S.gpg-agent", Some(GpgAgent)),
        ("/run/dbus/system_bus_socket", Some(SystemBus)),
        ("/var/run/dbus/system_bus_socket", Some(SystemBus)),
        ("/run/systemd/private", Some(SystemBus)),
        ("/run/systemd/resolve/io.systemd.Resolve", Some(SystemBus)),
        ("/run/systemd/journal/io.systemd.journal", Some(SystemBus)),
        ("/run/nscd/socket", Some(SystemBus)),
        ("/run/systemd/journal/stdout", Some(Journal)),
        ("/run/systemd/journal/dev-log", Some(Journal)),
        ("/dev/log", Some(Journal)),
        ("/tmp/.X11-unix/X0", Some(X11)),
        ("/run/user/1000/wayland-0", Some(Wayland)),
        ("/run/docker.sock", Some(Docker)),
        ("/var/run/docker.sock", Some(Docker)),
        ("/run/containerd/containerd.sock", Some(Docker)),
        ("/run/podman/podman.sock", Some(Docker)),
        ("/run/user/1000/podman/podman.sock", Some(Docker)),
        ("/run/user/1000/docker.sock", Some(Docker)),
        ("/run/libvirt/libvirt-sock", Some(Docker)),
        ("/var/lib/incus/unix.socket", Some(Docker)),
        ("/home/user/.docker/run/docker.sock", Some(Docker)),
        ("/run/postgresql/.s.PGSQL.5432", None),
        ("/home/user/project/dev.sock", None),
        ("/run/user/1000", None),
        ("/home/other/.gnupg/S.gpg-agent", None),
    ] {
        assert_eq!(of(socket), service, "{socket}");
    }
    // The environment makes no agent of a bus.
    let misled = Services::new(&path("/home/user"), 1000, Some(path("/run/user/1000/bus")));
    assert_eq!(misled.of(&path("/run/user/1000/bus")), Some(Service::SessionBus));
}

const RULES: &str = r#"
[[rule]]
id = "everything"
access = ["unix"]
socket = ["/**"]
level = "allow"

[[rule]]
id = "agents"
access = ["unix"]
socket = ["@ssh_agent", "@gpg_agent"]
level = "ask"
remember = "10m"

[[rule]]
id = "docker"
access = ["unix"]
socket = ["@docker", "@abstract/secret"]
level = "deny"
reason = "Root."

[[rule]]
id = "db"
access = ["unix"]
socket = ["/run/postgresql/**"]
except = ["/run/postgresql/.s.PGSQL.5433"]
level = "authenticate"
"#;

#[test]
fn no_file_opens_what_leads_out_of_a_session() {
    use Level::{Allow, Ask, Authenticate, Deny};
    let policy = Policy::new(&profile(RULES));
    for (socket, level, rule) in [
        ("/run/user/1000/bus", Deny, "built-in:services"),
        ("/run/dbus/system_bus_socket", Deny, "built-in:services"),
        ("/tmp/.X11-unix/X0", Deny, "built-in:services"),
        ("/run/docker.sock", Deny, "docker"),
        ("/run/gated/supervisors.sock", Deny, "built-in:gated-files"),
        ("/run/user/1000/gnupg/S.gpg-agent", Ask, "agents"),
        (AGENT, Ask, "agents"),
        ("/run/postgresql/.s.PGSQL.5432", Authenticate, "db"),
        ("/run/postgresql/.s.PGSQL.5433", Allow, "everything"),
        ("/srv/x.sock", Allow, "everything"),
        ("/run/user/1000/wayland-0", Allow, "everything"),
    ] {
        assert_eq!(said(&policy, socket, &Grants::new()), (level, rule.to_owned()), "{socket}");
    }
    let silent = Policy::new(&profile(""));
    assert_eq!(said(&silent, "/srv/x.sock", &Grants::new()), (Ask, "default".to_owned()));
    let verdict = silent.decide_unix(&path("/run/docker.sock"), Some(Service::Docker), CALL, &Grants::new());
    assert_eq!(silent.rule(&verdict).reason.as_deref(), Some(Service::Docker.meaning()));
}

#[test]
fn an_answer_to_a_socket_is_for_what_was_shown() {
    let policy = Policy::new(&profile(""));
    let home = path("/home/user");
    let mut grants = Grants::new();
    let db = asked(&policy, "/run/postgresql/.s.PGSQL.5432");
    assert_eq!(offered_widths(&db, &home), [Width::Exact, Width::Directory]);
    assert!(grants.add(answer(&db, Width::Directory).unwrap()));
    let level = |grants: &Grants, socket: &str| said(&policy, socket, grants).0;
    assert_eq!(level(&grants, "/run/postgresql/.s.PGSQL.5432"), Level::Allow);
    assert_eq!(level(&grants, "/run/postgresql/other"), Level::Allow);
    assert_eq!(level(&grants, "/run/postgresql/a/b"), Level::Ask);
    // The same path as another kind of socket is another thing.
    let verdict = policy.decide_unix(&path("/run/postgresql/x"), Some(Service::SshAgent), CALL, &grants);
    assert_eq!(verdict.level, Level::Ask);
    // A yes to a socket is no yes to change the file, and the other way round.
    assert_eq!(policy.decide(Access::Write, &path("/run/postgresql/other"), CALL, &grants).level, Level::Ask);
    let mut files = Grants::new();
    let file = request("/run/postgresql/.s.PGSQL.5432", false, Lifetime::Session);
    files.add(answer(&file, Width::Exact).unwrap());
    assert_eq!(level(&files, "/run/postgresql/.s.PGSQL.5432"), Level::Ask);
    for socket in ["/run/x.sock", "/tmp/x.sock", "/run/user/1000/x.sock", "/home/user/x.sock", "/x.sock", AGENT] {
        assert_eq!(offered_widths(&asked(&policy, socket), &home), [Width::Exact], "{socket}");
    }
}

#[test]
fn an_agent_is_given_for_a_time() {
    let policy = Policy::new(&profile(RULES));
    let grant = answer(&asked(&policy, AGENT), Width::Exact).unwrap();
    assert!(grant.until.is_some());
    let mut grants = Grants::new();
    assert!(grants.add(grant));
    assert_eq!(said(&policy, AGENT, &grants).0, Level::Allow);
    assert_eq!(said(&policy, "/run/user/1000/gnupg/S.gpg-agent.ssh", &grants).0, Level::Ask, "another agent");
}

#[test]
fn names_on_the_bus_add_up() {
    let own: Profile = profile(
        "[dbus]\nsession = [\"org.freedesktop.Notifications\", \"org.kde.*\"]\nsystem = [\"org.freedesktop.hostname1\"]\n",
    );
    assert_eq!(own.bus_names.session, ["org.freedesktop.Notifications", "org.kde.*"]);
    assert_eq!(own.bus_names.system, ["org.freedesktop.hostname1"]);
}
