//! Everything that a policy says of one attempt: the verdict, what else matches, and what an answer could change. Pure; runs
//! for whoever reads or writes a policy, and in the daemon for the owner of a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::decision::{Lifetime, Term};
use crate::common::exec::{Command, Execution};
use crate::common::id::{CallId, GrantId, RequestId, SessionId};
use crate::common::mask;
use crate::common::net::{Destination, Service, Zone};
use crate::common::path::RawPath;
use crate::common::request::{Operation, Request, Who};
use crate::common::text::{self, Untrusted};

use super::decide::{Policy, Source, Verdict};
use super::grants::{self, Bounds, Grant, Grants};
use super::model::{Defaults, Profile, Rule};
use super::network::Reaching;
use super::programs::Follow;

/// Columns of a command line in an explanation, at the most.
const SHOWN_COLUMNS: usize = 400;
/// Rules that are named besides the one that decides, at the most.
const MOST_ALSO: usize = 32;

/// An attempt that nobody makes.
#[derive(Clone, Debug)]
pub struct Question {
    pub what: Asked,
    /// What is taken for granted, in words.
    pub assumed: Option<String>,
}

/// What would be done.
#[derive(Clone, Debug)]
pub enum Asked {
    /// `access` is `read` or `write`; the path is canonical.
    Path {
        access: Access,
        path: RawPath,
        is_directory: bool,
    },
    Exec(Box<Command>),
    /// `access` is `connect` or `bind`.
    Reach {
        access: Access,
        destination: Box<Destination>,
    },
    Socket {
        path: RawPath,
        service: Option<Service>,
    },
}

/// A rule that matches, in JSON and on the bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matching {
    pub level: Level,
    pub rule: String,
    pub file: String,
    /// From 1; 0 where there is no line.
    pub line: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it is the admin's limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ceiling: bool,
}

/// What an answer could change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "changes", rename_all = "snake_case")]
pub enum Lift {
    /// Nothing: it happens without a question.
    Unneeded,
    /// An answer was given already, and this is what it says.
    Given { grant: String },
    /// Nothing: no answer lifts a `deny`.
    Never,
    /// Somebody may let it through.
    Answer {
        /// Whether they have to prove who they are.
        proof: bool,
        /// Whose members answer, instead of the session's user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<String>,
        longest: Lifetime,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        longest_ms: Option<u64>,
        /// How far it may reach, from narrow to wide.
        offers: Vec<Offer>,
    },
}

/// A width that an answer may have, and what it would cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub width: String,
    pub scope: String,
}

