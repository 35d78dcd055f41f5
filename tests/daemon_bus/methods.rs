//! Every method's good way, and each way that it is refused which needs no other user.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;

use gated::common::bus::{MANAGER_INTERFACE, MANAGER_PATH, SESSION_INTERFACE, SESSIONS_PATH};
use gated::common::decision::Outcome;
use gated::common::id::CallId;
use gated::common::wire::{Ended, Ends, FromSession, ToSession};
use gated::daemon::agents::{self, Reach};
use zbus::{Fd, OwnedObjectPath, OwnedVariant, Variant};

use super::world::*;

#[test]
fn a_session_is_opened_shown_and_stopped() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut options = opening();
        options.extend([
            ("profile", Variant::from("own")),
            ("profiles", own("")),
            ("home", Variant::from(b"/h".to_vec())),
        ]);
        let body = (options,);
        let (opened, (mut supervisor, launch)) = tokio::join!(client.manager("OpenSession", &body), async {
            let mut supervisor = world.supervisor().await;
            let launch = supervisor.build().await;
            (supervisor, launch)
        });
        let (id, path): (String, OwnedObjectPath) = opened.unwrap().body().deserialize().unwrap();
        assert_eq!(path.as_str(), format!("{SESSIONS_PATH}/{id}"));
        assert_eq!((launch.session.0.as_str(), launch.ends), (id.as_str(), Ends::WhenStopped));
        assert_eq!((launch.directory.as_bytes(), launch.home.unwrap().as_bytes()), (&b"/work"[..], &b"/h"[..]));
        let rendezvous = launch.rendezvous.unwrap();
        assert_eq!(
            rendezvous.socket.as_bytes(),
            world.place.path().join("supervisors.sock").as_os_str().as_encoded_bytes()
        );
        // No session changes what is gated's own.
        let profile = gated::policy::Profile::decode(&launch.profile).unwrap();
        assert!(profile.protected.iter().any(|path| path.as_bytes() == b"/gateds-own"));

        let argv = ["tool", "--token", "abc"].map(gated::common::text::Untrusted::new).to_vec();
        supervisor.send(FromSession::CallStarted { call: CallId(1), pid: 7, program: "/bin/t".into(), argv }).await;
        world.until("the call", |core| core.sessions.borrow().values().any(|live| !live.calls().is_empty())).await;
        let get = async |name: &str| client.property(path.as_str(), SESSION_INTERFACE, name).await.unwrap();
        let text = async |name: &str| String::try_from(get(name).await).unwrap();
        assert_eq!(
            (text("Id").await, text("Profile").await, text("State").await),
            (id, "own".into(), "running".into())
        );
        assert_eq!(text("Unit").await, "");
        assert_eq!(u32::try_from(get("User").await).unwrap(), rustix::process::getuid().as_raw());
        assert_eq!(Vec::<u8>::try_from(get("Directory").await).unwrap(), b"/work");
        assert!(u64::try_from(get("Started").await).unwrap() > 1_600_000_000_000_000);
        let calls = Vec::<HashMap<String, OwnedVariant>>::try_from(get("Calls").await).unwrap();
        let argv = Vec::<Vec<u8>>::try_from(calls[0]["argv"].try_clone().unwrap()).unwrap();
        assert_eq!(argv.last().unwrap(), b"***", "a secret is masked");
        assert_eq!(client.managed().await.unwrap(), [path.as_str()]);
        let sessions = client.property(MANAGER_PATH, MANAGER_INTERFACE, "Sessions").await.unwrap();
        assert_eq!(Vec::<OwnedObjectPath>::try_from(sessions).unwrap(), [path]);

        supervisor.send(FromSession::CallEnded { call: CallId(1), ended: Ended::Exited(0) }).await;
        client.stop(&supervisor.session).await.unwrap();
        assert_eq!(supervisor.message().await, ToSession::Stop);
        let session = supervisor.session.clone();
        drop(supervisor);
        world.until("the session's end", |core| core.sessions.borrow().is_empty()).await;
        assert_eq!(*world.killed.borrow(), std::slice::from_ref(&session), "what may be left is killed");
        assert!(client.managed().await.unwrap().is_empty());
        assert_eq!(
            refusal(client.manager("ListGrants", &(HashMap::from([("session", Variant::from(session.0))]),)).await),
            "NoSuchSession"
        );
    });
}

