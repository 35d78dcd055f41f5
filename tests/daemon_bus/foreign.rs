//! Callers that are somebody else, or inside a session: they see nothing, change nothing and hear nothing. Needs root.

use std::collections::HashMap;

use futures_util::StreamExt;
use gated::common::access::Level;
use gated::common::bus::{
    MANAGER_INTERFACE, MANAGER_PATH, REQUEST_INTERFACE, REQUESTS_PATH, SESSION_INTERFACE, SESSIONS_PATH, action,
};
use gated::common::decision::Outcome;
use gated::common::wire::FromSession;
use gated::policy::Grant;
use zbus::{OwnedObjectPath, OwnedVariant, Variant};

use super::support::system_bus::{Bus, Peer};
use super::world::*;

/// Users that every system has: whose the sessions are, and somebody else.
pub const OWNER: (&str, u32) = ("daemon", 1);
const STRANGER: (&str, u32) = ("nobody", 65534);

async fn join(bus: &Bus, how: &[&str], uid: u32) -> (Client, Peer) {
    let mut peer = bus.connect_as(how, "").await;
    (Client(peer.speak(uid).await), peer)
}

/// A process of this user, with the groups that the user has.
pub async fn user(bus: &Bus, (name, uid): (&str, u32)) -> (Client, Peer) {
    let gid = format!("--regid={}", if uid == OWNER.1 { "daemon" } else { "nogroup" });
    join(bus, &["setpriv", &format!("--reuid={name}"), &gid, "--init-groups"], uid).await
}

#[test]
fn another_user_sees_hears_and_changes_nothing() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let (stranger, _stranger) = user(&bus, STRANGER).await;
        // Everything that the stranger is sent.
        let mut heard = zbus::MessageStream::from(&stranger.0);
        for rule in ["type='signal'", "eavesdrop='true'", "type='signal',path_namespace='/org/gated'"] {
            let (bus, body) = (Some("org.freedesktop.DBus"), (rule,));
            let added = stranger.0.call_method(bus, "/org/freedesktop/DBus", bus, "AddMatch", &body);
            // A bus may refuse to let anybody eavesdrop.
            let _ = within(added).await;
        }
        let mut supervisor = world.session(&owner, "").await;
        let mut strangers_agent = stranger.agent(Options::new()).await;
        let mut agent = owner.agent(Options::new()).await;
        supervisor.ask(1, "/srv/secret").await;
        let reply = agent.asked(1).await;
        owner.waits_at(1).await;
        assert_eq!(owner.managed().await.unwrap().len(), 2);

        assert!(stranger.managed().await.unwrap().is_empty());
        for name in ["Sessions", "PendingRequests"] {
            let list = stranger.property(MANAGER_PATH, MANAGER_INTERFACE, name).await.unwrap();
            assert!(Vec::<OwnedObjectPath>::try_from(list).unwrap().is_empty(), "{name}");
        }
        let session = format!("{SESSIONS_PATH}/{}", supervisor.session);
        let request = format!("{REQUESTS_PATH}/1");
        let denied = "org.freedesktop.DBus.Error.AccessDenied";
        for name in ["Id", "User", "Profile", "Directory", "State", "Started", "Unit", "Calls"] {
            assert_eq!(refusal(stranger.property(&session, SESSION_INTERFACE, name).await), denied, "{name}");
        }
        for name in ["Id", "Details"] {
            assert_eq!(refusal(stranger.property(&request, REQUEST_INTERFACE, name).await), denied, "{name}");
        }
        for (path, interface) in [(&session, SESSION_INTERFACE), (&request, REQUEST_INTERFACE)] {
            let all = stranger.call(path, "org.freedesktop.DBus.Properties", "GetAll", &(interface,)).await;
            let all = all.and_then(|all| all.body().deserialize::<HashMap<String, OwnedVariant>>());
            assert!(all.as_ref().map_or(true, HashMap::is_empty), "{all:?}");
            let told = stranger.call(path, "org.freedesktop.DBus.Introspectable", "Introspect", &()).await.unwrap();
            let text: String = told.body().deserialize().unwrap();
            assert!(!text.contains("secret") && !text.contains(&format!("{:032x}", 1)), "{text}");
        }

        let only = || HashMap::from([("session", Variant::from(supervisor.session.0.clone()))]);
        for method in ["ListGrants", "Watch"] {
            assert_eq!(refusal(stranger.manager(method, &(only(),)).await), "NotAuthorized", "{method}");
        }
        let all = || HashMap::from([("all", Variant::from(true))]);
        assert_eq!(refusal(stranger.manager("Watch", &(all(),)).await), "NotAuthorized");
        assert_eq!(refusal(stranger.manager("Reload", &(Options::new(),)).await), "NotAuthorized");
        assert_eq!(refusal(stranger.stop(&supervisor.session).await), "NotAuthorized");
        for word in ["deny", "once", "session"] {
            assert_eq!(refusal(stranger.decide(1, word).await), "NotAuthorized", "{word}");
        }
        let mut query = only();
        query.extend([("access", Variant::from("write")), ("object", Variant::from(b"/x".to_vec()))]);
        assert_eq!(refusal(stranger.manager("Explain", &(query,)).await), "NotAuthorized");
        let mut as_owner = opening();
        as_owner.insert("user", Variant::from(OWNER.0));
        assert_eq!(refusal(stranger.manager("OpenSession", &(as_owner,)).await), "NotAuthorized");
        let file = tempfile::tempfile().unwrap();
        let fd = || zbus::Fd::from(std::os::fd::AsFd::as_fd(&file));
        let mut into = only();
        into.insert("directory", Variant::from(b"/work".to_vec()));
        let body = (vec![b"true".to_vec()], vec![b"A=b".to_vec()], fd(), vec![fd(), fd(), fd()], fd(), into);
        assert_eq!(refusal(stranger.manager("Run", &body).await), "NoSuchSession");

        reply.send(said("session")).unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, decision.by.as_str()), (Outcome::Approved, "agent:daemon"));
        let grant = Grant::decode(&decision.grant.unwrap()).unwrap().id.to_string();
        assert_eq!(refusal(stranger.manager("RevokeGrant", &(&*grant, Options::new())).await), "NotAuthorized");
        let revoked: u32 = stranger.manager("RevokeGrant", &("", all())).await.unwrap().body().deserialize().unwrap();
        assert_eq!(revoked, 0);
        owner.stop(&supervisor.session).await.unwrap();
        drop(supervisor);
        world.until("the end", |core| core.sessions.borrow().is_empty()).await;

        // Replies to its own calls, and what the bus says of names; nothing of gated's.
        assert!(strangers_agent.is_left_alone());
        let _last = stranger.managed().await;
        while let Ok(Some(Ok(message))) = tokio::time::timeout(std::time::Duration::from_millis(50), heard.next()).await
        {
            let header = message.header();
            let of_bus = header.interface().is_some_and(|name| name.as_str() == "org.freedesktop.DBus");
            let is_reply = header.reply_serial().is_some();
            assert!(of_bus || is_reply, "{message:?}");
        }
    });
}

