//! What counts as the same thing asked again: all that a person was asked about, and not only what a tool may choose.

use gated::common::access::Access;
use gated::common::decision::{Lifetime, Outcome};
use gated::common::exec::Execution;
use gated::common::request::{Operation, Request};
use gated::common::text::Untrusted;
use gated::common::wire::FromSession;

use super::lasting::{LASTING, answer, lists, text};
use super::world::*;

fn command(supervisor: &Supervisor, id: u128, program: &str, argv: &[&str]) -> Request {
    let execution = Execution {
        argv: argv.iter().map(|word| Untrusted::new(*word)).collect(),
        words_left_out: 0,
        interpreters: Vec::new(),
        variables: Vec::new(),
        parents: Vec::new(),
        is_new: false,
        version: None,
        is_first: false,
    };
    Request {
        access: Access::Exec,
        operation: Operation::Execute,
        remember: Lifetime::Persistent,
        execution: Some(Box::new(execution)),
        ..supervisor.request(id, program)
    }
}

/// How it is decided where whoever is asked says this; `None`: nobody was.
async fn decided(client: &Client, supervisor: &mut Supervisor, request: Request, word: &str) -> Option<Outcome> {
    let id = request.id.0;
    supervisor.send(FromSession::Ask(Box::new(request))).await;
    let (decision, ()) = tokio::join!(supervisor.decided(), async {
        // Denied unasked, it is not there to be answered.
        let _answered = tokio::time::timeout(LIMIT / 4, answer(client, id, word, Options::new())).await;
    });
    (decision.by != "muted").then_some(decision.outcome)
}

async fn muted_by(client: &Client, supervisor: &mut Supervisor, asked: impl Fn(&Supervisor, u128) -> Request) {
    for id in 1..4 {
        let request = asked(supervisor, id);
        assert_eq!(decided(client, supervisor, request, "deny").await, Some(Outcome::Denied));
    }
}

/// Asked about, and said yes to.
async fn asks(client: &Client, supervisor: &mut Supervisor, request: Request) {
    assert_eq!(decided(client, supervisor, request, "once").await, Some(Outcome::Approved));
}

#[test]
fn another_program_of_the_same_words_is_another_thing() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        let of_evil = |session: &Supervisor, id| command(session, id, "/work/p1/tool", &["deploy", "now"]);
        muted_by(&client, &mut session, of_evil).await;
        let request = command(&session, 4, "/work/p2/tool", &["deploy", "now"]);
        asks(&client, &mut session, request).await;
        let mut scripted = of_evil(&session, 5);
        scripted.execution.as_mut().unwrap().interpreters = vec!["/bin/sh".into()];
        asks(&client, &mut session, scripted).await;
        let mut preloading = of_evil(&session, 6);
        preloading.execution.as_mut().unwrap().variables = vec![Untrusted::new("LD_PRELOAD=/x")];
        asks(&client, &mut session, preloading).await;
        let mut elsewhere = of_evil(&session, 7);
        elsewhere.who.cwd = "/elsewhere".into();
        asks(&client, &mut session, elsewhere).await;
        let same = of_evil(&session, 8);
        session.send(FromSession::Ask(Box::new(same))).await;
        assert_eq!(session.decided().await.by, "muted");
        let history = lists(&client, "History").await;
        let of_word = history.iter().filter(|row| text(row, "what").starts_with("deploy now")).count();
        assert_eq!(of_word, 5);
    });
}

#[test]
fn what_is_masked_and_what_is_left_out_is_not_taken_for_the_same() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        let of_word = |session: &Supervisor, id, word: &str| command(session, id, "/work/tool", &["tool", word]);
        muted_by(&client, &mut session, |session, id| of_word(session, id, "--token=EVIL1")).await;
        let other = of_word(&session, 4, "--token=REAL1");
        asks(&client, &mut session, other).await;
        let same = of_word(&session, 5, "--token=EVIL1");
        session.send(FromSession::Ask(Box::new(same))).await;
        assert_eq!(session.decided().await.by, "muted");
        let shown = lists(&client, "History").await;
        assert!(shown.iter().all(|row| text(row, "what") == "tool '--token=***' (in /work)"), "{shown:?}");
        let mut next = world.session(&client, LASTING).await;
        let cut = |session: &Supervisor, id| {
            let mut request = command(session, id, "/work/tool", &["tool", "x"]);
            request.execution.as_mut().unwrap().words_left_out = 1;
            request
        };
        muted_by(&client, &mut next, cut).await;
        let again = cut(&next, 6);
        asks(&client, &mut next, again).await;
    });
}

#[test]
fn three_noes_to_one_change_are_none_to_another() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        let removed =
            |session: &Supervisor, id| Request { operation: Operation::Unlink, ..session.request(id, "/srv/x") };
        muted_by(&client, &mut session, removed).await;
        let written = session.request(4, "/srv/x");
        asks(&client, &mut session, written).await;
    });
}

#[test]
fn yeses_to_one_program_suggest_nothing_for_another() {
    run(async {
        let bus = PrivateBus::start();
        let world = World::start(bus.address()).await;
        let client = world.connect().await;
        let mut session = world.session(&client, LASTING).await;
        let of = |session: &Supervisor, id, program: &str| command(session, id, program, &["git", "gc"]);
        for id in 1..4 {
            let request = of(&session, id, "/usr/bin/git");
            asks(&client, &mut session, request).await;
        }
        let suggested = async |id, program: &str, session: &mut Supervisor| {
            let request = of(session, id, program);
            session.send(FromSession::Ask(Box::new(request))).await;
            let suggestion = |core: &gated::daemon::core::Core| {
                let live = core.sessions.borrow().values().next().cloned()?;
                let prompts = live.view.prompts.borrow();
                prompts.iter().find(|prompt| prompt.id.0 == id).map(|prompt| prompt.suggestion)
            };
            world.until("a prompt", |core| suggestion(core).is_some()).await;
            let found = suggestion(&world.core).unwrap();
            answer(&client, id, "once", Options::new()).await.unwrap();
            session.decided().await;
            found.is_some()
        };
        assert!(!suggested(4, "/work/git", &mut session).await);
        assert!(suggested(5, "/usr/bin/git", &mut session).await);
    });
}
