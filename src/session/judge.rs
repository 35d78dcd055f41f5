//! From resolved objects to a permit: policy, grants, and where they do not suffice a question or a record.
//!
//! Runs as the user in the supervisor. Nothing is performed without a [`Permit`], and only this file makes one.

mod questions;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use tracing::warn;

use self::questions::{Asker, Question};
use super::calls::Call;
use super::floor::Scratch;
use super::held::Held;
use super::listener::Answer;
use super::target::Unreadable;
use super::upstream::Upstream;
pub use super::wanted::{Reach, Wanted};
use super::wanted::{execution_of, who_of};
use crate::common::access::{Access, Level};
use crate::common::decision::{Decision, Effect, Outcome};
use crate::common::errno::Errno;
use crate::common::exec::Command;
use crate::common::id::{CallId, GrantId, SessionId};
use crate::common::net::Destination;
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request, RuleRef, Who};
use crate::common::wire::{FromSession, Published, Record};
use crate::policy::decide::{Policy, Source, Verdict};
use crate::policy::grants::{Grant, Grants};
use crate::policy::network::Reaching;
use crate::policy::regions;

/// The rule by which what was exchanged is killed.
const EXCHANGED: &str = "built-in:exchanged";

/// Proof that policy, a grant or a person said yes to every object of this attempt, and that it stands in the records
/// where it has to.
#[derive(Debug)]
pub struct Permit(());

/// What was said yes to while this attempt waits; it holds for this attempt alone.
#[derive(Debug, Default)]
pub struct Approvals {
    yes: Vec<(Wanted, Level)>,
    names_moved: bool,
}

impl Approvals {
    /// A directory is not where its path said, so from now on the kernel is asked where each is.
    pub fn look_again(&mut self) {
        self.names_moved = true;
    }

    pub fn names_moved(&self) -> bool {
        self.names_moved
    }

    /// Whether it was this that somebody said yes to, and no less was needed for it: the object, what is done with it, and
    /// where it goes.
    fn cover(&self, wanted: &Wanted, level: Level) -> bool {
        self.yes.iter().any(|(approved, at)| {
            level <= *at
                && (&approved.object, approved.operation, &approved.other, approved.is_directory)
                    == (&wanted.object, wanted.operation, &wanted.other, wanted.is_directory)
                && approved.command == wanted.command
                && (&approved.destination, approved.service) == (&wanted.destination, wanted.service)
        })
    }
}

/// Why there is no permit.
#[derive(Debug)]
pub enum Halt {
    /// This is the tool's answer.
    Answer(Answer),
    /// Somebody said yes after a while: resolve again, since names may lead elsewhere now.
    Again,
    /// The thread is gone.
    Gone,
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Halt {
        Halt::Answer(Answer::Errno(errno))
    }
}

impl From<Unreadable> for Halt {
    fn from(unreadable: Unreadable) -> Halt {
        match unreadable {
            Unreadable::Native(errno) => errno.into(),
            Unreadable::Gone => Halt::Gone,
        }
    }
}

/// The judge of one session.
pub struct Judge {
    policy: Policy,
    /// What alone holds a session back that learns.
    limits: Option<Policy>,
    scratch: Scratch,
    grants: RwLock<Grants>,
    session: SessionId,
    workspace: RawPath,
    upstream: Upstream,
    parked: Mutex<HashMap<Asker, (Instant, Question)>>,
    /// What stands in the records, of what does once.
    recorded: Mutex<HashSet<Recorded>>,
}

/// A grant that decided, and who gave it.
type Given = (GrantId, String);

/// Who decided, for the records: with the grant, where an earlier answer did.
#[derive(Debug, Default)]
struct By {
    grant: Option<GrantId>,
    who: String,
}

/// What was recorded: by which grant, for which call, and what.
type Recorded = (Option<GrantId>, CallId, Access, RawPath);

