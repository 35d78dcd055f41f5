//! A profile as everybody below the loader sees it: names, `~` and variables substituted, what it extends merged in. Made
//! by whoever reads the files (the broker), sent to the supervisor, which trusts it: it is the session's law.

use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::common::access::{Access, Level};
use crate::common::argv::{ArgvPattern, WordGlob};
use crate::common::decision::{Lifetime, Limits, Widths};
use crate::common::net::{HostTerm, Ports, Service, Transport};
use crate::common::path::RawPath;
use crate::common::scope::{NameGlob, Pattern};
use crate::common::wire::Network;

/// The profile of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    pub description: String,
    /// Where it stands; `built-in:NAME` for one that is compiled in.
    pub file: String,
    pub network: Network,
    /// Whether debuggers work inside: ptrace(2) and what reads other processes' memory.
    pub debug: bool,
    /// What is extended first, then the profile's own, each in file order.
    pub rules: Vec<Rule>,
    pub defaults: Defaults,
    /// Roots of trees that the tool may change without a verdict, as long as [`super::plan`] finds them fit.
    pub scratch: Vec<RawPath>,
    /// Names of environment variables that a tool does not get.
    pub env_deny: Vec<NameGlob>,
    pub prompt: Prompt,
    pub grants: GrantLimits,
    /// Programs that choose this profile by themselves.
    pub match_program: Vec<Pattern>,
    /// systemd units that choose it; `*` stands for any bytes.
    pub match_unit: Vec<NameGlob>,
    /// Users that it is for.
    pub match_user: Vec<String>,
    /// Groups whose members it is for.
    pub match_group: Vec<String>,
    /// Directories to start in.
    pub match_cwd: Vec<Pattern>,
    /// The variable `workspace`, if there is one.
    pub workspace: Option<RawPath>,
    pub home: RawPath,
    /// `[dbus]`.
    pub bus_names: BusNames,
    /// Trees of gated's own files: every write is denied, whatever else the profile says.
    pub protected: Vec<RawPath>,
    /// Reads that are to be held although no rule speaks of them: somebody denies them, or may.
    pub held_reads: Vec<Pattern>,
    /// Whether what would be asked, or denied by anything but the ceiling and what is built in, is allowed and recorded.
    pub learning: bool,
    /// What this version accepts but does not hold yet; one sentence each, with its place, to be shown when a session starts.
    pub notes: Vec<String>,
}

/// One `[[rule]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub id: String,
    pub file: String,
    /// From 1: the line of the rule's `id`.
    pub line: u32,
    pub access: Vec<Access>,
    /// Empty in a rule for [`Access::Exec`].
    pub path: Vec<Pattern>,
    /// Holes in this rule, and in no other.
    pub except: Vec<Pattern>,
    /// What a rule for [`Access::Exec`] speaks about; such a rule is for nothing else.
    pub exec: Option<ExecTerms>,
    /// What a rule for [`Access::Connect`] and [`Access::Bind`] speaks about; such a rule is for nothing else.
    pub network: Option<NetworkTerms>,
    /// What a rule for [`Access::Unix`] speaks about, besides its paths.
    pub services: Vec<Service>,
    pub level: Level,
    /// The longest lifetime that an answer may create.
    pub remember: Lifetime,
    /// The longest time that it may hold within that.
    pub remember_for: Option<Duration>,
    /// Members of this group answer, instead of the session's user.
    pub group: Option<String>,
    pub reason: Option<String>,
    /// Whether it is the admin's limit: it makes a verdict stricter and never freer, whatever else matches.
    pub is_ceiling: bool,
}

/// The programs and command lines of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecTerms {
    pub program: Vec<ProgramPattern>,
    /// `None`: whatever the words are.
    pub argv: Option<ArgvPattern>,
    /// Holes in this rule, and in no other.
    pub except: Vec<ArgvPattern>,
    /// The rule speaks only of what gets one of these variables; empty: of everything.
    pub env: Vec<VariablePattern>,
}

/// The hosts of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTerms {
    pub hosts: Vec<HostTerm>,
    /// Networks of addresses, each with the rule's `port`.
    pub networks: Vec<IpNet>,
    /// The ports of [`NetworkTerms::networks`]; empty: all of them.
    pub ports: Vec<Ports>,
    /// Never empty.
    pub transports: Vec<Transport>,
    /// Holes in this rule, and in no other.
    pub except: Vec<HostTerm>,
}

/// The names on D-Bus that a session may talk to, through a filter of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusNames {
    pub session: Vec<String>,
    pub system: Vec<String>,
}

/// Programs by their resolved path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramPattern {
    Path(Pattern),
    /// `@path`: every program that is root's, in directories that are root's.
    System,
    /// `@path/NAME`: one of those with this name.
    SystemName(NameGlob),
}

/// `NAME`, whatever its value, or `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariablePattern {
    pub name: NameGlob,
    pub value: Option<WordGlob>,
}

