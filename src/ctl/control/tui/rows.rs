//! Sessions, grants and records as rows of the screen. Pure.

use super::entry::Entry;
use crate::common::text::Untrusted;
use crate::ctl::control::audit;
use crate::ctl::control::daemon::{Grant, Session};
use crate::ctl::control::ids::short;
use crate::ctl::control::output::{Output, moment, user_name};
use crate::ctl::control::table::Cell;
use crate::ctl::control::watch;

fn named(name: &str, cell: Cell) -> (String, Cell) {
    (name.to_owned(), cell)
}

pub fn session(output: &Output, session: Session) -> Entry {
    let command: Vec<Untrusted> = session.calls.first().map(|call| call.argv.clone()).unwrap_or_default();
    let profile = Cell::Tool(session.profile.into_bytes());
    let cells = vec![
        Cell::own(&*session.id),
        Cell::Own(user_name(session.user)),
        Cell::Own(session.state.clone()),
        profile.clone(),
        Cell::Command(command),
    ];
    let mut fields = vec![
        named("directory", Cell::Tool(session.directory)),
        named("profile", profile),
        named("started", Cell::Own(output.local(moment(session.started)))),
    ];
    for call in session.calls.into_iter().take(8) {
        fields.push((format!("call {}", call.number), Cell::Command(call.argv)));
    }
    Entry::new(session.id, session.user, cells, fields)
}

pub fn grant(output: &Output, grant: Grant) -> Entry {
    let cells =
        vec![Cell::own(short(&grant.id, 8)), Cell::Own(grant.holds()), Cell::Own(grant.access.clone()), grant.covers()];
    let fields = vec![
        named("covers", grant.covers()),
        named("asked for", Cell::Tool(grant.object.clone())),
        named("session", Cell::own(&*grant.session)),
        named("by", Cell::Tool(grant.by.clone().into_bytes())),
        named("given", Cell::Own(output.local(moment(grant.given)))),
        named("id", Cell::own(&*grant.id)),
    ];
    Entry::new(grant.id, grant.user, cells, fields)
}

/// A line of the audit log; `number` tells it from the others.
pub fn record(output: &Output, number: u64, line: &[u8]) -> Option<Entry> {
    let [time, session, user, who, result, by, what] = audit::cells(output, line)?;
    let fields = vec![named("what", what.clone()), named("user", user), named("answered by", by)];
    Some(Entry::new(format!("{number}"), 0, vec![time, session, who, result, what], fields))
}

/// A line of what happens.
pub fn event(output: &Output, number: u64, line: &[u8]) -> Option<Entry> {
    let mut cells = watch::cells(output, line)?.into_iter();
    let (time, session, event, request) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
    let (who, what) = (cells.next()?, cells.next()?);
    let fields = vec![named("what", what.clone()), named("request", request)];
    Some(Entry::new(format!("{number}"), 0, vec![time, session, who, event, what], fields))
}
