//! `grants`, `revoke`: answers that still hold. Runs as the caller.

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
    session: &'a str,
    user: u32,
    user_name: String,
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
}

impl Grant {
    pub fn shown(&self) -> ShownGrant<'_> {
        ShownGrant {
            id: &self.id,
            session: &self.session,
            user: self.user,
            user_name: user_name(self.user),
            access: &self.access,
            scope: text::escaped(self.scope.as_bytes()),
            object: text::escaped(&self.object),
            lifetime: &self.lifetime,
            call: self.call,
            by: &self.by,
            authenticated: self.authenticated,
            given: format!("{:.6}", moment(self.given)),
            until: self.until.map(|until| format!("{:.6}", moment(until))),
        }
    }

    /// How long it holds.
    pub fn holds(&self) -> String {
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
        Cell::Own(format!("{} {scope} ({}, by {}, {})", self.access, self.holds(), self.by, self.id))
    }
}

pub async fn grants(output: &Output, session: Option<&Prefix>) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let session = match session {
        Some(prefix) => Some(daemon.session(prefix).await?.id),
        None => None,
    };
    let grants = daemon.grants(session.as_deref()).await?;
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
            Column::whole("HOLDS FOR"),
            Column::whole("GIVEN").if_wide(),
            Column::cut("BY").if_wide(),
            Column::whole("ACCESS"),
            Column::cut("COVERS"),
            Column::cut("ASKED FOR").if_wide(),
        ],
    );
    for grant in &grants {
        table.push(vec![
            Cell::own(short(&grant.id, digits)),
            Cell::own(&*grant.session),
            Cell::Own(user_name(grant.user)),
            Cell::Own(grant.holds()),
            Cell::Own(output.local(moment(grant.given))),
            Cell::Tool(grant.by.clone().into_bytes()),
            Cell::own(&*grant.access),
            grant.covers(),
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
