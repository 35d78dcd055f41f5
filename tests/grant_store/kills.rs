//! A writer that is killed at any moment loses nothing that it has acknowledged, and leaves nothing half done.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gated::common::id::GrantId;
use gated::daemon::store::FILE;

use super::{Test, alice, grant, holder, live, open, run, stored};

pub const TESTS: &[Test] = &[
    ("what_was_acknowledged_survives_a_kill_and_what_was_revoked_stays_so", acknowledged),
    ("a_kill_while_the_store_is_made_leaves_one_that_can_be_used", while_it_is_made),
];

const ROUNDS: u64 = 40;

/// Adds a grant for each number, two at a time every third time, and revokes every fifth; says so when it is done.
pub fn write_until_killed(directory: &Path, first: u64) -> ! {
    run(async {
        let store = open(directory);
        let mut out = std::io::stdout();
        let mut say = |what: &str, number: u64| {
            out.write_all(format!("{what} {number}\n").as_bytes()).unwrap();
            out.flush().unwrap();
        };
        say("open", 0);
        let mut number = first;
        loop {
            let many = if number % 3 == 0 { 2 } else { 1 };
            let new = (number..number + many).map(|number| stored(grant(number), alice())).collect();
            store.add(new).await.unwrap();
            (number..number + many).for_each(|number| say("added", number));
            if number % 5 == 0 {
                store.revoke(&[GrantId(number)], "gatedctl:alice").await.unwrap();
                say("revoked", number);
            }
            number += many;
        }
    })
}

/// Lines that a writer has said when it is killed: so many, and what it says in this time besides.
fn killed_after(directory: &Path, first: u64, lines: usize, time: Duration) -> Vec<(String, u64)> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .arg("--writes-until-killed")
        .arg(directory)
        .arg(first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(writer.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let (what, number) = line.split_once(' ').expect("two words");
        said.push((what.to_owned(), number.parse().unwrap()));
        if said.len() == lines {
            std::thread::sleep(time);
            writer.kill().unwrap();
        }
    }
    writer.wait().unwrap();
    said
}

fn acknowledged() {
    let place = tempfile::tempdir().unwrap();
    let (mut added, mut revoked) = (Vec::new(), Vec::new());
    // Those on the disk when their writer was killed, acknowledged or not.
    let mut seen: Vec<u64> = Vec::new();
    let mut first = 0;
    for round in 0..ROUNDS {
        // Another moment each time, within some writes.
        let said =
            killed_after(place.path(), first, 1 + (round % 4) as usize, Duration::from_micros(round * 731 % 9_000));
        for (what, number) in &said {
            match what.as_str() {
                "added" => added.push(*number),
                "revoked" => revoked.push(*number),
                _ => {}
            }
        }
        let store = open(place.path());
        assert!(store.set_aside().is_none(), "round {round}: {:?}", store.set_aside());
        let found = live(&store, &alice());
        for number in &added {
            // A writer may have revoked one and not have come to say so.
            if revoked.contains(number) || number % 5 != 0 {
                assert_eq!(found.contains(number), !revoked.contains(number), "round {round}: grant {number}");
            }
        }
        for number in &found {
            let is_known = added.contains(number) || seen.contains(number) || *number >= first;
            assert!(is_known && store.live(&alice()).iter().any(|stored| *stored.terms() == grant(*number)));
        }
        seen.extend(&found);
        // Two that were added together are there together.
        for number in (0..found.last().map_or(0, |last| last + 1)).filter(|number| number % 3 == 0) {
            let pair = [number, number + 1].map(|one| found.contains(&one) || revoked.contains(&one) || one % 5 == 0);
            let is_pair = added.contains(&number) || found.contains(&number);
            assert!(!is_pair || pair[0] == pair[1], "round {round}: {number} is half there");
        }
        // What was not acknowledged may be there; it is not written again.
        first = found.last().map_or(0, |last| last + 1).max(added.last().map_or(0, |last| last + 1)).max(first);
        first += 3 - first % 3;
        assert!(live(&store, &holder(1001, "coder")).is_empty());
    }
    assert!(added.len() > 20, "the writer was killed too soon to say anything: {}", added.len());
    assert!(!revoked.is_empty());
}

fn while_it_is_made() {
    for round in 0..30_u64 {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().to_owned();
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .arg("--writes-until-killed")
            .arg(&directory)
            .arg("0")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(500 * round));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let store = open(&directory);
        assert!(store.set_aside().is_none(), "round {round}");
        assert!(store.path().ends_with(FILE));
    }
}