#[test]
fn a_supervisor_that_does_not_listen_is_stopped_all_the_same() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let supervisor = world.session(&client, "").await;
        client.stop(&supervisor.session).await.unwrap();
        world.until("the session's end", |core| core.sessions.borrow().is_empty()).await;
        assert_eq!(world.killed.borrow().len(), 1);
    });
}

/// Arguments of `Run` for a file as everything.
pub fn order<'a>(file: &'a File, options: Options<'a>) -> impl serde::Serialize + zbus::wire::DynamicType {
    let fd = || Fd::from(file.as_fd());
    (vec![b"true".to_vec()], vec![b"A=b".to_vec()], fd(), vec![fd(), fd(), fd()], fd(), options)
}

#[test]
fn a_command_goes_to_its_supervisor_with_its_descriptors() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"mark").unwrap();
        let mut options = opening();
        options.extend([("profile", Variant::from("own")), ("profiles", own("")), ("umask", Variant::from(0o27_u32))]);
        options.extend([("events", Variant::from(true)), ("window", Variant::from((25_u16, 80_u16)))]);
        options.insert("on-terminal", Variant::from(vec![true, false, true]));
        let body = order(&file, options);
        let (ran, mut supervisor) = tokio::join!(client.manager("Run", &body), async {
            let mut supervisor = world.supervisor().await;
            assert_eq!(supervisor.build().await.ends, Ends::WithFirstCall);
            supervisor
        });
        let ran = ran.unwrap();
        let (id, mut results): (String, HashMap<String, OwnedVariant>) = ran.body().deserialize().unwrap();
        let (ToSession::Start(start), fds) = within(supervisor.receive()).await.unwrap() else { panic!("a start") };
        assert_eq!((start.command, start.environment), (vec![b"true".to_vec()], vec![b"A=b".to_vec()]));
        assert_eq!((start.umask, start.on_terminal, start.cwd.as_bytes()), (0o27, [true, false, true], &b"/work"[..]));
        assert_eq!(start.window.map(|size| (size.rows, size.columns)), Some((25, 80)));
        assert_eq!(fds.len(), 5);
        for fd in fds {
            let (mut file, mut text) = (File::from(fd), String::new());
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "mark");
        }
        // A further one, into the session that runs.
        let further =
            HashMap::from([("session", Variant::from(id.clone())), ("directory", Variant::from(b"/w2".to_vec()))]);
        let ran = client.manager("Run", &order(&file, further)).await.unwrap();
        let (same, none): (String, HashMap<String, OwnedVariant>) = ran.body().deserialize().unwrap();
        assert_eq!((same, none.len()), (id, 0));
        assert!(matches!(supervisor.message().await, ToSession::Start(start) if start.cwd.as_bytes() == b"/w2"));

        // The events of the session, until it ends.
        supervisor.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        client.decide(1, "deny").await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        drop(supervisor);
        let events: Fd<'static> = results.remove("events").unwrap().try_into().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            File::from(std::os::fd::OwnedFd::try_from(events).unwrap()).read_to_string(&mut text).unwrap();
            text
        });
        let text = within(read).await.unwrap();
        let names: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["consent_required", "consent_decided"]);
    });
}

