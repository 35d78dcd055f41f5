//! `grants`, `revoke`: answers that still hold. Runs as the caller.

use clap::Args;
use serde::Serialize;

use super::daemon::{Daemon, Grant};
use super::failure::Failure;
use super::ids::{Kind, Prefix, short, shown_digits};
use super::output::{Output, moment, user_name};
use super::table::{Cell, Column, Table};
use crate::common::text;
use crate::ctl::proxies::Options;

/// A grant in JSON. The object is in the notation of the audit log.
#[derive(Serialize)]
pub struct ShownGrant<'a> {
    id: &'a str,
    /// Not of one that outlives its session.
    #[serde(skip_serializing_if = "str::is_empty")]
    session: &'a str,
    user: u32,
    user_name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    profile: &'a str,
    effect: &'a str,
    access: &'a str,
    scope: String,
    object: String,
    lifetime: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<u32>,
    by: &'a str,
    authenticated: bool,
    given: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<ShownRule<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_by: Option<&'a str>,
}

/// The rule that asked.
#[derive(Serialize)]
struct ShownRule<'a> {
    id: &'a str,
    file: &'a str,
    line: u32,
}

/// Which of them.
#[derive(Debug, Args)]
pub struct Which {
    /// Those of this session only
    #[arg(long, value_name = "SESSION")]
    pub session: Option<Prefix>,

    /// Those under this profile only
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,

    /// Those of this user only, by name or number; for root, and who may manage sessions
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// Also what was stored and holds no more
    #[arg(long)]
    pub all: bool,
}

impl Which {
    fn has(&self, grant: &Grant) -> bool {
        let is_user = |user: &String| *user == user_name(grant.user) || *user == grant.user.to_string();
        self.profile.as_ref().is_none_or(|profile| *profile == grant.profile) && self.user.as_ref().is_none_or(is_user)
    }
}

impl Grant {
    pub fn shown(&self) -> ShownGrant<'_> {
        ShownGrant {
            id: &self.id,
            session: &self.session,
            user: self.user,
            user_name: user_name(self.user),
            profile: &self.profile,
            effect: &self.effect,
            access: &self.access,
            scope: text::escaped(self.scope.as_bytes()),
            object: text::escaped(&self.object),
            lifetime: &self.lifetime,
            call: self.call,
            by: &self.by,
            authenticated: self.authenticated,
            given: format!("{:.6}", moment(self.given)),
            until: self.until.map(|until| format!("{:.6}", moment(until))),
            rule: self.rule.as_ref().map(|rule| ShownRule { id: &rule.id, file: &rule.file, line: rule.line }),
            uses: self.uses,
            last_used: self.last_used.map(|at| format!("{:.6}", moment(at))),
            revoked: self.revoked.as_ref().map(|(at, _)| format!("{:.6}", moment(*at))),
            revoked_by: self.revoked.as_ref().map(|(_, by)| by.as_str()),
        }
    }

    pub fn is_live(&self) -> bool {
        self.revoked.is_none() && self.until.is_none_or(|until| moment(until) > jiff::Timestamp::now())
    }

    /// `write`, or `no write`.
    fn does(&self) -> String {
        if self.effect == "deny" { format!("no {}", self.access) } else { self.access.clone() }
    }

    /// How long it holds.
    pub fn holds(&self) -> String {
        if self.revoked.is_some() {
            return "revoked".to_owned();
        }
        if self.session.is_empty() && !self.is_live() {
            return "over".to_owned();
        }
        let lifetime = match self.call {
            Some(call) => format!("{} {call}", self.lifetime),
            None => self.lifetime.clone(),
        };
        let Some(until) = self.until else { return lifetime };
        let left = moment(until).duration_since(jiff::Timestamp::now()).as_secs().max(0);
        // To the minute, rounded up.
        format!("{lifetime}, {} min", left.saturating_add(59) / 60)
    }

    /// In a notation of its own: a pattern of a path that a tool chose, or the words of a command.
    pub fn covers(&self) -> Cell {
        match self.access.as_str() {
            "exec" => Cell::Own(self.scope.clone()),
            "connect" | "bind" => Cell::Host("", self.scope.clone(), String::new()),
            _ => Cell::Tool(self.scope.clone().into_bytes()),
        }
    }

    /// In one line.
    pub fn in_words(&self) -> Cell {
        let scope = self.covers().shown(None);
        Cell::Own(format!("{} {scope} ({}, by {}, {})", self.does(), self.holds(), self.by, self.id))
    }
}

