//! Whose a stored answer is, how long it holds, and how many there may be.

use std::time::Duration;

use gated::common::access::Access;
use gated::common::decision::{Effect, Width};
use gated::common::id::GrantId;
use gated::common::moment::{Expiry, Moment, wall_now};
use gated::daemon::store::{Answered, FILE, MOST_OF_A_HOLDER, StoreError, Thing};
use gated::policy::Grant;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Test, alice, grant, holder, live, open, run, stored, until};

pub const TESTS: &[Test] = &[
    ("an_answer_is_its_users_under_one_profile", whose),
    ("what_is_stored_is_there_after_a_restart_as_it_was", restart),
    ("an_equal_answer_is_not_stored_twice", equal),
    ("a_holder_has_a_bounded_number_of_answers", quota),
    ("an_end_counts_by_the_stricter_clock", clocks),
    ("a_clock_that_was_set_back_makes_nothing_live_again", set_back),
    ("what_is_forgotten_is_nowhere_in_the_file", forgotten),
    ("answers_are_counted_and_the_oldest_forgotten", counted),
];

fn whose() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = open(place.path());
        store.add(vec![stored(grant(1), alice())]).await.unwrap();
        store.add(vec![stored(grant(2), holder(1000, "strict"))]).await.unwrap();
        store.add(vec![stored(grant(3), holder(1001, "coder"))]).await.unwrap();
        assert_eq!(live(&store, &alice()), [1]);
        assert_eq!(live(&store, &holder(1000, "strict")), [2]);
        assert_eq!(live(&store, &holder(1001, "coder")), [3]);
        assert!(live(&store, &holder(1001, "strict")).is_empty());
        assert!(live(&store, &holder(0, "coder")).is_empty());
        store.revoke(&[GrantId(1)], "gatedctl:alice").await.unwrap();
        assert!(live(&store, &alice()).is_empty());
        let rows = store.rows(Some(1000)).await.unwrap();
        let revoked: Vec<(u64, Option<&str>)> =
            rows.iter().map(|row| (row.id().0, row.revoked.as_ref().map(|own| own.by.as_str()))).collect();
        assert_eq!(revoked, [(1, Some("gatedctl:alice")), (2, None)]);
    });
    let store = open(place.path());
    assert!(live(&store, &alice()).is_empty());
    assert_eq!(live(&store, &holder(1000, "strict")), [2]);
}

fn restart() {
    let place = tempfile::tempdir().unwrap();
    let timed = until(2, Duration::from_secs(3600));
    let denial = Grant { effect: Effect::Deny, authenticated: true, group: Some("ops".into()), ..grant(3) };
    run(async {
        let store = open(place.path());
        let new = [grant(1), timed.clone(), denial.clone()].map(|grant| stored(grant, alice()));
        store.add(new.into()).await.unwrap();
        store.used(GrantId(1));
        store.used(GrantId(1));
        store.write_uses().await.unwrap();
    });
    let store = open(place.path());
    let of = |id| store.get(GrantId(id)).unwrap();
    assert_eq!(*of(1).terms(), grant(1));
    // In the same boot also to the same second.
    assert_eq!(of(2).grant(), timed);
    assert_eq!(*of(3).terms(), denial);
    assert_eq!((of(1).uses.get(), of(1).last_used.get().is_some()), (2, true));
    assert_eq!((of(2).uses.get(), of(2).last_used.get()), (0, None));
}

fn equal() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = open(place.path());
        store.add(vec![stored(grant(1), alice())]).await.unwrap();
        let same = Grant { id: GrantId(9), ..grant(1) };
        let kept = store.add(vec![stored(same.clone(), alice())]).await.unwrap();
        assert_eq!(kept[0].id(), GrantId(1), "the first has the name that takes it back");
        assert_eq!(live(&store, &alice()), [1]);
        // Of somebody else it is another one.
        store.add(vec![stored(same, holder(1001, "coder"))]).await.unwrap();
        assert_eq!(live(&store, &holder(1001, "coder")), [9]);
    });
}

fn quota() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = open(place.path());
        let most = u64::try_from(MOST_OF_A_HOLDER).unwrap();
        store.add((0..most).map(|number| stored(grant(number), alice())).collect()).await.unwrap();
        let refused = store.add(vec![stored(grant(most), alice())]).await;
        assert!(matches!(refused, Err(StoreError::Full)), "{refused:?}");
        // Others have theirs, and what is taken back makes room.
        store.add(vec![stored(grant(most), holder(1000, "strict"))]).await.unwrap();
        store.revoke(&[GrantId(5)], "gatedctl:alice").await.unwrap();
        store.add(vec![stored(grant(most + 1), alice())]).await.unwrap();
        assert_eq!(live(&store, &alice()).len(), MOST_OF_A_HOLDER);
    });
}