/// All that is said of a question; text of tools and files is escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub access: Access,
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
    /// The rule that decides; its level is the verdict's.
    #[serde(flatten)]
    pub decided: Matching,
    /// The words that the rule speaks of, where they are not those of the command itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Rules that match besides it, the strictest first.
    pub also: Vec<Matching>,
    /// Those of them that are not in the list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// What `[defaults]` says of such an access.
    pub default: Level,
    /// The level that it would have without the ceiling, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_ceiling: Option<Level>,
    pub answer: Lift,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Question {
    pub fn of(what: Asked) -> Question {
        Question { what, assumed: None }
    }

    pub fn access(&self) -> Access {
        match &self.what {
            Asked::Path { access, .. } | Asked::Reach { access, .. } => *access,
            Asked::Exec(_) => Access::Exec,
            Asked::Socket { .. } => Access::Unix,
        }
    }

    /// As requests call it.
    pub fn object(&self) -> RawPath {
        match &self.what {
            Asked::Path { path, .. } | Asked::Socket { path, .. } => path.clone(),
            Asked::Exec(command) => command.asked.program.path.clone(),
            Asked::Reach { destination, .. } => destination.object(),
        }
    }

    /// The verdict. A listening socket that no rule speaks of is in the session's own network alone, which this does not know:
    /// see [`Question::is_own_network`].
    pub fn verdict(&self, policy: &Policy, grants: &Grants) -> Verdict {
        let call = CallId(0);
        match &self.what {
            Asked::Path { access, path, .. } => policy.decide(*access, path, call, grants),
            Asked::Exec(command) => policy.decide_exec(command, call, grants),
            Asked::Reach { access: Access::Bind, destination } => {
                policy.decide_bind(&by_nobody(destination), call, grants)
            }
            Asked::Reach { destination, .. } => policy.decide_connect(&by_nobody(destination), call, grants),
            Asked::Socket { path, service } => policy.decide_unix(path, *service, call, grants),
        }
    }

    /// Whether it would listen in the session's own network, where nobody is asked.
    pub fn is_own_network(&self, policy: &Policy, grants: &Grants) -> bool {
        match &self.what {
            Asked::Reach { access: Access::Bind, destination } => {
                destination.ip().is_some_and(|ip| Zone::of(ip) == Zone::Loopback)
                    && !policy.speaks_of_bind(&by_nobody(destination), CallId(0), grants)
            }
            _ => false,
        }
    }

    /// The level that holds: [`Question::verdict`], and `allow` in the session's own network.
    pub fn level(&self, policy: &Policy, grants: &Grants) -> Level {
        if self.is_own_network(policy, grants) { Level::Allow } else { self.verdict(policy, grants).level }
    }

    /// Positions of the rules that speak of it, in the profile's order. `follow` as in [`Policy::following`].
    pub fn matching(&self, profile: &Profile, follow: &Follow<'_>) -> Vec<usize> {
        let access = self.access();
        let free = Level::Allow;
        let bare = Profile {
            rules: Vec::new(),
            protected: Vec::new(),
            scratch: Vec::new(),
            defaults: Defaults { read: free, write: free, exec: free, connect: free, bind: free, unix: free },
            ..profile.clone()
        };
        let speaks = |rule: &Rule| match &self.what {
            Asked::Path { path, .. } => rule.matches(path),
            Asked::Socket { path, service } => {
                let is_hole = rule.except.iter().any(|hole| hole.matches(path));
                let of_service = service.is_some_and(|service| rule.services.contains(&service));
                !is_hole && (of_service || rule.path.iter().any(|pattern| pattern.matches(path)))
            }
            // Alone, a rule decides whatever it speaks of.
            Asked::Exec(_) | Asked::Reach { .. } => {
                let alone = Profile { rules: vec![rule.clone()], ..bare.clone() };
                let verdict = self.verdict(&Policy::following(&alone, follow), &Grants::new());
                matches!(verdict.basis, Source::Rule(_))
            }
        };
        let rules = profile.rules.iter().enumerate().filter(|(_, rule)| rule.access.contains(&access));
        rules.filter(|(_, rule)| speaks(rule)).map(|(at, _)| at).collect()
    }

    /// Everything, with these grants alive.
    pub fn explain(&self, policy: &Policy, grants: &Grants, follow: &Follow<'_>) -> Explanation {
        let profile = policy.profile();
        let verdict = self.verdict(policy, grants);
        let rule = policy.rule(&verdict);
        let mut explanation = Explanation {
            access: self.access(),
            object: self.shown(),
            assumed: self.assumed.clone(),
            decided: Matching {
                level: verdict.level,
                rule: rule.id,
                file: text::escaped(rule.file.as_bytes()),
                line: rule.line,
                reason: rule.reason,
                ceiling: is_ceiling(profile, verdict.basis),
            },
            words: self.words_meant(policy, &verdict),
            also: Vec::new(),
            more: 0,
            default: profile.defaults.level(self.access()),
            without_ceiling: self.without_ceiling(policy, grants, follow),
            answer: self.lift(policy, &verdict, grants),
        };
        if self.is_own_network(policy, grants) {
            let why = "no rule speaks of it: in the session's own network alone";
            explanation.assumed = Some(why.to_owned());
            explanation.decided = Matching {
                level: Level::Allow,
                rule: "built-in:own-network".to_owned(),
                line: 0,
                reason: None,
                ceiling: false,
                file: explanation.decided.file,
            };
            explanation.answer = Lift::Unneeded;
        }
        let decides = |at: &usize| verdict.basis == Source::Rule(*at);
        let others = self.matching(profile, follow).into_iter().filter(|at| !decides(at));
        let mut also: Vec<Matching> = others.filter_map(|at| profile.rules.get(at)).map(Matching::of).collect();
        also.sort_by_key(|matching| std::cmp::Reverse(matching.level));
        explanation.more = also.len().saturating_sub(MOST_ALSO);
        also.truncate(MOST_ALSO);
        explanation.also = also;
        explanation
    }

    /// The object as it is shown: of a command its words and its program, secrets masked.
    fn shown(&self) -> String {
        match &self.what {
            Asked::Exec(command) => {
                let words: Vec<Untrusted> =
                    command.asked.argv.iter().map(|word| Untrusted::new(word.clone())).collect();
                let masked = mask::argv(&words);
                let words = text::quoted_argv_within(masked.iter().map(Untrusted::as_bytes), SHOWN_COLUMNS);
                format!("{words} ({})", text::escaped(command.asked.program.path.as_bytes()))
            }
            Asked::Socket { path, service: Some(service) } => {
                format!("{} ({service})", text::escaped(path.as_bytes()))
            }
            _ => text::escaped(self.object().as_bytes()),
        }
    }

    fn words_meant(&self, policy: &Policy, verdict: &Verdict) -> Option<String> {
        let Asked::Exec(command) = &self.what else { return None };
        let words: Vec<Untrusted> = policy.words_meant(command, verdict)?.into_iter().map(Untrusted::new).collect();
        let masked = mask::argv(&words);
        Some(text::quoted_argv_within(masked.iter().map(Untrusted::as_bytes), SHOWN_COLUMNS))
    }

    fn without_ceiling(&self, policy: &Policy, grants: &Grants, follow: &Follow<'_>) -> Option<Level> {
        let profile = policy.profile();
        if !profile.rules.iter().any(|rule| rule.is_ceiling) {
            return None;
        }
        let own = profile.rules.iter().filter(|rule| !rule.is_ceiling).cloned().collect();
        let free = Policy::following(&Profile { rules: own, ..profile.clone() }, follow);
        let without = self.level(&free, grants);
        (without != self.level(policy, grants)).then_some(without)
    }

    fn lift(&self, policy: &Policy, verdict: &Verdict, grants: &Grants) -> Lift {
        if let Source::Grant(at) = verdict.source {
            let grant = grants.get(at).map_or_else(String::new, |grant| grant.id.to_string());
            return Lift::Given { grant };
        }
        if let Source::Denial(grant) = verdict.source {
            return Lift::Given { grant: grant.to_string() };
        }
        match verdict.level {
            Level::Allow | Level::Notify => Lift::Unneeded,
            Level::Deny => Lift::Never,
            Level::Ask | Level::Authenticate => {
                let request = self.request(policy, verdict);
                let profile = policy.profile();
                let limits = profile.grants.limits();
                let longest = grants::longest(&request, limits);
                let bounds = Bounds { home: &profile.home, limits };
                let scope = |width| {
                    let grant = Grant::from_answer(GrantId(0), &request, width, Term::Session, "", &bounds).ok()?;
                    Some(Offer { width: width.to_string(), scope: grant.scope() })
                };
                let longest_time = match longest {
                    Lifetime::Until => limits.max_for,
                    Lifetime::Persistent => None,
                    _ => request.remember_for,
                };
                Lift::Answer {
                    proof: verdict.level == Level::Authenticate,
                    group: request.group.clone(),
                    longest,
                    longest_ms: longest_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                    offers: grants::offered_widths(&request, &profile.home).into_iter().filter_map(scope).collect(),
                }
            }
        }
    }

    /// What a person would be asked.
    fn request(&self, policy: &Policy, verdict: &Verdict) -> Request {
        let (mut cwd, mut execution, mut destination, mut of_socket) = (RawPath::from("/"), None, None, None);
        let mut directory = false;
        let operation = match &self.what {
            Asked::Path { access, is_directory, .. } => {
                directory = *is_directory;
                if *access == Access::Read { Operation::OpenRead } else { Operation::OpenWrite }
            }
            Asked::Exec(command) => {
                cwd = command.cwd.clone();
                execution = Some(Box::new(shown_execution(command)));
                Operation::Execute
            }
            Asked::Reach { access, destination: asked } => {
                let reaching = by_nobody(asked);
                destination = Some(Box::new(policy.as_asked(*access, &reaching, CallId(0), &Grants::new())));
                match (access, asked.socket_address()) {
                    (Access::Bind, _) => Operation::Listen,
                    (_, None) => Operation::LookUp,
                    (_, Some(_)) => Operation::Connect,
                }
            }
            Asked::Socket { service, .. } => {
                of_socket = *service;
                Operation::ConnectSocket
            }
        };
        let object = destination.as_deref().map_or_else(|| self.object(), Destination::object);
        Request {
            id: RequestId(0),
            session: SessionId(String::new()),
            call: CallId(0),
            who: Who { pid: 0, program: RawPath::default(), argv: Vec::new(), cwd },
            access: self.access(),
            operation,
            object,
            is_directory: directory,
            other: None,
            level: verdict.level,
            rule: policy.rule(verdict),
            remember: policy.remember(verdict),
            remember_for: policy.remember_for(verdict),
            group: policy.group(verdict).map(str::to_owned),
            execution,
            destination,
            service: of_socket,
        }
    }
}