#[test]
fn what_a_call_does_not_know_is_refused() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let supervisor = world.session(&client, "").await;
        let file = tempfile::tempfile().unwrap();
        let with = |mut options: Options<'static>, key: &'static str| {
            options.insert(key, Variant::from(1_u32));
            options
        };
        let odd = || with(Options::new(), "colour");
        assert_eq!(refusal(client.manager("OpenSession", &(with(opening(), "colour"),)).await), "InvalidOption");
        assert_eq!(refusal(client.manager("Run", &order(&file, with(opening(), "colour"))).await), "InvalidOption");
        for method in ["RegisterAgent", "ListGrants", "Watch", "Reload", "Explain"] {
            assert_eq!(refusal(client.manager(method, &(odd(),)).await), "InvalidOption", "{method}");
        }
        assert_eq!(refusal(client.manager("RevokeGrant", &("", odd())).await), "InvalidOption");
        let path = format!("{SESSIONS_PATH}/{}", supervisor.session);
        assert_eq!(refusal(client.call(&path, SESSION_INTERFACE, "Stop", &(odd(),)).await), "InvalidOption");
        assert_eq!(refusal(client.manager("Decide", &(format!("{:032x}", 1), "once", odd())).await), "InvalidArgument");
        // Known, and of another type or shape.
        for key in ["profile", "directory", "home", "profiles", "user", "publish", "ssh-agent", "learn"] {
            assert_eq!(
                refusal(client.manager("OpenSession", &(with(opening(), key),)).await),
                "InvalidOption",
                "{key}"
            );
        }
        for path in ["", "work", "/work/", "/a/../b", "/a//b", "/./a", "/a\0b"] {
            let options = HashMap::from([("directory", Variant::from(path.as_bytes().to_vec()))]);
            assert_eq!(refusal(client.manager("OpenSession", &(options,)).await), "InvalidOption", "{path:?}");
        }
        for socket in ["", "agent", "/tmp/../agent", "/tmp/a\0b"] {
            let mut options = opening();
            options.insert("ssh-agent", Variant::from(socket.as_bytes().to_vec()));
            assert_eq!(refusal(client.manager("OpenSession", &(options,)).await), "InvalidOption", "{socket:?}");
        }
        let many = vec!["127.0.0.1:3000".to_owned(); 65];
        let one = |text: &str| vec![text.to_owned()];
        for texts in [
            many,
            one(""),
            one("3000"),
            one("127.0.0.1:0"),
            one("127.0.0.1:3000 "),
            one("127.0.0.1:03000"),
            one("[::ffff:127.0.0.1]:3000"),
            one("[fe80::1%2]:3000"),
            one("[::0]:3000"),
            one("localhost:3000"),
        ] {
            let mut options = opening();
            let told = format!("{texts:?}");
            options.insert("publish", Variant::from(texts));
            assert_eq!(refusal(client.manager("OpenSession", &(options,)).await), "InvalidOption", "{told}");
        }
        for (key, value) in [("on-terminal", Variant::from(vec![true])), ("umask", Variant::from("22"))] {
            let mut options = opening();
            options.insert(key, value);
            assert_eq!(refusal(client.manager("Run", &order(&file, options)).await), "InvalidOption", "{key}");
        }
        for kind in ["", "Desk top", "a-name-of-more-than-thirty-two-letters"] {
            let options = HashMap::from([("kind", Variant::from(kind))]);
            assert_eq!(refusal(client.manager("RegisterAgent", &(options,)).await), "InvalidOption", "{kind:?}");
        }
        // Without a descriptor for each, a word, or with one that cannot be executed.
        let fd = || Fd::from(file.as_fd());
        let none: Vec<Vec<u8>> = Vec::new();
        let two = (vec![b"true".to_vec()], none.clone(), fd(), vec![fd(), fd()], fd(), opening());
        assert_eq!(refusal(client.manager("Run", &two).await), "InvalidArgument");
        for argv in [Vec::new(), vec![b"a\0b".to_vec()]] {
            let body = (argv, none.clone(), fd(), vec![fd(), fd(), fd()], fd(), opening());
            assert_eq!(refusal(client.manager("Run", &body).await), "InvalidArgument");
        }
        assert!(client.manager("Nonsense", &()).await.is_err());
        assert_eq!(world.core.sessions.borrow().len(), 1);
    });
}

#[test]
fn published_addresses_are_grants_from_the_start() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut options = opening();
        options.extend([
            ("profile", Variant::from("own")),
            ("profiles", own("")),
            ("publish", Variant::from(["127.0.0.1:3000", "[::1]:3000", "127.0.0.1:3000"].map(str::to_owned).to_vec())),
            ("ssh-agent", Variant::from(b"/tmp/ssh-x/agent.1".to_vec())),
        ]);
        let body = (options,);
        let (opened, (_supervisor, launch)) = tokio::join!(client.manager("OpenSession", &body), async {
            let mut supervisor = world.supervisor().await;
            let launch = supervisor.build().await;
            (supervisor, launch)
        });
        opened.unwrap();
        let addresses: Vec<String> = launch.publish.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1:3000", "[::1]:3000"]);
        assert_eq!(launch.ssh_agent.unwrap().as_bytes(), b"/tmp/ssh-x/agent.1");
        let listed = client.manager("ListGrants", &(Options::new(),)).await.unwrap();
        let grants: Vec<HashMap<String, OwnedVariant>> = listed.body().deserialize().unwrap();
        let text =
            |row: &HashMap<String, OwnedVariant>, key: &str| String::try_from(row[key].try_clone().unwrap()).unwrap();
        for (row, published) in grants.iter().zip(&launch.publish) {
            assert_eq!((text(row, "id"), text(row, "access")), (published.grant.to_string(), "bind".into()));
            assert_eq!(text(row, "lifetime"), "session");
            assert!(text(row, "by").starts_with("gated-run:"), "{row:?}");
        }
        assert_eq!(grants.len(), 2);
    });
}

