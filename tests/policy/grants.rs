//! From an answer to a grant.

use std::time::Duration;

use gated::common::access::Access;
use gated::common::decision::{Lifetime, Term, Width};
use gated::common::id::GrantId;
use gated::common::moment::{Expiry, Moment};
use gated::policy::grants::offered_widths;
use gated::policy::{Grant, Grants, TooBroad};

use super::sample::{CALL, OTHER_CALL, bounds, path, request};

fn answer(object: &str, is_directory: bool, width: Width) -> Result<String, TooBroad> {
    let request = request(object, is_directory, Lifetime::Session);
    let grant =
        Grant::from_answer(GrantId(1), &request, width, Term::Session, "tty:user", &bounds(&path("/home/user")))?;
    Ok(grant.scope())
}

#[test]
fn an_answer_reaches_the_object_its_directory_or_its_tree() {
    assert_eq!(answer("/srv/a/f", false, Width::Exact).unwrap(), "/srv/a/f");
    assert_eq!(answer("/srv/a/f", false, Width::Directory).unwrap(), "/srv/a/*");
    assert_eq!(answer("/srv/a/f", false, Width::Tree).unwrap(), "/srv/a/**");
    assert_eq!(answer("/srv/a", true, Width::Directory).unwrap(), "/srv/a/*");
    assert_eq!(answer("/srv/a", true, Width::Tree).unwrap(), "/srv/a/**");
    assert_eq!(
        answer("/srv/[x]*/f", false, Width::Tree).unwrap(),
        r"/srv/\[x\]\*/**",
        "a tool's names are no wildcards"
    );
}

#[test]
fn no_answer_covers_everything_or_a_whole_home() {
    for (object, is_directory) in [
        ("/f", false),
        ("/", true),
        ("/home/x", false),
        ("/home", true),
        ("/home/user", true),
        ("/home/user/.bashrc", false),
    ] {
        assert!(answer(object, is_directory, Width::Exact).is_ok(), "{object}");
        assert!(answer(object, is_directory, Width::Directory).is_err(), "{object}");
        assert!(answer(object, is_directory, Width::Tree).is_err(), "{object}");
        assert_eq!(
            offered_widths(&request(object, is_directory, Lifetime::Session), &path("/home/user")),
            [Width::Exact]
        );
    }
    let far = request("/var/lib/me/x", false, Lifetime::Session);
    let home = path("/var/lib/me/home");
    assert!(
        Grant::from_answer(GrantId(1), &far, Width::Tree, Term::Session, "tty:me", &bounds(&home)).is_err(),
        "home is in it"
    );
    assert!(answer("/home/user/.config/x", false, Width::Tree).is_ok());
    assert_eq!(
        answer("/home/user/.bashrc", false, Width::Tree).unwrap_err().to_string(),
        "an answer for tree of /home/user would be too broad"
    );
}

#[test]
fn an_answer_holds_no_longer_than_its_rule_allows() {
    let grant = |remember, lifetime| {
        let request = request("/srv/f", false, remember);
        Grant::from_answer(GrantId(1), &request, Width::Exact, lifetime, "tty:user", &bounds(&path("/home/user")))
            .unwrap()
    };
    let cut = grant(Lifetime::Call, Term::Session);
    assert_eq!((cut.lifetime, cut.call), (Lifetime::Call, Some(CALL)));
    assert_eq!(grant(Lifetime::Session, Term::Call).lifetime, Lifetime::Call);
    let whole = grant(Lifetime::Session, Term::Session);
    assert_eq!((whole.lifetime, whole.call, whole.authenticated), (Lifetime::Session, None, false));
    assert!(!Grants::new().add(grant(Lifetime::Attempt, Term::Session)), "nothing is kept of an attempt");
    let once = request("/srv/a/f", false, Lifetime::Attempt);
    assert_eq!(offered_widths(&once, &path("/home/user")), [Width::Exact]);
    let kept = request("/srv/a/f", false, Lifetime::Call);
    assert_eq!(offered_widths(&kept, &path("/home/user")), [Width::Exact, Width::Directory, Width::Tree]);
}