impl Matching {
    fn of(rule: &Rule) -> Matching {
        Matching {
            level: rule.level,
            rule: rule.id.clone(),
            file: text::escaped(rule.file.as_bytes()),
            line: rule.line,
            reason: rule.reason.clone(),
            ceiling: rule.is_ceiling,
        }
    }

    /// `LEVEL: rule ID (FILE:LINE): REASON`, without what is not there.
    fn in_words(&self, words: Option<&str>) -> String {
        let kind = if self.ceiling { "the ceiling's rule" } else { "rule" };
        let place = if self.line == 0 { self.file.clone() } else { format!("{}:{}", self.file, self.line) };
        let words = words.map_or_else(String::new, |words| format!(", for {words}"));
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{}: {kind} {} ({place}){words}{reason}", self.level, self.rule)
    }
}

impl Explanation {
    /// Lines for a person: the attempt, and below it the verdict and what goes with it.
    pub fn lines(&self) -> Vec<String> {
        let assumed = self.assumed.as_ref().map_or_else(String::new, |assumed| format!(" ({assumed})"));
        let mut lines = vec![
            format!("{} {}{assumed}", self.access, self.object),
            format!("    {}", self.decided.in_words(self.words.as_deref())),
        ];
        lines.extend(self.also.iter().map(|also| format!("    also {}", also.in_words(None))));
        if self.more > 0 {
            lines.push(format!("    also {} more rules that are no stricter", self.more));
        }
        if let Some(level) = self.without_ceiling {
            lines.push(format!("    without the ceiling: {level}"));
        }
        lines.extend(self.answer.in_words().map(|words| format!("    {words}")));
        lines
    }
}

