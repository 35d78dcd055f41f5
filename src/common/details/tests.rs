//! Prompts on the bus, there and back.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use zbus::wire::serialized::Context;
use zbus::wire::{LE, to_bytes};

use super::*;
use crate::common::access::Level;
use crate::common::decision::Lifetime;
use crate::common::exec::Parent;
use crate::common::net::{Knowledge, Named, Place, Service};

fn path() -> impl Strategy<Value = RawPath> {
    prop::collection::vec(1u8.., 0..200).prop_map(|tail| RawPath::new([b"/".as_slice(), &tail].concat()))
}

/// What a supervisor can ask and a broker make of it.
fn prompt() -> impl Strategy<Value = Prompt> {
    let operation = prop_oneof![
        Just(Operation::OpenWrite),
        Just(Operation::MakeDirectory),
        Just(Operation::Rename),
        Just(Operation::Symlink),
        Just(Operation::ChangeXattr),
        Just(Operation::Execute),
        Just(Operation::List),
        Just(Operation::LookUp),
        Just(Operation::Connect),
    ];
    let access = prop_oneof![
        Just(Access::Write),
        Just(Access::Exec),
        Just(Access::Read),
        Just(Access::Connect),
        Just(Access::Bind),
        Just(Access::Unix),
    ];
    let found = (super::exec::tests::execution(), super::net::tests::destination(), 0..Service::ALL.len());
    let level = prop_oneof![Just(Level::Ask), Just(Level::Authenticate)];
    let lifetime = prop_oneof![Just(Lifetime::Attempt), Just(Lifetime::Call), Just(Lifetime::Session)];
    let who = (0..i32::MAX, prop::collection::vec(1u8.., 0..80), prop::collection::vec("\\PC{0,30}", 0..8), path());
    let object = (path(), any::<bool>(), prop::option::of(path()), 1..=3usize);
    let rule = ("\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}", any::<u32>(), prop::option::of("\\PC{0,40}"));
    let rest = (any::<u128>(), any::<u32>(), any::<u32>(), 1..99usize, 0..99usize, 0..600u64);
    let all = (who, (access, operation, level, lifetime), object, rule, rest, found);
    all.prop_map(|(who, words, object, rule, rest, (execution, (by_name, by_address), service))| {
        let destination = if words.1 == Operation::LookUp { by_name } else { by_address };
        let request = Request {
            id: RequestId(rest.0),
            session: SessionId(format!("{:08x}", rest.1)),
            call: CallId(rest.2),
            who: Who {
                pid: who.0,
                program: RawPath::new(who.1),
                argv: who.2.into_iter().map(Untrusted::new).collect(),
                cwd: who.3,
            },
            access: words.0,
            operation: words.1,
            object: object.0,
            is_directory: object.1,
            other: object.2,
            level: words.2,
            rule: RuleRef { profile: rule.0, id: rule.1, file: rule.2, line: rule.3, reason: rule.4 },
            remember: words.3,
            group: None,
            execution: (words.0 == Access::Exec).then(|| Box::new(execution)),
            destination: matches!(words.0, Access::Connect | Access::Bind).then(|| Box::new(destination)),
            service: (words.0 == Access::Unix).then(|| Service::ALL[service]),
            remember_for: (rest.4 % 2 == 0).then(|| Duration::from_secs(rest.5)),
        };
        let parent = request.object.parent().unwrap_or_else(|| request.object.clone());
        let all = [
            (Width::Exact, Pattern::literal(&request.object)),
            (Width::Directory, Pattern::children_of(&parent)),
            (Width::Tree, Pattern::tree_of(&parent)),
        ];
        let offers = all.map(|(width, pattern)| Offer { width, scope: pattern.to_string() });
        let offers = offers.into_iter().take(object.3).collect();
        let deadline = Instant::now() + Duration::from_secs(rest.5);
        Prompt { attempts: rest.3, waiting: rest.4, ..Prompt::new(Rc::new(request), offers, deadline) }
    })
}

fn some(access: Access) -> Prompt {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prompt().prop_filter("of this access", move |prompt| prompt.request.access == access);
    strategy.new_tree(&mut runner).unwrap().current()
}

fn sample() -> Details {
    Details { operation: "open-write".into(), ..Details::of(&some(Access::Write), 1000) }
}

