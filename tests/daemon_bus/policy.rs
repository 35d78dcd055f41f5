//! `org.gated.Gated1.Policy`: what policy and answers say of a session, how requests ended, and files that are installed.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;

use gated::common::access::{Access, Level};
use gated::common::bus::{MANAGER_PATH, POLICY_INTERFACE};
use gated::common::decision::{Lifetime, Outcome};
use gated::common::id::CallId;
use gated::common::request::{Operation, RuleRef};
use gated::common::wire::{FromSession, Record};
use serde_json::{Value, json};
use zbus::Variant;

use super::world::{Client, Options, PrivateBus, Supervisor, World, refusal, run, waiting, who};

const RULES: &str = "[[rule]]\nid = \"docs\"\naccess = [\"write\"]\npath = [\"/docs/**\"]\nlevel = \"deny\"\nreason = \"why\"\n\
                     [[rule]]\nid = \"srv\"\naccess = [\"write\"]\npath = [\"/srv/**\"]\nlevel = \"ask\"\nremember = \"10m\"\n";

async fn policy<B>(client: &Client, method: &str, body: &B) -> zbus::Result<Vec<Value>>
where
    B: serde::Serialize + zbus::wire::DynamicType,
{
    let told = client.call(MANAGER_PATH, POLICY_INTERFACE, method, body).await?;
    let lines: Vec<String> = told.body().deserialize()?;
    Ok(lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect())
}

async fn explain(client: &Client, session: &str, question: &[(&'static str, Variant<'_>)]) -> zbus::Result<Vec<Value>> {
    let question: Options<'_> = question.iter().map(|(key, value)| (*key, value.try_clone().unwrap())).collect();
    policy(client, "Explain", &(session, question)).await
}

fn bytes(text: &str) -> Variant<'static> {
    Variant::from(text.as_bytes().to_vec())
}

#[test]
fn a_session_is_explained_with_the_answers_that_hold_there() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, RULES).await;
        let session = supervisor.session.0.clone();
        let write = |object: &str| [("access", Variant::from("write")), ("object", bytes(object))];
        let said = explain(&client, &session, &write("/srv/x")).await.unwrap().remove(0);
        assert_eq!(
            (&said["level"], &said["rule"], &said["answer"]["longest_ms"]),
            (&json!("ask"), &json!("srv"), &json!(600_000))
        );
        let denied = explain(&client, &session, &write("/docs/x")).await.unwrap().remove(0);
        assert_eq!(
            (&denied["level"], &denied["reason"], &denied["answer"]),
            (&json!("deny"), &json!("why"), &json!({"changes": "never"}))
        );
        supervisor.ask(1, "/srv/x").await;
        world.until("a request", |core| waiting(core) == 1).await;
        client.decide(1, "session").await.unwrap();
        let grant = supervisor.granted().await.id.to_string();
        let said = explain(&client, &session, &write("/srv/x")).await.unwrap().remove(0);
        assert_eq!((&said["level"], &said["answer"]["grant"]), (&json!("allow"), &json!(grant)));
        // Every access has its own words.
        let host = [("access", Variant::from("connect")), ("host", Variant::from("example.org:443"))];
        assert_eq!(explain(&client, &session, &host).await.unwrap().len(), 2);
        let program = [
            ("access", Variant::from("exec")),
            ("object", bytes("/usr/bin/git")),
            ("argv", Variant::from(vec![b"git".to_vec()])),
        ];
        assert_eq!(explain(&client, &session, &program).await.unwrap()[0]["access"], "exec");
        for wrong in [
            vec![("access", Variant::from("fly"))],
            vec![("access", Variant::from("write")), ("object", bytes("relative"))],
            vec![("access", Variant::from("connect")), ("host", Variant::from("*.org:443"))],
            vec![("access", Variant::from("write")), ("object", bytes("/x")), ("host", Variant::from("x:1"))],
        ] {
            assert_eq!(refusal(explain(&client, &session, &wrong).await), "InvalidOption", "{wrong:?}");
        }
        assert_eq!(refusal(explain(&client, "ffffffff", &write("/x")).await), "NoSuchSession");
    });
}

/// What the supervisor denied by itself.
fn denial(number: u64, object: &str) -> FromSession {
    let rule =
        RuleRef { profile: "own".into(), id: "docs".into(), file: "own".into(), line: 3, reason: Some("why".into()) };
    FromSession::Record(Box::new(Record {
        number,
        call: CallId(1),
        who: who(),
        access: Access::Write,
        operation: Operation::Create,
        object: object.into(),
        other: None,
        rule,
        level: Level::Deny,
        outcome: Outcome::NotPermitted,
        by: "policy".into(),
        execution: None,
        destination: None,
        service: None,
        grant: None,
    }))
}

async fn why(client: &Client) -> Vec<Value> {
    policy(client, "Why", &(Options::new(),)).await.unwrap()
}