pub async fn grants(output: &Output, which: &Which) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let session = match &which.session {
        Some(prefix) => Some(daemon.session(prefix).await?.id),
        None => None,
    };
    let mut grants = daemon.grants(session.as_deref()).await?;
    if which.all {
        for stored in daemon.stored(which.user.is_some()).await? {
            if !grants.iter().any(|known| known.id == stored.id) {
                grants.push(stored);
            }
        }
    }
    grants.retain(|grant| which.has(grant));
    if output.json {
        return output.json(&grants.iter().map(Grant::shown).collect::<Vec<_>>());
    }
    let digits = shown_digits(grants.iter().map(|grant| grant.id.as_str()));
    let mut table = Table::new(
        output.width,
        &[
            Column::whole("GRANT"),
            Column::whole("SESSION"),
            Column::whole("USER").if_wide(),
            Column::whole("PROFILE").if_wide(),
            Column::whole("HOLDS FOR"),
            Column::whole("GIVEN").if_wide(),
            Column::cut("BY").if_wide(),
            Column::whole("ACCESS"),
            Column::cut("COVERS"),
            Column::whole("USES").if_wide(),
            Column::cut("ASKED FOR").if_wide(),
        ],
    );
    for grant in &grants {
        table.push(vec![
            Cell::own(short(&grant.id, digits)),
            Cell::own(if grant.session.is_empty() { "every" } else { &*grant.session }),
            Cell::Own(user_name(grant.user)),
            Cell::own(&*grant.profile),
            Cell::Own(grant.holds()),
            Cell::Own(output.local(moment(grant.given))),
            Cell::Tool(grant.by.clone().into_bytes()),
            Cell::Own(grant.does()),
            grant.covers(),
            Cell::Own(grant.uses.map(|uses| uses.to_string()).unwrap_or_default()),
            Cell::Tool(grant.object.clone()),
        ]);
    }
    output.table(&table, "No answers are remembered.")
}

#[derive(Serialize)]
struct Revoked {
    revoked: u32,
}

/// One, or all where no prefix is given.
pub async fn revoke(output: &Output, prefix: Option<&Prefix>) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let grants = daemon.grants(None).await?;
    let others = |grant: &Grant| grant.user != nix::unistd::getuid().as_raw();
    let revoked = match prefix {
        Some(prefix) => {
            let (id, others) =
                match (prefix.pick(Kind::Grant, grants, |grant| grant.id.clone()), prefix.whole(Kind::Grant)) {
                    (Ok(grant), _) => (grant.id.clone(), others(&grant)),
                    // Of somebody else, perhaps: polkit may let this user revoke it without seeing it.
                    (Err(Failure::NotFound { .. }), Some(id)) => (id.to_owned(), true),
                    (Err(failure), _) => return Err(failure),
                };
            let _agent = super::polkit::TextAgent::start_if(others);
            daemon.manager.revoke_grant(&id, Options::new()).await.map_err(|error| match Failure::from(error) {
                Failure::TooLate(_) => Failure::NotFound { kind: Kind::Grant, prefix: prefix.clone() },
                other => other,
            })?
        }
        None => {
            let _agent = super::polkit::TextAgent::start_if(grants.iter().any(others));
            daemon.manager.revoke_grant("", Options::from([("all", true.into())])).await?
        }
    };
    match (output.json, revoked) {
        (true, _) => output.json(&Revoked { revoked })?,
        (false, 0) => output.line("Nothing was revoked.")?,
        (false, 1) => output.line("Revoked, from the next attempt on.")?,
        (false, count) => output.line(&format!("Revoked {count} grants, from the next attempt on."))?,
    }
    // One that was named is there no more; that there were none at all is what was wanted.
    match (revoked, prefix) {
        (0, Some(_)) => Err(Failure::Unhealthy),
        _ => Ok(()),
    }
}