/// Of more than these, some are recorded again.
const RECORDS_REMEMBERED: usize = 16_384;

impl Judge {
    pub fn new(policy: Policy, scratch: Scratch, session: SessionId, workspace: RawPath) -> Judge {
        Judge {
            policy,
            limits: None,
            scratch,
            grants: RwLock::default(),
            session,
            workspace,
            upstream: Upstream::default(),
            parked: Mutex::default(),
            recorded: Mutex::default(),
        }
    }

    /// A judge who asks nobody: what is not denied by these, made of [`crate::policy::learn::limits`], is done and recorded.
    pub fn learning(self, limits: Option<Policy>) -> Judge {
        Judge { limits, ..self }
    }

    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether names at any depth are protected, so that whoever moves a directory has to list what is below.
    pub fn guards_names_anywhere(&self) -> bool {
        self.policy.has_floating(Access::Write)
            || self.grants.read().unwrap_or_else(PoisonError::into_inner).denies_names_anywhere(Access::Write)
    }

    /// Whether one of those rules speaks about this name, whatever was granted.
    pub fn guards_name(&self, name: &RawPath) -> bool {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        self.policy.floating(Access::Write, name, CallId(0), &grants).is_some()
    }

    /// Whether sockets in a directory are judged less strictly when it is moved there, by a rule that speaks of them here.
    pub fn frees_sockets(&self, directory: &RawPath, there: &RawPath) -> bool {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        self.policy.guards_sockets(directory, &grants) > self.policy.guards_sockets(there, &grants)
    }

    /// Whether policy may hold a read of this path, whatever was granted.
    pub fn guards_read(&self, path: &RawPath) -> bool {
        self.policy.guards_read(path)
    }

    /// Whether it may hold reads in this tree that it does not name one by one.
    pub fn guards_reads_below(&self, tree: &RawPath) -> bool {
        self.policy.guards_reads_below(tree)
    }

    /// Whether it names places below this one at which it may hold reads.
    pub fn guards_reads_named_below(&self, tree: &RawPath) -> bool {
        self.policy.guards_reads_named_below(tree)
    }

    /// Whether it holds any read.
    pub fn guards_reads(&self) -> bool {
        regions::judges_reads(self.policy.profile())
    }

    /// A permit for all of these objects, or what stands against it. `foresee` says which error the kernel would give
    /// anyway; it is asked before a person is, and where policy denies, so that consent is only asked for what can happen.
    pub fn permit(
        &self,
        target: &dyn Held,
        wanted: &[Wanted],
        approvals: &mut Approvals,
        foresee: impl Fn() -> Option<Errno>,
    ) -> Result<Permit, Halt> {
        let mut to_record = Vec::new();
        for wanted in wanted {
            if wanted.access == Access::Write && self.scratch.covers(&wanted.object, wanted.device) {
                continue;
            }
            let (mut verdict, call, granted_by) = self.verdict(target, wanted)?;
            if verdict.level == Level::Allow && self.is_of_the_host(&verdict, wanted) {
                verdict.level = Level::Ask;
            }
            if let Some(limits) = self.limits.as_ref().filter(|_| verdict.level > Level::Notify) {
                // What cannot happen anyway is nothing to be learned.
                if let Some(errno) = foresee() {
                    return Err(errno.into());
                }
                match self.limit(limits, target, wanted, call) {
                    // Kept by what it would have been.
                    None if self.was_recorded(wanted, call, None) => continue,
                    None => {
                        to_record.push((wanted, verdict, call, Outcome::Allowed, None));
                        continue;
                    }
                    Some(denied) => verdict = denied,
                }
            }
            match verdict.level {
                Level::Allow | Level::Notify | Level::Ask | Level::Authenticate
                    if approvals.cover(wanted, verdict.level) => {}
                Level::Allow if matches!(verdict.basis, Source::Scratch(_)) => {}
                Level::Allow if granted_by.is_none() && self.is_ordinary(wanted) => {}
                Level::Allow if self.was_recorded(wanted, call, granted_by.as_ref()) => {}
                Level::Allow | Level::Notify => {
                    let outcome = if granted_by.is_some() { Outcome::Granted } else { Outcome::Allowed };
                    to_record.push((wanted, verdict, call, outcome, granted_by));
                }
                Level::Ask | Level::Authenticate => {
                    if let Some(errno) = foresee() {
                        return Err(errno.into());
                    }
                    self.ask(target, wanted, &verdict)?;
                    approvals.yes.push((wanted.clone(), verdict.level));
                    return Err(Halt::Again);
                }
                Level::Deny => {
                    // What there is to be reached is nobody's business who may not reach it.
                    let tells = !matches!(wanted.access, Access::Connect | Access::Bind);
                    if let Some(errno) = tells.then(&foresee).flatten() {
                        return Err(errno.into());
                    }
                    let (grant, who) = granted_by.unzip();
                    let by = By { grant, who: who.unwrap_or_default() };
                    self.record(target, wanted, &verdict, call, Outcome::NotPermitted, by)?;
                    return Err(Errno::ACCES.into());
                }
            }
        }
        for (wanted, verdict, call, outcome, grant) in to_record {
            let (id, who) = grant.unzip();
            let by = By { grant: id, who: who.unwrap_or_default() };
            if !self.record(target, wanted, &verdict, call, outcome, by)? {
                return Err(Errno::ACCES.into());
            }
            self.remember_record(wanted, call, id);
        }
        Ok(Permit(()))
    }

