//! The file of lasting answers: what a kill at any moment leaves of it, what damage does to it, and what it refuses. The kills
//! are of a process of its own: this program, re-executed.

mod damage;
mod kills;
mod rules;

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use gated::common::access::Access;
use gated::common::decision::{Effect, Lifetime};
use gated::common::id::GrantId;
use gated::common::moment::Expiry;
use gated::common::path::RawPath;
use gated::common::scope::Pattern;
use gated::daemon::store::{Holder, Store, Stored};
use gated::policy::{Grant, Scope};
use libtest_mimic::{Arguments, Trial};

pub type Test = (&'static str, fn());

const TESTS: &[(&str, &[Test])] = &[("damage", damage::TESTS), ("kills", kills::TESTS), ("rules", rules::TESTS)];

pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

pub fn holder(uid: u32, profile: &str) -> Holder {
    Holder { uid, profile: profile.to_owned() }
}

pub fn alice() -> Holder {
    holder(1000, "coder")
}

/// A persistent grant for one tree, by its number.
pub fn grant(number: u64) -> Grant {
    let tree = RawPath::new(format!("/srv/tree-{number}").into_bytes());
    Grant {
        id: GrantId(number),
        effect: Effect::Allow,
        access: Access::Write,
        scope: Scope::Paths(Pattern::tree_of(&tree)),
        object: tree,
        lifetime: Lifetime::Persistent,
        call: None,
        until: None,
        authenticated: false,
        group: None,
        by: "desktop:alice".into(),
        origin: None,
    }
}

pub fn until(number: u64, time: Duration) -> Grant {
    Grant { lifetime: Lifetime::Until, until: Some(Expiry::after(time)), ..grant(number) }
}

pub fn stored(grant: Grant, holder: Holder) -> Stored {
    Stored::new(grant, holder, "alice".into())
}

pub fn open(directory: &Path) -> Store {
    Store::open(directory).unwrap_or_else(|error| panic!("{error}"))
}

pub fn live(store: &Store, holder: &Holder) -> Vec<u64> {
    let mut ids: Vec<u64> = store.live(holder).iter().map(|stored| stored.id().0).collect();
    ids.sort_unstable();
    ids
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, directory, first] = args.as_slice()
        && flag == "--writes-until-killed"
    {
        kills::write_until_killed(Path::new(directory), first.parse().expect("a number"));
    }
    let trials = TESTS.iter().flat_map(|(module, tests)| {
        tests.iter().map(move |(name, test)| {
            Trial::test(format!("{module}::{name}"), move || {
                test();
                Ok(())
            })
        })
    });
    libtest_mimic::run(&Arguments::from_iter(args), trials.collect()).exit_code()
}
