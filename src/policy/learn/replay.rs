//! What was seen, held against a profile: what of it would go through. Pure.

use super::{Observation, Observations, Seen};
use crate::common::access::{Access, Level};
use crate::common::exec::{Command, Program, Step};
use crate::common::id::CallId;
use crate::common::path::RawPath;
use crate::policy::decide::{Policy, Verdict};
use crate::policy::grants::Grants;
use crate::policy::network::Reaching;

/// How much of it goes through.
#[derive(Clone, Debug, Default)]
pub struct Replayed<'a> {
    pub allowed: usize,
    pub asked: Vec<&'a Seen>,
    pub denied: Vec<&'a Seen>,
}

/// Everything that was done, under this policy.
pub fn replay<'a>(policy: &Policy, observations: &'a Observations) -> Replayed<'a> {
    let mut replayed = Replayed::default();
    for seen in observations.iter().filter(|seen| seen.what.outcome.permits()) {
        match verdict(policy, &seen.what).level {
            Level::Allow | Level::Notify => replayed.allowed = replayed.allowed.saturating_add(1),
            Level::Ask | Level::Authenticate => replayed.asked.push(seen),
            Level::Deny => replayed.denied.push(seen),
        }
    }
    replayed
}

/// What a policy says of something that was seen. Commands are judged without what their environment and interpreters are.
pub fn verdict(policy: &Policy, what: &Observation) -> Verdict {
    let (call, grants) = (CallId(0), Grants::new());
    let program = || Some(what.program.clone());
    match (&what.destination, what.access) {
        (Some(destination), Access::Bind) => {
            policy.decide_bind(&Reaching { destination, program: &program }, call, &grants)
        }
        (Some(destination), Access::Connect) => {
            policy.decide_connect(&Reaching { destination, program: &program }, call, &grants)
        }
        (_, Access::Unix) => policy.decide_unix(&what.object, what.service, call, &grants),
        (_, Access::Exec) => policy.decide_exec(&command(what), call, &grants),
        _ => policy.decide(what.access, &what.object, call, &grants),
    }
}

fn command(what: &Observation) -> Command {
    let is_of_system =
        ["/usr", "/bin", "/sbin", "/lib"].iter().any(|tree| what.object.is_within(&RawPath::from(*tree)));
    let program = Program { path: what.object.clone(), is_named: true, is_of_system };
    let argv = what.words.clone().unwrap_or_else(|| vec![what.object.file_name().to_vec()]);
    Command {
        asked: Step { program, argv },
        interpreters: Vec::new(),
        loader: None,
        operand: None,
        variables: Vec::new(),
        cwd: RawPath::from("/"),
        version: None,
    }
}