proptest! {
    #[test]
    fn a_prompt_arrives_as_it_was_sent(prompt in prompt(), user in any::<u32>()) {
        let details = Details::of(&prompt, user);
        let wire = to_bytes(Context::new(LE, 0), &details).unwrap();
        let (decoded, _): (Details, _) = wire.deserialize().unwrap();
        prop_assert_eq!(&decoded, &details);
        let question = decoded.question(&prompt.id.to_string()).unwrap();
        prop_assert_eq!(question.user, user);
        let arrived = Prompt::from(question);
        let mut expected = prompt.request.as_ref().clone();
        expected.who.argv = mask::argv(&expected.who.argv);
        if let Some(execution) = &mut expected.execution {
            execution.argv = mask::argv(&execution.argv);
            execution.variables = mask::variables(&execution.variables);
            for parent in &mut execution.parents {
                parent.argv = mask::argv(&parent.argv);
            }
        }
        prop_assert_eq!(arrived.request.as_ref(), &expected);
        prop_assert_eq!(&arrived.offers, &prompt.offers);
        prop_assert_eq!((arrived.longest, arrived.attempts), (prompt.longest, prompt.attempts));
        prop_assert_eq!(arrived.waiting, prompt.waiting);
        let late = arrived.deadline.max(prompt.deadline) - arrived.deadline.min(prompt.deadline);
        prop_assert!(late < Duration::from_secs(5), "{late:?}");
    }

    #[test]
    fn whatever_arrives_is_taken_or_refused(
        words in prop::collection::vec("[a-z-]{0,12}", 4),
        object in prop::collection::vec(any::<u8>(), 0..40),
        scopes in prop::collection::vec(("exact|directory|tree|x", "[/*a{\\\\]{0,8}"), 0..5),
        request in "[0-9a-fg]{31,33}",
        remaining in any::<u64>(),
    ) {
        let [access, operation, level, longest] = <[String; 4]>::try_from(words).unwrap();
        let details = Details { access, operation, level, longest, object, offers: scopes, remaining, ..sample() };
        // Must not panic; what passes holds what the type promises.
        if let Ok(question) = details.question(&request) {
            prop_assert_eq!(question.offers.first().map(|offer| offer.width), Some(Width::Exact));
        }
    }
}

#[test]
fn secrets_of_a_command_line_do_not_reach_the_bus() {
    let mut prompt = Prompt::from(sample().question(&RequestId(7).to_string()).unwrap());
    let request = Rc::get_mut(&mut prompt.request).unwrap();
    request.who.argv = ["curl", "--token", "abc"].map(Untrusted::new).to_vec();
    assert_eq!(Details::of(&prompt, 0).argv, [b"curl".to_vec(), b"--token".to_vec(), b"***".to_vec()]);
}

#[test]
fn secrets_of_what_would_run_do_not_reach_the_bus() {
    let mut prompt = some(Access::Exec);
    let request = Rc::get_mut(&mut prompt.request).unwrap();
    let words = || ["curl", "--token", "abc"].map(Untrusted::new).to_vec();
    let execution = request.execution.as_mut().unwrap();
    execution.argv = words();
    execution.variables = vec![Untrusted::new("GIT_TOKEN=abc")];
    execution.parents = vec![Parent { pid: 2, program: "/usr/bin/sh".into(), argv: words() }];
    let details = Details::of(&prompt, 0);
    let masked = vec![b"curl".to_vec(), b"--token".to_vec(), b"***".to_vec()];
    assert_eq!(details.exec_argv, Some(masked.clone()));
    assert_eq!(details.exec_variables, Some(vec![b"GIT_TOKEN=***".to_vec()]));
    assert_eq!(details.exec_parents, Some(vec![(2, b"/usr/bin/sh".to_vec(), masked)]));
}

#[test]
fn each_value_of_what_would_run_is_checked() {
    type Change = fn(&mut Details);
    let cases: [(Change, DetailsError); 10] = [
        (|it| it.exec_argv = None, DetailsError::Missing("exec-argv")),
        (|it| it.exec_first = None, DetailsError::Missing("exec-first")),
        (|it| it.exec_argv = Some(vec![vec![b'x'; MAX_ARGV]]), DetailsError::TooLong("exec-argv")),
        (|it| it.exec_argv = Some(vec![b"a\0b".to_vec()]), DetailsError::Nul("exec-argv")),
        (|it| it.exec_interpreters = Some(vec![vec![b'/']; 17]), DetailsError::TooLong("exec-interpreters")),
        (|it| it.exec_variables = Some(vec![b"x".to_vec()]), DetailsError::Word("exec-variables")),
        (|it| it.exec_variables = Some(vec![b"A=\0".to_vec()]), DetailsError::Nul("exec-variables")),
        (|it| it.exec_parents = Some(vec![(1, vec![], vec![]); 17]), DetailsError::TooLong("exec-parents")),
        (|it| it.exec_parents = Some(vec![(u32::MAX, vec![], vec![])]), DetailsError::Range("exec-parents")),
        (|it| it.access = "write".into(), DetailsError::Misplaced("exec-argv")),
    ];
    for (change, expected) in cases {
        let mut details = Details { operation: "execute".into(), ..Details::of(&some(Access::Exec), 1000) };
        details.clone().question(&RequestId(1).to_string()).unwrap();
        change(&mut details);
        assert_eq!(details.question(&RequestId(1).to_string()).unwrap_err(), expected);
    }
}