impl VariablePattern {
    /// Whether this `NAME=VALUE` of an environment is meant.
    pub fn matches(&self, variable: &[u8]) -> bool {
        let mut halves = variable.splitn(2, |&byte| byte == b'=');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
        self.name.matches(name) && self.value.as_ref().is_none_or(|own| own.matches_exactly(value))
    }
}

impl Rule {
    /// Whether the rule, one on files, speaks about `path`.
    pub fn matches(&self, path: &RawPath) -> bool {
        self.path.iter().any(|pattern| pattern.matches(path)) && !self.except.iter().any(|hole| hole.matches(path))
    }
}

/// `[defaults]`: what holds where no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    pub read: Level,
    pub write: Level,
    pub exec: Level,
    pub connect: Level,
    pub bind: Level,
    pub unix: Level,
}

impl Defaults {
    pub fn level(&self, access: Access) -> Level {
        match access {
            Access::Read => self.read,
            Access::Write => self.write,
            Access::Exec => self.exec,
            Access::Connect => self.connect,
            Access::Bind => self.bind,
            Access::Unix => self.unix,
        }
    }

    pub(super) fn level_mut(&mut self, access: Access) -> &mut Level {
        match access {
            Access::Read => &mut self.read,
            Access::Write => &mut self.write,
            Access::Exec => &mut self.exec,
            Access::Connect => &mut self.connect,
            Access::Bind => &mut self.bind,
            Access::Unix => &mut self.unix,
        }
    }
}

impl Default for Defaults {
    /// What holds where a profile is silent: reads and programs go through, everything else is asked for.
    fn default() -> Defaults {
        Defaults {
            read: Level::Allow,
            write: Level::Ask,
            exec: Level::Allow,
            connect: Level::Ask,
            bind: Level::Ask,
            unix: Level::Ask,
        }
    }
}

/// `[prompt]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// How long a request waits for an answer; one second to 24 hours.
    pub timeout: Duration,
    /// Questions to one person per minute, 1 to 600; more are denied.
    pub max_per_minute: u32,
    pub no_consent_agent: NoConsentAgent,
}

impl Default for Prompt {
    fn default() -> Prompt {
        Prompt { timeout: Duration::from_secs(60), max_per_minute: 60, no_consent_agent: NoConsentAgent::Deny }
    }
}

/// What happens to a request when there is nobody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoConsentAgent {
    /// It is denied at once.
    Deny,
    /// It waits for one until the time-out.
    Queue,
}

/// `[grants]`: limits on what an answer may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct GrantLimits {
    /// The longest time that a timed answer may hold; `None` where only the lifetimes themselves limit it.
    pub max_for: Option<Duration>,
    /// Whether an answer may outlive the session.
    pub persistent: bool,
    /// How far an answer may reach.
    pub widths: Widths,
    /// What the ceiling lets answers be.
    pub ceiling: Limits,
}

impl GrantLimits {
    /// What both, profile and ceiling, let an answer be.
    pub fn limits(self) -> Limits {
        let longest = match (self.persistent, self.max_for) {
            (true, _) => Lifetime::Persistent,
            (false, Some(_)) => Lifetime::Until,
            (false, None) => Lifetime::Session,
        };
        Limits { longest, max_for: self.max_for, widths: self.widths }.within(self.ceiling)
    }
}

/// An encoded profile that does not decode.
#[derive(Debug, thiserror::Error)]
#[error("the profile does not decode: {0}")]
pub struct Undecodable(#[from] postcard::Error);

impl Profile {
    /// Nothing but `[defaults]`.
    pub(super) fn empty(home: RawPath) -> Profile {
        Profile {
            name: String::new(),
            description: String::new(),
            file: String::new(),
            network: Network::Own,
            debug: false,
            rules: Vec::new(),
            defaults: Defaults::default(),
            scratch: Vec::new(),
            env_deny: Vec::new(),
            prompt: Prompt::default(),
            grants: GrantLimits::default(),
            match_program: Vec::new(),
            match_unit: Vec::new(),
            match_user: Vec::new(),
            match_group: Vec::new(),
            match_cwd: Vec::new(),
            workspace: None,
            home,
            bus_names: BusNames::default(),
            protected: Vec::new(),
            held_reads: Vec::new(),
            learning: false,
            notes: Vec::new(),
        }
    }

    /// The bytes that [`Profile::decode`] reads.
    pub fn encode(&self) -> Vec<u8> {
        // Only a type that cannot say its length fails here, and there is none; no bytes would not decode.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Bytes left over are an error.
    pub fn decode(bytes: &[u8]) -> Result<Profile, Undecodable> {
        match postcard::take_from_bytes(bytes)? {
            (profile, []) => Ok(profile),
            _ => Err(Undecodable(postcard::Error::DeserializeBadEncoding)),
        }
    }

    /// Whether a tool gets the environment variable with this name.
    pub fn keeps_variable(&self, name: &[u8]) -> bool {
        !self.env_deny.iter().any(|glob| glob.matches(name))
    }

    /// Adds a file or tree of gated's own, canonical, to what no rule and no answer can open for writing.
    pub fn protect(&mut self, path: RawPath) {
        if !self.protected.contains(&path) {
            self.protected.push(path);
        }
    }
}
