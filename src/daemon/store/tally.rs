//! What was answered, and how often: per user, profile and thing, the oldest forgotten where there are many. What is
//! suggested comes from here; nothing is decided by it.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, Transaction, params};

use super::super::core::now_micros;
use super::Holder;
use super::thing::{COLUMNS, Thing};
use crate::common::access::Access;
use crate::common::decision::Width;
use crate::common::text;
use crate::policy::Grant;

/// Things of one user under one profile at the most.
const MOST_THINGS: usize = 1024;

/// One answer.
#[derive(Clone, Debug)]
pub struct Answered {
    pub thing: Thing,
    pub is_yes: bool,
    pub width: Width,
    pub by: String,
}

/// How one thing was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub yes: u64,
    pub no: u64,
    /// The last answers that were equal.
    pub in_a_row: u32,
    pub last_was_yes: bool,
    /// Of the last yes.
    pub width: Width,
    /// Microseconds of CLOCK_REALTIME.
    pub last: u64,
    pub by: String,
}

/// All counts.
#[derive(Debug, Default)]
pub struct Tally {
    counts: HashMap<Holder, HashMap<Thing, Count>>,
    changed: BTreeSet<(Holder, Thing)>,
}

/// A count as a row; without one, the row is to go.
pub(super) type Change = (Holder, Thing, Option<Count>);

impl Tally {
    pub(super) fn from_rows(rows: Vec<(Holder, Thing, Count)>) -> Tally {
        let mut tally = Tally::default();
        for (holder, thing, count) in rows {
            tally.counts.entry(holder).or_default().insert(thing, count);
        }
        tally
    }

    pub(super) fn count(&mut self, holder: &Holder, answered: Answered) {
        let Answered { thing, is_yes, width, by } = answered;
        let own = self.counts.entry(holder.clone()).or_default();
        if own.len() >= MOST_THINGS && !own.contains_key(&thing) {
            let oldest = own.iter().min_by_key(|(_, count)| count.last).map(|(thing, _)| thing.clone());
            if let Some(oldest) = oldest {
                own.remove(&oldest);
                self.changed.insert((holder.clone(), oldest));
            }
        }
        let count = own.entry(thing.clone()).or_insert_with(|| Count {
            yes: 0,
            no: 0,
            in_a_row: 0,
            last_was_yes: is_yes,
            width,
            last: 0,
            by: String::new(),
        });
        let is_same = count.last_was_yes == is_yes && (!is_yes || count.width == width);
        count.in_a_row = if is_same { count.in_a_row.saturating_add(1) } else { 1 };
        match is_yes {
            true => count.yes = count.yes.saturating_add(1),
            false => count.no = count.no.saturating_add(1),
        }
        if is_yes {
            count.width = width;
        }
        (count.last_was_yes, count.last, count.by) = (is_yes, now_micros(), by);
        self.changed.insert((holder.clone(), thing));
    }

    pub fn get(&self, holder: &Holder, thing: &Thing) -> Option<&Count> {
        self.counts.get(holder)?.get(thing)
    }

    /// Of one user, or of all; the latest first.
    pub fn list(&self, uid: Option<u32>) -> Vec<(Holder, Thing, Count)> {
        let own = self.counts.iter().filter(|(holder, _)| uid.is_none_or(|uid| uid == holder.uid));
        let mut list: Vec<(Holder, Thing, Count)> = own
            .flat_map(|(holder, things)| {
                things.iter().map(|(thing, count)| (holder.clone(), thing.clone(), count.clone()))
            })
            .collect();
        list.sort_by_key(|(_, _, count)| std::cmp::Reverse(count.last));
        list
    }

    /// Forgets what a grant was about.
    pub(super) fn forget(&mut self, holder: &Holder, grant: &Grant) -> Vec<Thing> {
        let Some(own) = self.counts.get_mut(holder) else { return Vec::new() };
        let (scope, object) = (grant.scope(), text::escaped_within(grant.object.as_bytes(), COLUMNS));
        let is_about = |thing: &Thing| {
            thing.access == grant.access
                && (thing.what == object || thing.what.split(" (in ").next() == Some(scope.as_str()))
        };
        let gone: Vec<Thing> = own.keys().filter(|thing| is_about(thing)).cloned().collect();
        gone.iter().for_each(|thing| drop(own.remove(thing)));
        gone
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        let changed = std::mem::take(&mut self.changed);
        let of = |(holder, thing): (Holder, Thing)| {
            let count = self.get(&holder, &thing).cloned();
            (holder, thing, count)
        };
        changed.into_iter().map(of).collect()
    }
}

pub(super) fn write(transaction: &Transaction<'_>, changes: &[Change]) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO answers \
               (uid, profile, access, what, mark, yes, no, in_a_row, last_was_yes, width, last, given_by) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    for (holder, thing, count) in changes {
        let Some(count) = count else {
            delete(transaction, holder, std::slice::from_ref(thing))?;
            continue;
        };
        transaction.prepare(sql)?.execute(params![
            holder.uid,
            holder.profile,
            thing.access.as_str(),
            thing.what,
            thing.mark,
            signed(count.yes),
            signed(count.no),
            count.in_a_row,
            count.last_was_yes,
            count.width.as_str(),
            signed(count.last),
            count.by,
        ])?;
    }
    Ok(())
}

pub(super) fn delete(transaction: &Transaction<'_>, holder: &Holder, things: &[Thing]) -> rusqlite::Result<()> {
    let sql = "DELETE FROM answers WHERE uid = ?1 AND profile = ?2 AND access = ?3 AND what = ?4 AND mark = ?5";
    for thing in things {
        let values = params![holder.uid, holder.profile, thing.access.as_str(), thing.what, thing.mark];
        transaction.execute(sql, values)?;
    }
    Ok(())
}

/// All counts; what is not understood is left out.
pub(super) fn select(disk: &Connection) -> rusqlite::Result<Vec<(Holder, Thing, Count)>> {
    let sql =
        "SELECT uid, profile, access, what, yes, no, in_a_row, last_was_yes, width, last, given_by, mark FROM answers";
    let mut statement = disk.prepare(sql)?;
    let mut rows = statement.query([])?;
    let widths =
        [Width::Exact, Width::Directory, Width::Tree, Width::Prefix, Width::Program, Width::Host, Width::Domain];
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (access, width): (String, String) = (row.get(2)?, row.get(8)?);
        let access = Access::ALL.into_iter().find(|own| own.as_str() == access);
        let width = widths.into_iter().find(|own| own.as_str() == width);
        let (Some(access), Some(width)) = (access, width) else { continue };
        let count = Count {
            yes: unsigned(row.get(4)?),
            no: unsigned(row.get(5)?),
            in_a_row: row.get(6)?,
            last_was_yes: row.get(7)?,
            width,
            last: unsigned(row.get(9)?),
            by: row.get(10)?,
        };
        let thing = Thing { access, what: row.get(3)?, mark: row.get(11)? };
        all.push((Holder { uid: row.get(0)?, profile: row.get(1)? }, thing, count));
    }
    Ok(all)
}