#[test]
fn root_may_and_for_whom_the_ceiling_does_not_name_nothing_starts() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        world.policy("ceiling.toml", "schema = 1\n[users]\nmay_run = [\"daemon\"]\n");
        let root = world.connect().await;
        root.manager("Reload", &(Options::new(),)).await.unwrap();
        world.policy("profiles/team.toml", "nonsense");
        match root.manager("Reload", &(Options::new(),)).await {
            Err(zbus::Error::MethodError(name, Some(text), _)) => {
                assert_eq!(name.as_str(), "org.gated.Gated1.Error.Policy");
                assert!(text.starts_with("/etc/gated/profiles/team.toml:1:"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        let (owner, _owner) = user(&bus, OWNER).await;
        let (stranger, _stranger) = user(&bus, STRANGER).await;
        assert_eq!(refusal(stranger.manager("OpenSession", &(opening(),)).await), "NotPermitted");
        let mut supervisor = world.session(&owner, "").await;
        supervisor.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        let mut agent = root.agent(Options::new()).await;
        root.decide(1, "session").await.unwrap();
        assert_eq!(supervisor.decided().await.by, "agent:root");
        assert!(agent.is_left_alone(), "root is asked for its own sessions only");
        root.stop(&supervisor.session).await.unwrap();
        // A session of root's for somebody whom the ceiling does not name is not started either.
        let mut for_nobody = opening();
        for_nobody.insert("user", Variant::from(STRANGER.0));
        assert_eq!(refusal(root.manager("OpenSession", &(for_nobody,)).await), "NotPermitted");
    });
}

#[test]
fn where_a_rule_names_a_group_its_members_answer_and_nobody_else() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let (member, _member) = user(&bus, STRANGER).await;
        let mut owners = owner.agent(Options::new()).await;
        let mut members = member.agent(Options::new()).await;
        let mut supervisor = world.session(&owner, "").await;
        let mut request = supervisor.request(1, "/srv/x");
        request.group = Some("nogroup".into());
        supervisor.send(FromSession::Ask(Box::new(request))).await;
        let _open = members.asked(1).await;
        assert!(owners.is_left_alone());
        member.waits_at(1).await;
        assert_eq!(member.managed().await.unwrap(), [format!("{REQUESTS_PATH}/1")], "the request, and not the session");
        assert_eq!(refusal(owner.decide(1, "once").await), "NotAuthorized");
        member.decide(1, "once").await.unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, decision.by.as_str()), (Outcome::Approved, "agent:nobody"));
    });
}