    /// Whether what policy allows by itself needs no record: reads, programs, and changes in the workspace.
    fn is_ordinary(&self, wanted: &Wanted) -> bool {
        match wanted.access {
            Access::Read | Access::Exec => true,
            Access::Write => wanted.object.is_within(&self.workspace),
            Access::Connect | Access::Bind | Access::Unix => false,
        }
    }

    /// What may happen thousands of times, each alike, is recorded once for each call and object: reads by a grant, and
    /// what is reached.
    fn is_recorded_once(wanted: &Wanted) -> bool {
        !matches!(wanted.access, Access::Write | Access::Exec)
    }

    fn was_recorded(&self, wanted: &Wanted, call: CallId, grant: Option<&Given>) -> bool {
        Judge::is_recorded_once(wanted)
            && self.recorded().contains(&(grant.map(|(id, _)| *id), call, wanted.access, wanted.object.clone()))
    }

    fn remember_record(&self, wanted: &Wanted, call: CallId, grant: Option<GrantId>) {
        if !Judge::is_recorded_once(wanted) {
            return;
        }
        let mut recorded = self.recorded();
        if recorded.len() >= RECORDS_REMEMBERED {
            recorded.clear();
        }
        recorded.insert((grant, call, wanted.access, wanted.object.clone()));
    }

    fn recorded(&self) -> MutexGuard<'_, HashSet<Recorded>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether scratch would be the reason to allow this, but its path is that of something else than the session's scratch.
    fn is_of_the_host(&self, verdict: &Verdict, wanted: &Wanted) -> bool {
        let (Source::Scratch(at), Some(device)) = (verdict.basis, wanted.device) else { return false };
        let root = self.policy.profile().scratch.get(at);
        let own = root.and_then(|root| rustix::fs::stat(root.as_path()).ok()).map(|stat| stat.st_dev);
        own != Some(device) && !wanted.object.is_within(&self.workspace)
    }

    /// A permit for an object that has no name in any file system: a pipe, a socket, a memfd.
    pub fn permit_nameless(&self) -> Permit {
        Permit(())
    }

    /// A permit for what stays within the session: a socket that is served by one of its own processes.
    pub fn permit_within_session(&self) -> Permit {
        Permit(())
    }