async fn asked(world: &World, supervisor: &mut Supervisor, id: u128, object: &str) {
    let mut request = supervisor.request(id, object);
    request.remember = Lifetime::Session;
    request.rule.reason = Some("Look twice.".into());
    supervisor.send(FromSession::Ask(Box::new(request))).await;
    world.until("a request", |core| waiting(core) == 1).await;
}

#[test]
fn the_end_of_a_request_is_told_in_the_words_of_the_tool() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut supervisor = world.session(&client, RULES).await;
        assert_eq!(why(&client).await, Vec::<Value>::new());
        asked(&world, &mut supervisor, 1, "/srv/a\x1b").await;
        client.decide(1, "deny").await.unwrap();
        assert_eq!(supervisor.decided().await.outcome, Outcome::Denied);
        asked(&world, &mut supervisor, 2, "/srv/b").await;
        client.decide(2, "once").await.unwrap();
        supervisor.decided().await;
        supervisor.send(denial(1, "/docs/x")).await;
        supervisor.message().await;
        let told = why(&client).await;
        assert_eq!(told.len(), 3, "{told:#?}");
        assert_eq!(told[0]["object"], "/srv/a\\x1b");
        assert_eq!(told[0]["hint"], "the person who was asked said no; this is final, do not retry");
        assert_eq!((&told[0]["rule"], &told[0]["reason"]), (&json!("r"), &json!("Look twice.")));
        assert_eq!(told[0]["request"], format!("{:032x}", 1));
        assert_eq!((&told[1]["permitted"], told[1].get("hint")), (&json!(true), None));
        // What nobody was asked about has no number and is told all the same; of the policy it names one rule.
        assert_eq!(
            (told[2].get("request"), &told[2]["rule"], &told[2]["permitted"]),
            (None, &json!("docs"), &json!(false))
        );
        assert_eq!(told[2]["hint"], "it is not permitted here; this is final, do not retry");
        let text = serde_json::to_string(&told).unwrap();
        assert!(!text.contains("own.toml") && !text.contains("/docs/**"), "{text}");
    });
}

#[test]
fn a_file_is_installed_if_all_policy_is_good_with_it() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let path = world.place.path().join("root/etc/gated/profiles/team.toml");
        let install = async |kind: &str, name: &str, text: &str| {
            let body = (kind, name, text.as_bytes(), HashMap::<&str, Variant<'_>>::new());
            let told = client.call(MANAGER_PATH, POLICY_INTERFACE, "Install", &body).await?;
            told.body().deserialize::<String>()
        };
        let good = "schema = 1\n[profile]\nname = \"team\"\ndescription = \"one\"\n";
        if !rustix::process::geteuid().is_root() {
            assert_eq!(refusal(install("profile", "team", good).await), "NotAuthorized");
            return;
        }
        assert_eq!(install("profile", "team", good).await.unwrap(), "/etc/gated/profiles/team.toml");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o644);
        // In force at once.
        let mut options = super::world::opening();
        options.insert("profile", Variant::from("team"));
        let body = (options,);
        let (opened, ()) = tokio::join!(client.manager("OpenSession", &body), async {
            world.supervisor().await.build().await;
        });
        opened.unwrap();
        // A broken one changes nothing, also if it is only broken for another that extends it.
        let above = "schema = 1\n[profile]\nname = \"above\"\nextends = [\"team\"]\n[[rule]]\nid = \"r\"\naccess = [\"read\"]\npath = [\"/x\"]\nlevel = \"ask\"\n";
        install("profile", "above", above).await.unwrap();
        let clash = above.replace("above", "team").replace("extends = [\"team\"]\n", "");
        for broken in [&clash, "schema = 1\n[profile]\nname = \"other\"\n", "nonsense", ""] {
            let refused = refusal(install("profile", "team", broken).await);
            assert_eq!(refused, if broken.is_empty() { "InvalidArgument" } else { "Policy" }, "{broken}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
        }
        for (kind, name) in [("profile", "../ceiling"), ("profile", ""), ("ceiling", "x"), ("file", "/etc/passwd")] {
            assert_eq!(refusal(install(kind, name, good).await), "InvalidArgument", "{kind} {name}");
        }
        // A machine whose policy is broken can be repaired with it.
        world.policy("profiles/team.toml", "nonsense");
        assert!(world.core.reread().await.is_err());
        install("profile", "team", good).await.unwrap();
        install("ceiling", "", "schema = 1\n[users]\nmay_run = [\"nobody\"]\n").await.unwrap();
        assert!(world.core.policy.borrow().may_run("nobody", &[].into()));
        assert!(!world.core.policy.borrow().may_run("alice", &[].into()));
        let left: Vec<_> =
            std::fs::read_dir(path.parent().unwrap()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    });
}
