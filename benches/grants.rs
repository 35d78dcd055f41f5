//! Time of finding an answer among many: in a session with 4,096 lasting grants, on attempts that one of them decides and that
//! none does; and in a store of 100,000. The target is 50 µs or less.

use std::hint::black_box;
use std::rc::Rc;

use criterion::{Criterion, criterion_group, criterion_main};
use gated::common::access::Access;
use gated::common::decision::{Effect, Lifetime};
use gated::common::id::{CallId, GrantId};
use gated::common::net::{Destination, HostName, Knowledge, Named, Ports, Transport};
use gated::common::path::RawPath;
use gated::common::scope::Pattern;
use gated::daemon::store::{Holder, Store, Stored};
use gated::policy::network::Reaching;
use gated::policy::{Context, Grant, Grants, HostScope, Policy, ProfileSelector, Scope, ScopeHost, load};

fn grant(number: u64, effect: Effect, access: Access, object: &str, scope: Scope) -> Grant {
    Grant {
        id: GrantId(number),
        effect,
        access,
        object: RawPath::from(object),
        scope,
        lifetime: Lifetime::Persistent,
        call: None,
        until: None,
        authenticated: false,
        group: None,
        by: "gatedctl:user".into(),
        origin: None,
    }
}

fn pattern(text: &str) -> Pattern {
    match Pattern::parse(text) {
        Ok(pattern) => pattern,
        Err(error) => panic!("{error}"),
    }
}

fn name(text: &str) -> HostName {
    match text.parse() {
        Ok(name) => name,
        Err(error) => panic!("{error}"),
    }
}

fn policy() -> Policy {
    let context = Context {
        home: RawPath::from("/home/user"),
        user: "user".to_owned(),
        cwd: RawPath::from("/home/user/src/project"),
    };
    let read = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    match load(ProfileSelector::Name("coder".into()), &context, &read) {
        Ok(profile) => Policy::new(&profile),
        Err(error) => panic!("{error}"),
    }
}

/// Of every form.
fn many() -> Grants {
    let mut grants = Grants::new();
    for number in 0..4096_u64 {
        let tree = format!("/srv/site-{number}");
        let effect = if number % 7 == 0 { Effect::Deny } else { Effect::Allow };
        let (access, object, scope) = match number % 4 {
            0 => (Access::Write, format!("{tree}/x"), Scope::Paths(pattern(&format!("{tree}/x")))),
            1 => (Access::Write, tree.clone(), Scope::Paths(pattern(&format!("{tree}/**")))),
            2 => (Access::Write, format!("{tree}/*"), Scope::Paths(pattern(&format!("{tree}/*")))),
            _ => {
                let host = ScopeHost::Domain(name(&format!("site-{number}.example.org")));
                let scope = HostScope { host, ports: Ports::ANY, transport: Transport::Tcp, program: None };
                (Access::Connect, format!("site-{number}.example.org:*"), Scope::Host(scope))
            }
        };
        grants.add(grant(number, effect, access, &object, scope));
    }
    grants
}

fn session(criterion: &mut Criterion) {
    let (policy, grants) = (policy(), many());
    let mut group = criterion.benchmark_group("grants/4096-in-a-session");
    for (what, path) in [
        ("file-granted", "/srv/site-4000/x"),
        ("tree-granted", "/srv/site-4093/deep/below/file.rs"),
        ("denied", "/srv/site-4081/deep/below/file.rs"),
        ("asked", "/srv/nobody/deep/below/file.rs"),
    ] {
        let path = RawPath::from(path);
        group.bench_function(what, |bencher| {
            bencher.iter(|| policy.decide(Access::Write, black_box(&path), CallId(1), &grants));
        });
    }
    for (what, host) in [("host-granted", "a.b.site-4095.example.org"), ("host-asked", "a.b.nobody.example.com")] {
        let names = vec![Named { name: name(host), by: Knowledge::Resolved }];
        let destination = Destination::address(([192, 0, 2, 1], 443).into(), Transport::Tcp, names);
        group.bench_function(what, |bencher| {
            let reaching = Reaching { destination: black_box(&destination), program: &|| None };
            bencher.iter(|| policy.decide_connect(&reaching, CallId(1), &grants));
        });
    }
    group.bench_function("directory-moved", |bencher| {
        let path = RawPath::from("/srv/other");
        bencher.iter(|| policy.below(Access::Write, black_box(&path), CallId(1), &grants));
    });
    group.finish();
}

fn store(criterion: &mut Criterion) {
    let place = match tempfile::tempdir() {
        Ok(place) => place,
        Err(error) => panic!("{error}"),
    };
    let store = match Store::open(place.path()) {
        Ok(store) => store,
        Err(error) => panic!("{error}"),
    };
    let holder =
        |number: u64| Holder { uid: 1000 + u32::try_from(number).unwrap_or_default(), profile: "coder".to_owned() };
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("{error}"),
    };
    for of in 0..25_u64 {
        let new = (0..4000_u64).map(|number| {
            let tree = format!("/srv/site-{number}");
            let scope = Scope::Paths(pattern(&format!("{tree}/**")));
            Stored::new(
                grant(of * 4000 + number, Effect::Allow, Access::Write, &tree, scope),
                holder(of),
                "user".into(),
            )
        });
        if let Err(error) = runtime.block_on(store.add(new.collect())) {
            panic!("{error}");
        }
    }
    // One that has few, among all the others.
    let few = (0..20_u64).map(|number| {
        let tree = format!("/srv/few-{number}");
        let scope = Scope::Paths(pattern(&format!("{tree}/**")));
        Stored::new(grant(900_000 + number, Effect::Allow, Access::Write, &tree, scope), holder(99), "user".into())
    });
    if let Err(error) = runtime.block_on(store.add(few.collect())) {
        panic!("{error}");
    }
    let mut group = criterion.benchmark_group("grants/100000-in-the-store");
    group.bench_function("by-id", |bencher| {
        bencher.iter(|| store.get(black_box(GrantId(77_777))).map(|stored| Rc::strong_count(&stored)));
    });
    let own = holder(99);
    group.bench_function("of-a-holder-with-20", |bencher| bencher.iter(|| store.live(black_box(&own)).len()));
    group.finish();
    drop(store);
    let mut group = criterion.benchmark_group("grants/100000-in-the-store");
    group.sample_size(10);
    group.bench_function("opened-and-checked", |bencher| {
        bencher.iter(|| Store::open(place.path()).map(|store| store.all().len()).unwrap_or_default());
    });
    group.finish();
}

criterion_group!(benches, session, store);
criterion_main!(benches);
