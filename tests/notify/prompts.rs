//! What is asked.

use std::rc::Rc;
use std::time::{Duration, Instant};

use gated::common::access::{Access, Level};
use gated::common::consent::{Offer, Prompt};
use gated::common::decision::{Lifetime, Width};
use gated::common::id::{CallId, RequestId, SessionId};
use gated::common::path::RawPath;
use gated::common::request::{Operation, Request, RuleRef, Who};
use gated::common::scope::Pattern;
use gated::common::text::Untrusted;

pub const HOME: &str = "/home/alice";

/// npm at work in a project of alice's.
pub fn request(number: u32, session: u32, object: &[u8]) -> Request {
    Request {
        id: RequestId(u128::from(number) << 96 | 0x5eed),
        session: SessionId(format!("{session:08x}")),
        call: CallId(1),
        who: Who {
            pid: 4711,
            program: "/usr/bin/npm".into(),
            argv: ["npm", "login", "--registry=https://packages.example/"].map(Untrusted::new).to_vec(),
            cwd: "/home/alice/project".into(),
        },
        access: Access::Write,
        operation: Operation::OpenWrite,
        object: RawPath::new(object),
        is_directory: false,
        other: None,
        level: Level::Ask,
        group: None,
        execution: None,
        destination: None,
        service: None,
        remember_for: None,
        rule: RuleRef {
            profile: "coder".into(),
            id: "credentials".into(),
            file: "/etc/gated/profiles/coder.toml".into(),
            line: 31,
            reason: Some("Holds the keys to your account.".into()),
        },
        remember: Lifetime::Session,
    }
}

pub fn prompt(request: Request) -> Prompt {
    let parent = request.object.parent().unwrap_or_default();
    let offers = [
        (Width::Exact, Pattern::literal(&request.object)),
        (Width::Directory, Pattern::children_of(&parent)),
        (Width::Tree, Pattern::tree_of(&parent)),
    ];
    let offers = offers.map(|(width, pattern)| Offer { width, scope: pattern.to_string() }).to_vec();
    Prompt::new(Rc::new(request), offers, Instant::now() + Duration::from_secs(60))
}

pub fn npmrc(number: u32, session: u32) -> Prompt {
    prompt(request(number, session, b"/home/alice/.npmrc"))
}