#[test]
fn grants_of_a_call_end_with_it_and_others_stay() {
    let grant = |object: &str, lifetime| {
        Grant::from_answer(
            GrantId(1),
            &request(object, false, lifetime),
            Width::Exact,
            Term::Session,
            "tty:user",
            &bounds(&path("/home/user")),
        )
        .unwrap()
    };
    let mut grants = Grants::new();
    assert!(grants.is_empty());
    assert!(grants.add(grant("/srv/a", Lifetime::Call)));
    assert!(grants.add(grant("/srv/b", Lifetime::Session)));
    assert!(!grants.add(grant("/srv/b", Lifetime::Session)), "an equal one is here");
    grants.end_call(OTHER_CALL);
    assert_eq!(grants.len(), 2);
    grants.end_call(CALL);
    assert_eq!(grants.iter().map(|grant| grant.object.clone()).collect::<Vec<_>>(), [path("/srv/b")]);
    assert_eq!(grants.get(0).map(|grant| grant.access), Some(Access::Write));
}

#[test]
fn a_grant_is_revoked_by_its_name_and_an_equal_one_is_kept_once() {
    let grant = |id, object: &str| {
        let request = request(object, false, Lifetime::Session);
        let home = path("/home/user");
        Grant::from_answer(GrantId(id), &request, Width::Exact, Term::Session, "tty:user", &bounds(&home)).unwrap()
    };
    let mut grants = Grants::new();
    assert!(grants.add(grant(1, "/srv/a")) && grants.add(grant(2, "/srv/b")));
    assert!(!grants.add(grant(3, "/srv/a")), "another name makes no other grant");
    assert!(!grants.revoke(GrantId(3)), "so it names none");
    assert!(grants.revoke(GrantId(1)) && !grants.revoke(GrantId(1)));
    assert_eq!(grants.iter().map(|grant| grant.id).collect::<Vec<_>>(), [GrantId(2)]);
}

#[test]
fn an_answer_for_a_directory_covers_the_directory_that_was_asked_for() {
    use gated::policy::Policy;
    let policy = Policy::new(&super::sample::profile(""));
    let mut grants = Grants::new();
    let made = request("/srv/new", true, Lifetime::Session);
    grants.add(
        Grant::from_answer(
            GrantId(1),
            &made,
            Width::Directory,
            Term::Session,
            "tty:user",
            &bounds(&path("/home/user")),
        )
        .unwrap(),
    );
    let level = |of: &str| policy.decide(Access::Write, &path(of), CALL, &grants).level.to_string();
    assert_eq!((level("/srv/new"), level("/srv/new/x")), ("allow".into(), "allow".into()));
    assert_eq!((level("/srv/new/x/y"), level("/srv")), ("ask".into(), "ask".into()));
}

#[test]
fn an_answer_settles_what_waits_for_the_same_people() {
    use gated::common::access::Level;
    use gated::common::request::Request;
    let asked = Request { group: Some("deployers".into()), ..request("/srv/a/f", false, Lifetime::Session) };
    let grant = |of: &Request| {
        Grant::from_answer(GrantId(1), of, Width::Tree, Term::Session, "bus:1", &bounds(&path("/home/user"))).unwrap()
    };
    let own = request("/srv/a/g", false, Lifetime::Session);
    assert!(grant(&asked).answers(&asked) && grant(&own).answers(&own));
    assert!(!grant(&own).answers(&asked) && !grant(&asked).answers(&own));
    let sensitive = Request { level: Level::Authenticate, ..asked.clone() };
    assert!(!grant(&asked).answers(&sensitive));
    assert!(Grant { authenticated: true, ..grant(&asked) }.answers(&sensitive));
    assert!(!grant(&asked).answers(&Request { object: path("/srv/b"), ..asked.clone() }));
    assert!(!Grant { call: Some(OTHER_CALL), ..grant(&asked) }.answers(&asked));
}

#[test]
fn grants_whose_time_is_over_do_not_gather() {
    let grant = |id: u64, until| {
        let request = request(&format!("/srv/{id}"), false, Lifetime::Session);
        let home = path("/home/user");
        let grant = Grant::from_answer(GrantId(id), &request, Width::Exact, Term::Session, "tty:user", &bounds(&home));
        Grant { until, ..grant.unwrap() }
    };
    let over = Expiry { boot: Moment(Duration::ZERO), wall: 0 };
    let mut grants = Grants::new();
    assert!(grants.add(grant(0, None)));
    for id in 1..2000 {
        assert!(grants.add(grant(id, Some(over))));
        assert!(grants.len() <= 64, "{} after {id}", grants.len());
    }
    assert!(grants.iter().any(|grant| grant.id == GrantId(0)), "what holds is there still");
}