#[test]
fn what_a_rule_denies_is_not_published() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let refused = async |profile: &str| {
            let mut options = opening();
            options.extend([
                ("profile", Variant::from("own")),
                ("profiles", own(profile)),
                ("publish", Variant::from(vec!["127.0.0.1:3000".to_owned()])),
            ]);
            match client.manager("OpenSession", &(options,)).await {
                Err(zbus::Error::MethodError(name, detail, _)) => (name.to_string(), detail.unwrap_or_default()),
                other => panic!("{other:?}"),
            }
        };
        let rule = |level: &str| {
            let terms = "id = \"servers\"\naccess = [\"bind\"]\ncidr = [\"127.0.0.0/8\"]\nport = \"3000-3999\"";
            format!("[[rule]]\n{terms}\nlevel = \"{level}\"\n")
        };
        for (profile, word) in [
            (rule("deny"), "rule servers of profile own"),
            (rule("authenticate"), "asks for a proof"),
            ("[defaults]\nbind = \"deny\"\n".to_owned(), "rule default of profile own"),
        ] {
            let (name, detail) = refused(&profile).await;
            assert_eq!(name, "org.gated.Gated1.Error.Policy", "{profile}");
            assert!(detail.contains("--publish 127.0.0.1:3000: ") && detail.contains(word), "{detail}");
        }
        assert!(world.core.sessions.borrow().is_empty());
    });
}

#[test]
fn each_refusal_has_its_name() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let none = Options::new;
        let session = |id: &'static str| HashMap::from([("session", Variant::from(id))]);
        let file = tempfile::tempfile().unwrap();
        let mut absent = session("00000000");
        absent.insert("directory", Variant::from(b"/work".to_vec()));
        assert_eq!(refusal(client.manager("Run", &order(&file, absent)).await), "NoSuchSession");
        for method in ["RegisterAgent", "ListGrants", "Watch"] {
            assert_eq!(refusal(client.manager(method, &(session("00000000"),)).await), "NoSuchSession", "{method}");
            for odd in ["", "0000000", "0000000G", "../00000", "00000000\n"] {
                assert_eq!(refusal(client.manager(method, &(session(odd),)).await), "InvalidArgument", "{method}");
            }
        }
        assert_eq!(refusal(client.decide(7, "deny").await), "NoSuchRequest");
        for (id, word) in [("7", "deny"), (&*format!("{:032X}", 10), "deny"), (&*format!("{:032x}", 7), "maybe")] {
            assert_eq!(refusal(client.manager("Decide", &(id, word, none())).await), "InvalidArgument");
        }
        assert_eq!(refusal(client.manager("RevokeGrant", &("0000000000000001", none())).await), "NoSuchGrant");
        let all = || HashMap::from([("all", Variant::from(true))]);
        assert_eq!(refusal(client.manager("RevokeGrant", &("0000000000000001", all())).await), "InvalidArgument");
        assert_eq!(refusal(client.manager("RevokeGrant", &("", none())).await), "InvalidArgument");
        let revoked: u32 = client.manager("RevokeGrant", &("", all())).await.unwrap().body().deserialize().unwrap();
        assert_eq!(revoked, 0);

        let with = |key: &'static str, value: Variant<'static>| {
            let mut options = opening();
            options.insert(key, value);
            options
        };
        assert_eq!(refusal(client.manager("OpenSession", &(with("profile", "no-such".into()),)).await), "Policy");
        let mut broken = with("profile", "own".into());
        broken.insert("profiles", own("[defaults]\nwrite = \"perhaps\"\n"));
        assert_eq!(refusal(client.manager("OpenSession", &(broken,)).await), "Policy");
        assert_eq!(
            refusal(client.manager("OpenSession", &(with("user", "no-such-user".into()),)).await),
            "InvalidArgument"
        );

        world.fails.set(true);
        assert_eq!(refusal(client.manager("OpenSession", &(opening(),)).await), "Engine");
        world.fails.set(false);
        // A supervisor that gives up, one that says something else, and one that says nothing more.
        let wrong = [
            Some(FromSession::Failed("no Landlock\n\u{1b}[2J".into())),
            Some(FromSession::CallEnded { call: CallId(1), ended: Ended::Exited(0) }),
            None,
        ];
        for word in wrong {
            let body = (opening(),);
            let (refused, ()) = tokio::join!(client.manager("OpenSession", &body), async {
                let mut supervisor = world.supervisor().await;
                supervisor.message().await;
                if let Some(word) = word {
                    supervisor.send(word).await;
                    supervisor.ended().await;
                }
            });
            if let Err(zbus::Error::MethodError(_, Some(text), _)) = &refused {
                assert!(!text.contains(char::is_control), "{text:?}");
            }
            assert_eq!(refusal(refused), "Engine");
        }
        world.until("what was begun to be killed", |_| world.killed.borrow().len() == 3).await;
        assert!(world.core.sessions.borrow().is_empty());
        assert_eq!(std::fs::read_dir(world.place.path().join("sessions")).unwrap().count(), 0);
    });
}