/// As much as a supervisor may send, with as much for masking as there can be.
#[test]
fn the_longest_command_fits_through_the_bus() {
    let mut prompt = some(Access::Exec);
    for word in ["", "x", "pat=", "-pat:pat=", "cookie:x;pat=x"] {
        let count = SHOWN_BYTES / (word.len() + 1);
        let request = Rc::get_mut(&mut prompt.request).unwrap();
        request.execution.as_mut().unwrap().argv = vec![Untrusted::new(word); count];
        let wire = to_bytes(Context::new(LE, 0), &Details::of(&prompt, 0)).unwrap();
        let (decoded, _): (Details, _) = wire.deserialize().unwrap();
        let question = decoded.question(&RequestId(1).to_string()).unwrap();
        assert_eq!(question.request.execution.unwrap().argv.len(), count, "{word:?}");
    }
}

#[test]
fn each_value_is_checked() {
    type Change = fn(&mut Details);
    let cases: [(Change, DetailsError); 17] = [
        (|it| it.session = "XYZ".into(), DetailsError::Id("session")),
        (|it| it.pid = u32::MAX, DetailsError::Range("pid")),
        (|it| it.program = vec![b'x'; MAX_PATH + 1], DetailsError::TooLong("program")),
        (|it| it.argv = vec![vec![]; MAX_WORDS + 1], DetailsError::TooLong("argv")),
        (|it| it.argv = vec![vec![b'x'; MAX_WORD + 1]], DetailsError::TooLong("argv")),
        (|it| it.cwd = b"/a\0b".to_vec(), DetailsError::Nul("cwd")),
        (|it| it.access = "fly".into(), DetailsError::Word("access")),
        (|it| it.operation = "Open".into(), DetailsError::Word("operation")),
        (|it| it.object = b"relative".to_vec(), DetailsError::NotAbsolute("object")),
        (|it| it.other = Some(b"relative".to_vec()), DetailsError::NotAbsolute("other")),
        (|it| it.level = "".into(), DetailsError::Word("level")),
        (|it| it.rule_reason = Some("x".repeat(MAX_TEXT + 1)), DetailsError::TooLong("rule-reason")),
        (|it| it.offers = vec![], DetailsError::Offers),
        (|it| it.offers = vec![("tree".into(), "/x/**".into())], DetailsError::Offers),
        (|it| it.offers = vec![("exact".into(), "x".into())], DetailsError::Offers),
        (|it| it.attempts = 0, DetailsError::Range("attempts")),
        (|it| it.remaining = u64::MAX, DetailsError::Range("remaining")),
    ];
    for (change, expected) in cases {
        let mut details = sample();
        change(&mut details);
        assert_eq!(details.question(&RequestId(1).to_string()).unwrap_err(), expected);
    }
    assert_eq!(sample().question("1").unwrap_err(), DetailsError::Id("request"));
    let link = Details { operation: "symlink".into(), other: Some(b"../elsewhere".to_vec()), ..sample() };
    assert!(link.question(&RequestId(1).to_string()).is_ok());
}

