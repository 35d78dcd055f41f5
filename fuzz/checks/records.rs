//! What is read back from files of gated's own, which somebody else may have written by then: lines of the audit log and of
//! events, scopes of lasting grants.

use gated::ctl::control::audit;
use gated::ctl::control::output::Output;
use gated::ctl::learning::told::{Learner, Source};
use gated::policy::lasting;

use super::text::is_clean;

/// Lines.
pub fn check(input: &[u8]) {
    let mut output = Output::new(false);
    output.width = Some(100);
    let mut learner = Learner::default();
    for line in input.split(|&byte| byte == b'\n') {
        for cell in audit::cells(&output, line).into_iter().flatten() {
            for limit in [None, Some(0), Some(7), Some(40)] {
                let shown = cell.shown(limit);
                assert!(is_clean(&shown), "{shown:?}");
            }
        }
        learner.take(line, Source::AuditLog);
        learner.take(line, Source::Events);
        if let Some(scope) = std::str::from_utf8(line).ok().and_then(|line| lasting::read(line).ok()) {
            let written = lasting::write(&scope).expect("what was read can be written");
            assert_eq!(lasting::read(&written).ok(), Some(scope), "{written}");
        }
    }
    for seen in learner.seen.iter() {
        assert!(!format!("{seen:?}").is_empty());
    }
}