#[test]
fn a_broken_policy_leaves_the_last_good_one_in_force() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        world.policy("profiles/team.toml", "schema = 1\n[profile]\nname = \"team\"\n");
        world.core.reread().await.unwrap();
        world.policy("profiles/team.toml", "schema = 1\n[profile]\nname = \"team\"\nnonsense = 1\n");
        let error = world.core.reread().await.unwrap_err().to_string();
        assert!(error.starts_with("/etc/gated/profiles/team.toml:4:1: "), "{error}");
        let mut options = opening();
        options.insert("profile", Variant::from("team"));
        let body = (options,);
        let (opened, ()) = tokio::join!(client.manager("OpenSession", &body), async {
            world.supervisor().await.build().await;
        });
        opened.unwrap();
    });
}

#[test]
fn what_a_profile_says_is_explained() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let rule = "[[rule]]\nid = \"docs\"\naccess = [\"write\"]\npath = [\"/docs/**\"]\nlevel = \"deny\"\nreason = \"why\"\n";
        let mut supervisor = world.session(&client, rule).await;
        let session = supervisor.session.0.clone();
        let explain = async |access: &str, object: &str| {
            let query = HashMap::from([
                ("session", Variant::from(session.clone())),
                ("access", Variant::from(access.to_owned())),
                ("object", Variant::from(object.as_bytes().to_vec())),
            ]);
            let told = client.manager("Explain", &(query,)).await?;
            told.body().deserialize::<HashMap<String, OwnedVariant>>()
        };
        let text = |value: &OwnedVariant| String::try_from(value.try_clone().unwrap()).unwrap();
        let verdict = explain("write", "/docs/a").await.unwrap();
        assert_eq!(text(&verdict["level"]), "deny");
        let rule = HashMap::<String, OwnedVariant>::try_from(verdict["rule"].try_clone().unwrap()).unwrap();
        assert_eq!((text(&rule["id"]), text(&rule["reason"])), ("docs".into(), "why".into()));
        assert_eq!(text(&explain("write", "/srv/x").await.unwrap()["level"]), "ask");
        assert_eq!(refusal(explain("fly", "/srv/x").await), "InvalidOption");
        assert_eq!(refusal(explain("write", "srv").await), "InvalidOption");

        supervisor.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        client.decide(1, "session").await.unwrap();
        let grant = supervisor.granted().await.id;
        let verdict = explain("write", "/srv/x").await.unwrap();
        assert_eq!((text(&verdict["level"]), text(&verdict["grant"])), ("allow".into(), grant.to_string()));
    });
}