    /// The strictest verdict on the object and on what its change touches besides, and the grant, with who gave it, if one decided.
    fn verdict(&self, target: &dyn Held, wanted: &Wanted) -> Result<(Verdict, CallId, Option<Given>), Halt> {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        let call = if grants.is_empty() { target.main_call() } else { target.call_id()? };
        let strictest = self.strictest(&self.policy, target, wanted, call, &grants);
        let by = match strictest.source {
            Source::Grant(at) => grants.get(at).map(|grant| (grant.id, grant.by.clone())),
            Source::Denial(id) => grants.of(id).map(|grant| (grant.id, grant.by.clone())),
            _ => None,
        };
        Ok((strictest, call, by))
    }

    /// What denies this to a session that learns: the ceiling, what is built in, and what somebody has blocked. Nobody is
    /// asked, so what would have to be is denied.
    fn limit(&self, limits: &Policy, target: &dyn Held, wanted: &Wanted, call: CallId) -> Option<Verdict> {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        let verdict = self.strictest(limits, target, wanted, call, &grants);
        (verdict.level > Level::Notify).then_some(Verdict { level: Level::Deny, ..verdict })
    }

    fn strictest(&self, policy: &Policy, target: &dyn Held, wanted: &Wanted, call: CallId, grants: &Grants) -> Verdict {
        let mut strictest = match &wanted.command {
            Some(command) => policy.decide_exec(command, call, grants),
            None => verdict_on_object(policy, target, wanted, call, grants),
        };
        let mut consider = |other: Verdict| {
            if other.level > strictest.level {
                strictest = other;
            }
        };
        let below = match wanted.reach {
            Reach::Object => None,
            Reach::Below => policy.below(Access::Write, &wanted.object, call, grants),
            Reach::Link => policy.below_link(Access::Write, &wanted.object, call, grants),
        };
        let moved = wanted
            .moved
            .iter()
            .filter(|path| !self.scratch.covers(path, None))
            .filter_map(|path| policy.floating(Access::Write, path, call, grants));
        below.into_iter().chain(moved).for_each(&mut consider);
        strictest
    }

    /// What the verdict on this would be; nobody is asked, and nothing recorded.
    pub fn level_of(&self, target: &dyn Held, wanted: &Wanted) -> Result<Level, Halt> {
        let (verdict, call, _) = self.verdict(target, wanted)?;
        let limits = self.limits.as_ref().filter(|_| verdict.level > Level::Notify);
        Ok(match limits.map(|limits| self.limit(limits, target, wanted, call)) {
            Some(limit) => limit.map_or(Level::Allow, |denied| denied.level),
            None => verdict.level,
        })
    }

    /// Whether a rule or a grant for `bind` speaks of this destination.
    pub fn speaks_of_bind(&self, target: &dyn Held, destination: &Destination) -> Result<bool, Halt> {
        let call = target.call_id()?;
        let program = || target.who().ok().map(|who| who.program);
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        Ok(self.policy.speaks_of_bind(&Reaching { destination, program: &program }, call, &grants))
    }

    /// The broker's decision. What it grants is remembered before anybody goes on. One for a question that nobody waits for
    /// any more means nothing.
    pub fn decided(&self, decision: Decision) {
        if let Some(question) = self.upstream.answered(decision.request) {
            self.keep(&question.request, &decision);
            question.answer(decision);
        }
    }

    /// Remembers an answer that outlives its attempt. What does not decode, or is about something else, or says the opposite,
    /// is good for the attempt alone.
    fn keep(&self, request: &Request, decision: &Decision) {
        let Some(grant) = decision.grant.as_deref().and_then(|bytes| Grant::decode(bytes).ok()) else { return };
        let is_meant = match grant.effect {
            Effect::Allow => decision.outcome == Outcome::Approved,
            Effect::Deny => decision.outcome == Outcome::Denied,
        };
        if is_meant && grant.answers(request) {
            self.change_grants(|grants| grants.add(grant));
        }
    }