/// Of any two clocks: what allows ends with the first of them, what denies with the last.
fn clocks() {
    let span = -100_000_i64..100_000;
    let times =
        (span.clone(), span).prop_filter("not within this second", |(boot, wall)| boot.abs() > 5 && wall.abs() > 5);
    TestRunner::new(Config { failure_persistence: None, ..Config::default() })
        .run(&times, |(boot, wall)| {
            let moved = |now: u64, by: i64| now.saturating_add_signed(by);
            let boot_end = moved(Moment::now().0.as_secs(), boot);
            let expiry = Expiry { boot: Moment(Duration::from_secs(boot_end)), wall: moved(wall_now(), wall) };
            let is_over = (boot_end <= Moment::now().0.as_secs(), wall < 0);
            prop_assert_eq!(expiry.is_over(Effect::Allow), is_over.0 || is_over.1);
            prop_assert_eq!(expiry.is_over(Effect::Deny), is_over.0 && is_over.1);
            Ok(())
        })
        .unwrap();
}

/// As if it had been stored before this boot, by a clock that was an hour ahead of the one of now.
fn set_back() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join(FILE);
    let hour = Duration::from_secs(3600);
    run(async {
        let store = open(place.path());
        // The row says which boot it is of, and its digest holds it to that: both are those of another boot where this is
        // written by a process that sees one.
        let new = vec![
            stored(until(1, hour), alice()),
            stored(grant(2), alice()),
            stored(Grant { effect: Effect::Deny, ..until(3, hour) }, alice()),
        ];
        store.add(new).await.unwrap();
    });
    let later = i64::try_from(wall_now() + 1800).unwrap();
    let disk = rusqlite::Connection::open(&file).unwrap();
    disk.execute("UPDATE clock SET last_seen = ?1", [later]).unwrap();
    drop(disk);
    // Of this boot, the clock since boot says when it is over; the one on the wall is not needed.
    assert_eq!(live(&open(place.path()), &alice()), [1, 2, 3]);
    gated_store_of_another_boot(&file);
    let store = open(place.path());
    assert!(store.set_aside().is_none());
    assert_eq!(live(&store, &alice()), [2, 3], "what depends on a wrong clock does not allow, and denies");
    drop(store);
    // The clock is right again.
    let disk = rusqlite::Connection::open(&file).unwrap();
    disk.execute("UPDATE clock SET last_seen = 1", []).unwrap();
    drop(disk);
    assert_eq!(live(&open(place.path()), &alice()), [1, 2, 3]);
}

/// Makes every row one of another boot, with a digest that says so.
fn gated_store_of_another_boot(file: &std::path::Path) {
    gated::daemon::store::of_another_boot(file).unwrap();
}

fn forgotten() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = open(place.path());
        store.add(vec![stored(grant(1), alice()), stored(grant(2), alice())]).await.unwrap();
        let row = store.rows(Some(1000)).await.unwrap().into_iter().find(|row| row.id() == GrantId(1)).unwrap();
        store.forget(&row).await.unwrap();
        assert_eq!(live(&store, &alice()), [2]);
        assert_eq!(store.rows(None).await.unwrap().len(), 1);
    });
    let bytes = std::fs::read(place.path().join(FILE)).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"/srv/tree-2") && !has(b"/srv/tree-1"));
}

fn counted() {
    let place = tempfile::tempdir().unwrap();
    let thing = |number: usize| Thing { access: Access::Write, what: format!("/srv/{number}"), mark: String::new() };
    let answer =
        |number, is_yes| Answered { thing: thing(number), is_yes, width: Width::Exact, by: "tty:alice".into() };
    run(async {
        let store = open(place.path());
        for number in 0..1100 {
            store.answered(&alice(), answer(number, true));
        }
        for is_yes in [true, true, false, true] {
            store.answered(&alice(), answer(1099, is_yes));
        }
        store.write_uses().await.unwrap();
    });
    let store = open(place.path());
    let tally = store.tally();
    assert_eq!(tally.list(Some(1000)).len(), 1024);
    assert!(tally.get(&alice(), &thing(0)).is_none() && tally.get(&holder(1000, "strict"), &thing(1099)).is_none());
    let count = tally.get(&alice(), &thing(1099)).unwrap();
    assert_eq!((count.yes, count.no, count.in_a_row, count.last_was_yes), (4, 1, 1, true));
    assert!(tally.list(Some(1001)).is_empty());
}