#[test]
fn grants_are_listed_and_revoked() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, "").await;
        let mut ids = Vec::new();
        for (number, object, word) in [(1, "/srv/a", "session"), (2, "/srv/b", "once"), (3, "/srv/c", "session")] {
            supervisor.ask(number, object).await;
            world.until("a request", |core| waiting(core) == 1).await;
            client.decide(number, word).await.unwrap();
            ids.push(supervisor.granted().await.id);
        }
        let list = async || {
            let told = client.manager("ListGrants", &(Options::new(),)).await.unwrap();
            told.body().deserialize::<Vec<HashMap<String, OwnedVariant>>>().unwrap()
        };
        let rows = list().await;
        let text =
            |row: &HashMap<String, OwnedVariant>, key: &str| String::try_from(row[key].try_clone().unwrap()).unwrap();
        let shown: Vec<_> = rows.iter().map(|row| (text(row, "scope"), text(row, "lifetime"))).collect();
        let expected = [("/srv/a", "session"), ("/srv/b", "call"), ("/srv/c", "session")];
        assert_eq!(shown, expected.map(|(scope, lifetime)| (scope.to_owned(), lifetime.to_owned())));
        assert!(rows[1].contains_key("call") && !rows[0].contains_key("call"));
        assert!(rows.iter().all(|row| text(row, "by").starts_with("gatedctl:")));

        let revoke = async |id: &str, all: bool| {
            let options = if all { HashMap::from([("all", Variant::from(true))]) } else { Options::new() };
            client.manager("RevokeGrant", &(id, options)).await
        };
        revoke(&ids[0].to_string(), false).await.unwrap();
        assert_eq!(supervisor.message().await, ToSession::Revoke(ids[0]));
        assert_eq!(refusal(revoke(&ids[0].to_string(), false).await), "NoSuchGrant");
        assert_eq!(list().await.len(), 2);
        let revoked: u32 = revoke("", true).await.unwrap().body().deserialize().unwrap();
        assert_eq!(revoked, 2);
        assert_eq!(supervisor.message().await, ToSession::Revoke(ids[1]));
        assert_eq!(supervisor.message().await, ToSession::Revoke(ids[2]));
        world
            .until("nothing to be left", |core| {
                core.sessions.borrow().values().all(|live| live.view.grants.borrow().is_empty())
            })
            .await;
        assert!(list().await.is_empty());
    });
}

struct Nobody;

impl Reach for Nobody {
    fn ask<'a>(
        &'a self,
        _: &'a gated::common::consent::Prompt,
        _: u32,
    ) -> agents::Local<'a, Option<gated::common::consent::Answer>> {
        Box::pin(async { None })
    }

    fn cancel(&self, _: gated::common::id::RequestId) {}

    fn prove(&self) -> agents::Local<'_, bool> {
        Box::pin(async { false })
    }
}

#[test]
fn a_user_has_so_many_agents_and_watchers_and_no_more() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let uid = rustix::process::getuid().as_raw();
        let speaker = agents::Speaker { uid, by: "x:x".into(), name: "x".into(), groups: Default::default() };
        for number in 0..64 {
            world
                .core
                .agents
                .register(&format!(":9.{number}"), speaker.clone(), None, std::rc::Rc::new(Nobody))
                .unwrap();
        }
        assert_eq!(refusal(client.manager("RegisterAgent", &(Options::new(),)).await), "TooMany");
        let other = agents::Speaker { uid: uid.wrapping_add(1), ..speaker };
        world.core.agents.register(":8.1", other, None, std::rc::Rc::new(Nobody)).unwrap();

        let mut pipes = Vec::new();
        let refused = loop {
            match client.manager("Watch", &(Options::new(),)).await {
                Ok(told) => pipes.push(told.body().deserialize::<zbus::OwnedFd>().unwrap()),
                refused => break refusal(refused),
            }
        };
        assert_eq!((pipes.len(), refused.as_str()), (128, "TooMany"));
        let sight = gated::daemon::watchers::Sight::All;
        assert!(world.core.watchers.add(sight, uid.wrapping_add(1)).is_ok(), "another user's are counted apart");
        drop(pipes);
        world
            .until("the readers' end to be seen", |core| {
                core.watchers.add(gated::daemon::watchers::Sight::All, uid).is_ok()
            })
            .await;
    });
}