#[test]
fn a_sensitive_yes_needs_more_than_a_click() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let mut agent = owner.agent(Options::new()).await;
        let mut supervisor = world.session(&owner, "").await;
        let ask = async |supervisor: &mut Supervisor, id: u128| {
            let mut request = supervisor.request(id, &format!("/srv/{id}"));
            request.level = Level::Authenticate;
            supervisor.send(FromSession::Ask(Box::new(request))).await;
        };
        // There is no polkit, so nobody but root proves anything.
        ask(&mut supervisor, 1).await;
        agent.asked(1).await.send(said("session")).unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        ask(&mut supervisor, 2).await;
        let _open = agent.asked(2).await;
        assert_eq!(refusal(owner.decide(2, "once").await), "NotAuthorized");
        let root = world.connect().await;
        root.decide(2, "session").await.unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, decision.authenticated), (Outcome::Approved, true));
        // A no needs no proof.
        ask(&mut supervisor, 3).await;
        assert!(matches!(agent.next().await, Told::Cancel(2)));
        let _open = agent.asked(3).await;
        owner.decide(3, "deny").await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
    });
}

#[test]
fn polkit_lets_who_it_names_and_nobody_else() {
    run(async {
        let bus = Bus::start();
        let rules = format!(
            "polkit.addRule(function(action, subject) {{ if (subject.user == '{}' && action.id != '{}') return polkit.Result.YES; }});",
            STRANGER.0,
            action::EDIT_POLICY
        );
        let actions =
            [action::ANSWER_FOR_OTHERS, action::MANAGE_SESSIONS, action::EDIT_POLICY, action::GRANT_SENSITIVE];
        let _polkitd = bus.start_polkit(&actions.map(|action| (action, "no")), &rules);
        bus.wait_for("org.freedesktop.PolicyKit1").await;
        let world = World::start(&bus.address).await;
        let (owner, _owner) = user(&bus, OWNER).await;
        let (admin, _admin) = user(&bus, STRANGER).await;
        let features = owner.property(MANAGER_PATH, MANAGER_INTERFACE, "Features").await.unwrap();
        assert_eq!(Vec::<String>::try_from(features).unwrap(), ["simulated", "polkit"]);
        let mut supervisor = world.session(&owner, "").await;
        let mut request = supervisor.request(1, "/srv/x");
        request.level = Level::Authenticate;
        supervisor.send(FromSession::Ask(Box::new(request))).await;
        world.until("a request", |core| waiting(core) == 1).await;
        assert_eq!(refusal(owner.decide(1, "once").await), "NotAuthorized");
        // Needs two of them.
        admin.decide(1, "once").await.unwrap();
        let decision = supervisor.decided().await;
        assert_eq!((decision.outcome, decision.authenticated), (Outcome::Approved, true));
        assert_eq!(refusal(admin.manager("Reload", &(Options::new(),)).await), "NotAuthorized");
        let all = HashMap::from([("all", Variant::from(true))]);
        admin.manager("Watch", &(all,)).await.unwrap();
        admin.stop(&supervisor.session).await.unwrap();
    });
}

#[test]
fn whoever_is_inside_a_session_is_refused_even_as_root() {
    run(async {
        let bus = Bus::start();
        let world = World::start(&bus.address).await;
        let root = world.connect().await;
        let mut supervisor = world.session(&root, "").await;
        supervisor.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        let (inside, _inside) = join(&bus, &["unshare", "--pid", "--fork", "--kill-child"], 0).await;
        let none = || (Options::new(),);
        assert_eq!(refusal(inside.decide(1, "session").await), "InsideSession");
        assert_eq!(refusal(inside.manager("OpenSession", &(opening(),)).await), "InsideSession");
        for method in ["RegisterAgent", "ListGrants", "Watch", "Reload"] {
            assert_eq!(refusal(inside.manager(method, &none()).await), "InsideSession", "{method}");
        }
        let all = HashMap::from([("all", Variant::from(true))]);
        assert_eq!(refusal(inside.manager("RevokeGrant", &("", all)).await), "InsideSession");
        assert_eq!(refusal(inside.stop(&supervisor.session).await), "InsideSession");
        let file = tempfile::tempfile().unwrap();
        let fd = || zbus::Fd::from(std::os::fd::AsFd::as_fd(&file));
        let body = (vec![b"true".to_vec()], vec![b"A=b".to_vec()], fd(), vec![fd(), fd(), fd()], fd(), opening());
        assert_eq!(refusal(inside.manager("Run", &body).await), "InsideSession");
        let mut query = opening();
        query.clear();
        query.insert("session", Variant::from(supervisor.session.0.clone()));
        query.extend([("access", Variant::from("write")), ("object", Variant::from(b"/x".to_vec()))]);
        assert_eq!(refusal(inside.manager("Explain", &(query,)).await), "InsideSession");
        assert!(inside.managed().await.is_err());
        assert!(world.core.agents.is_empty());
        assert_eq!(waiting(&world.core), 1);
        root.decide(1, "deny").await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
    });
}
