//! The plain cases: a read is held, asked, answered.

use crate::judge::{self, ASKS, SECRET};
use crate::support::Side;
use crate::{Inside, Test};

pub const TESTS: &[Test] = &[
    ("a_read_of_a_secret_waits_for_an_answer_and_a_no_holds", a_no_holds),
    ("a_yes_lets_exactly_this_read_go_on", a_yes_lets_it_go_on),
];

pub const INSIDE: &[Inside] = &[];

fn a_no_holds() {
    for name in [".ssh/id", ".ssh/deep/er/id", ".netrc", "work/.env", "work/web/.env.local"] {
        let mut sandbox = judge::sandbox(ASKS);
        judge::answering(&mut sandbox, "deny");
        let path = sandbox.home().join(name);
        for side in [Side::Bare, Side::Gated] {
            let outcome = sandbox.on(side, &["cat".as_ref(), path.as_os_str()]);
            outcome.assert(outcome.out().contains(SECRET) == (side == Side::Bare), "whether it was read");
            if side == Side::Gated {
                let asked =
                    outcome.events_of("consent_required").filter(|event| event["operation"] == "open-read").count();
                outcome.assert(asked == 1, "it was asked for once");
            }
        }
    }
}

fn a_yes_lets_it_go_on() {
    let mut sandbox = judge::sandbox(ASKS);
    judge::answering(&mut sandbox, "once");
    let outcome = sandbox.run(&["cat".as_ref(), sandbox.home().join(".ssh/id").as_os_str()]);
    outcome.assert(outcome.out().contains(SECRET), "it was read");
    outcome.assert_code(0);
}