#[test]
fn each_value_of_what_would_be_reached_is_checked() {
    type Change = fn(&mut Details);
    let by = |operation: &str| Details { operation: operation.into(), ..Details::of(&some(Access::Connect), 1000) };
    let connect = || {
        let mut prompt = some(Access::Connect);
        let named = Named { name: "registry.npmjs.org".parse().unwrap(), by: Knowledge::Resolved };
        let destination = Destination {
            place: Place::Address { address: "192.0.2.7:443".parse().unwrap(), names: vec![named] },
            transport: Default::default(),
            hint: None,
        };
        Rc::get_mut(&mut prompt.request).unwrap().destination = Some(Box::new(destination));
        Details { operation: "connect".into(), ..Details::of(&prompt, 1000) }
    };
    let names = |names: &[(&str, &str)]| {
        Some(names.iter().map(|(name, by)| ((*name).to_owned(), (*by).to_owned())).collect::<Vec<_>>())
    };
    let look_up = || Details {
        net_address: None,
        net_port: None,
        net_zone: None,
        net_names: names(&[("registry.npmjs.org", "asked")]),
        ..by("look-up")
    };
    let cases: [(Change, DetailsError); 19] = [
        (|it| it.net_names = None, DetailsError::Missing("net-names")),
        (|it| it.net_address = None, DetailsError::Missing("net-address")),
        (|it| it.net_port = None, DetailsError::Missing("net-port")),
        (|it| it.net_zone = None, DetailsError::Missing("net-zone")),
        (|it| it.net_transport = None, DetailsError::Missing("net-transport")),
        (|it| it.net_transport = Some("sctp".into()), DetailsError::Word("net-transport")),
        (|it| it.net_zone = Some("loopback".into()), DetailsError::Word("net-zone")),
        (|it| it.net_address = Some("192.0.2.07".into()), DetailsError::Word("net-address")),
        (|it| it.net_address = Some("::ffff:192.0.2.7".into()), DetailsError::Word("net-address")),
        (|it| it.net_address = Some("2001:DB8::1".into()), DetailsError::Word("net-address")),
        (|it| it.net_address = Some("registry.npmjs.org".into()), DetailsError::Word("net-address")),
        (|it| it.net_names = Some(vec![("a.org".into(), "asked".into())]), DetailsError::Word("net-names")),
        (|it| it.net_names = Some(vec![("A.org".into(), "resolved".into())]), DetailsError::Word("net-names")),
        (|it| it.net_names = Some(vec![("a.org\n".into(), "resolved".into())]), DetailsError::Word("net-names")),
        (
            |it| it.net_names = Some(vec![("b\u{fc}cher.org".into(), "resolved".into())]),
            DetailsError::Word("net-names"),
        ),
        (
            |it| it.net_names = Some(vec![("a.org".into(), "resolved".into()); MAX_NAMES + 1]),
            DetailsError::TooLong("net-names"),
        ),
        (|it| it.net_hint = Some(vec![b'x'; 10_000]), DetailsError::TooLong("net-hint")),
        (|it| it.service = Some("@docker".into()), DetailsError::Misplaced("service")),
        (|it| it.operation = "look-up".into(), DetailsError::Misplaced("net-address")),
    ];
    for (change, expected) in cases {
        let mut details = connect();
        details.clone().question(&RequestId(1).to_string()).unwrap();
        change(&mut details);
        assert_eq!(details.question(&RequestId(1).to_string()).unwrap_err(), expected);
    }
    assert!(look_up().question(&RequestId(1).to_string()).is_ok());
    for wrong in [&[][..], &[("a.org", "resolved")], &[("a.org", "asked"), ("b.org", "asked")]] {
        let details = Details { net_names: names(wrong), ..look_up() };
        assert_eq!(details.question(&RequestId(1).to_string()).unwrap_err(), DetailsError::Word("net-names"));
    }
    let misplaced = Details { net_hint: Some(vec![]), ..sample() };
    assert_eq!(misplaced.question(&RequestId(1).to_string()).unwrap_err(), DetailsError::Misplaced("net-hint"));
    let unknown = Details {
        service: Some("@root".into()),
        operation: "connect-socket".into(),
        ..Details::of(&some(Access::Unix), 1)
    };
    assert_eq!(unknown.question(&RequestId(1).to_string()).unwrap_err(), DetailsError::Word("service"));
}

/// What a supervisor sends is bounded before it is sent: the latest names count, and a reverse name that DNS cannot have is none.
#[test]
fn more_than_can_be_sent_is_left_out() {
    let mut prompt = some(Access::Bind);
    let named = |number| Named { name: format!("n{number}.example.org").parse().unwrap(), by: Knowledge::Resolved };
    let request = Rc::get_mut(&mut prompt.request).unwrap();
    request.operation = Operation::Listen;
    request.destination = Some(Box::new(Destination {
        place: Place::Address { address: "[2001:db8::1]:1".parse().unwrap(), names: (0..500).map(named).collect() },
        transport: Default::default(),
        hint: Some(Untrusted::new(vec![b'\n'; 10_000])),
    }));
    let question = Details::of(&prompt, 1).question(&RequestId(1).to_string()).unwrap();
    let arrived = question.request.destination.unwrap();
    assert_eq!(arrived.names().count(), MAX_NAMES);
    assert_eq!(arrived.names().next().unwrap().as_str(), "n0.example.org");
    assert_eq!(arrived.hint, None);
}