impl Lift {
    fn in_words(&self) -> Option<String> {
        match self {
            Lift::Unneeded => None,
            Lift::Given { grant } => Some(format!("because of the answer {grant}, until it is over or revoked")),
            Lift::Never => Some("no answer changes that".to_owned()),
            Lift::Answer { proof, group, longest, longest_ms, offers } => {
                let who = match (group, proof) {
                    (Some(group), false) => format!("a member of {group}"),
                    (Some(group), true) => format!("a member of {group} who proves it"),
                    (None, true) => "the session's user, who proves it,".to_owned(),
                    (None, false) => "the session's user".to_owned(),
                };
                let long = match longest {
                    Lifetime::Attempt => "for this attempt alone",
                    Lifetime::Call => "for the call at the longest",
                    Lifetime::Session => "for the session at the longest",
                    Lifetime::Until => "until a time, beyond the session",
                    Lifetime::Persistent => "for good",
                };
                let time = longest_ms
                    .as_ref()
                    .map_or_else(String::new, |ms| format!(", {} at the most", notation(Duration::from_millis(*ms))));
                let offers: Vec<String> =
                    offers.iter().map(|Offer { width, scope }| format!("{width} {scope}")).collect();
                Some(format!("{who} may let it through, {long}{time}: {}", offers.join(", ")))
            }
        }
    }
}

fn is_ceiling(profile: &Profile, source: Source) -> bool {
    match source {
        Source::Rule(at) => profile.rules.get(at).is_some_and(|rule| rule.is_ceiling),
        _ => false,
    }
}

fn by_nobody(destination: &Destination) -> Reaching<'_> {
    Reaching { destination, program: &|| None }
}

fn shown_execution(command: &Command) -> Execution {
    Execution {
        argv: command.asked.argv.iter().map(|word| Untrusted::new(word.clone())).collect(),
        words_left_out: 0,
        interpreters: command.interpreters.iter().map(|step| step.program.path.clone()).collect(),
        variables: command.variables.iter().map(|variable| Untrusted::new(variable.clone())).collect(),
        parents: Vec::new(),
        is_new: false,
        version: command.version,
        is_first: false,
    }
}

/// A question about the network.
pub fn reach(access: Access, destination: Destination) -> Question {
    Question::of(Asked::Reach { access, destination: Box::new(destination) })
}

/// A time as policy files write it: `90s`, `10m`, `8h`.
pub fn notation(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => "0s".to_owned(),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}
