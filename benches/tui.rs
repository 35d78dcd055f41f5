//! What a frame of `gatedctl tui` costs with a thousand requests that wait, and what one more costs. No terminal: cells only,
//! and the bytes that would be written.

use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use gated::common::access::{Access, Level};
use gated::common::consent::{Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::text::Untrusted;
use gated::ctl::control::tui::entry::Asked;
use gated::ctl::control::tui::keys::Key;
use gated::ctl::control::tui::model::{Event, Model};
use gated::ctl::control::tui::view;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

fn asked(id: u128) -> Asked {
    let argv = (0..20).map(|word| Untrusted::new(format!("--word-{word}"))).collect();
    let request = Request {
        id: RequestId(id),
        session: SessionId("5e550000".into()),
        call: CallId(1),
        who: Who { pid: 9, program: "/usr/bin/npm".into(), argv, cwd: "/work".into() },
        access: Access::Write,
        operation: Operation::Create,
        object: RawPath::new(format!("/home/me/.npm/_cacache/content-v2/sha512/{id:08x}")),
        is_directory: false,
        other: None,
        level: Level::Ask,
        rule: RuleRef { profile: "p".into(), id: "r".into(), file: "p.toml".into(), line: 3, reason: None },
        remember: Lifetime::Session,
        remember_for: None,
        group: None,
        execution: None,
        destination: None,
        service: None,
    };
    let offers = [(Width::Exact, "/srv/x"), (Width::Directory, "/srv/*"), (Width::Tree, "/srv/**")];
    let offers = offers.map(|(width, scope)| Offer { width, scope: scope.to_owned() }).to_vec();
    Asked::new(0, Prompt::new(Rc::new(request), offers, Instant::now() + Duration::from_secs(500)))
}

fn frames(criterion: &mut Criterion) {
    for (name, size) in [("80x24", (80, 24)), ("200x60", (200, 60))] {
        let mut model = Model::new(0);
        model.event(Event::Queue((0..1000).map(asked).collect()), Instant::now());
        let options = || TerminalOptions { viewport: Viewport::Fixed(Rect::new(0, 0, size.0, size.1)) };
        let mut terminal = Terminal::with_options(CrosstermBackend::new(Vec::new()), options()).expect("memory");
        // Every line of the list and of the details changes.
        criterion.bench_function(&format!("a frame with 1,000 requests, {name}, after a key"), |bencher| {
            bencher.iter(|| {
                model.event(Event::Key { key: Key::PageDown, alone: true }, Instant::now());
                if model.queue.selected().is_some_and(|asked| asked.prompt.id.0 > 980) {
                    model.event(Event::Key { key: Key::Home, alone: true }, Instant::now());
                }
                let now = Instant::now();
                terminal
                    .draw(|frame| drop(black_box(view::draw(frame.buffer_mut(), &model, now, true))))
                    .expect("memory");
            });
        });
    }
    let mut model = Model::new(0);
    model.event(Event::Queue((0..1000).map(asked).collect()), Instant::now());
    let again: Vec<Asked> = (0..1000).map(asked).collect();
    criterion.bench_function("1,000 requests listed anew", |bencher| {
        bencher.iter(|| model.event(Event::Queue(again.clone()), Instant::now()));
    });
}

criterion_group!(benches, frames);
criterion_main!(benches);