    /// A grant from elsewhere: it was there before the session, or somebody gave it unasked.
    pub fn granted(&self, bytes: &[u8]) {
        match Grant::decode(bytes) {
            Ok(grant) => {
                self.change_grants(|grants| grants.add(grant));
            }
            Err(error) => warn!(%error, "a grant is not kept"),
        }
    }

    /// Forgets a grant.
    pub fn revoke(&self, id: GrantId) {
        self.change_grants(|grants| grants.revoke(id));
    }

    /// Nobody is left of a call.
    pub fn end_call(&self, call: &Call) {
        self.end_calls(call.ids());
    }

    /// The same, of these.
    pub fn end_calls(&self, ids: Vec<CallId>) {
        self.change_grants(|grants| ids.iter().for_each(|id| grants.end_call(*id)));
        // A broker that is gone is told all that is left when it is back.
        self.upstream.tell(&FromSession::CallsOver(ids));
    }

    /// Takes what whoever opened the session said of being reached as answers that are there from its start.
    pub fn publish(&self, published: &[Published]) {
        self.change_grants(|grants| {
            for one in published {
                grants.add(Grant::published(one.grant, one.address, &one.by));
            }
        });
    }

    /// All grants as they are.
    pub fn grants(&self) -> Vec<Grant> {
        self.grants.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn change_grants<T>(&self, change: impl FnOnce(&mut Grants) -> T) -> T {
        change(&mut self.grants.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a verdict of our own into the records; `false` if it could not be written.
    fn record(
        &self,
        target: &dyn Held,
        wanted: &Wanted,
        verdict: &Verdict,
        call: CallId,
        outcome: Outcome,
        by: By,
    ) -> Result<bool, Halt> {
        let who = who_of(target, wanted)?;
        let execution = execution_of(target, wanted)?;
        Ok(self.upstream.record(|number| Record {
            number,
            call,
            who,
            access: wanted.access,
            operation: wanted.operation,
            object: wanted.object.clone(),
            other: wanted.other.clone(),
            rule: self.policy.rule(verdict),
            level: verdict.level,
            execution,
            destination: wanted.destination.as_deref().cloned().map(Box::new),
            service: wanted.service,
            outcome,
            by: by.who,
            grant: by.grant,
        }))
    }

    /// Something else was executed than was judged, and killed before its first instruction.
    pub fn record_exchanged(&self, target: &dyn Held, who: Who, command: &Command) {
        let rule = RuleRef {
            profile: self.policy.profile().name.clone(),
            id: EXCHANGED.to_owned(),
            file: self.policy.profile().file.clone(),
            line: 0,
            reason: Some("What was executed was not what was judged; it was killed before it ran.".to_owned()),
        };
        let call = target.call_id().unwrap_or_else(|_| target.main_call());
        // It is dead already, whether that can be recorded or not.
        self.upstream.record(|number| Record {
            number,
            call,
            who,
            access: Access::Exec,
            operation: Operation::Execute,
            object: command.asked.program.path.clone(),
            other: None,
            rule,
            level: Level::Deny,
            execution: None,
            destination: None,
            service: None,
            outcome: Outcome::NotPermitted,
            by: String::new(),
            grant: None,
        });
    }
}

fn verdict_on_object(policy: &Policy, target: &dyn Held, wanted: &Wanted, call: CallId, grants: &Grants) -> Verdict {
    let program = || target.who().ok().map(|who| who.program);
    match (&wanted.destination, wanted.access) {
        (Some(destination), Access::Bind) => {
            policy.decide_bind(&Reaching { destination, program: &program }, call, grants)
        }
        (Some(destination), _) => policy.decide_connect(&Reaching { destination, program: &program }, call, grants),
        (None, Access::Unix) => policy.decide_unix(&wanted.object, wanted.service, call, grants),
        (None, _) => policy.decide(wanted.access, &wanted.object, call, grants),
    }
}
