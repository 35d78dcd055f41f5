//! A grant as a row of the table. Runs in the daemon; rows were written by it, and each has a digest, because a disk can
//! change a byte that SQLite does not look at.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Holder, Stored};
use crate::common::access::Access;
use crate::common::decision::{Effect, Lifetime};
use crate::common::id::GrantId;
use crate::common::moment::{Expiry, Moment};
use crate::common::path::RawPath;
use crate::common::request::RuleRef;
use crate::common::text;
use crate::policy::{Grant, lasting};

/// When it was taken back, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Microseconds of CLOCK_REALTIME.
    pub at: u64,
    pub by: String,
}

/// A grant on the disk, in force or not.
#[derive(Debug)]
pub struct Row {
    pub stored: Stored,
    pub revoked: Option<Revoked>,
}

impl Row {
    pub fn id(&self) -> GrantId {
        self.stored.id()
    }
}

/// The rule that asked, in JSON.
#[derive(Serialize, Deserialize)]
struct Origin {
    profile: String,
    id: String,
    file: String,
    line: u32,
}

/// The columns, in their order, but for those that count.
#[derive(Clone, Debug)]
pub(super) struct Record {
    id: String,
    effect: &'static str,
    uid: u32,
    user: String,
    profile: String,
    access: &'static str,
    object: String,
    scope: String,
    shown: String,
    lifetime: &'static str,
    group: Option<String>,
    authenticated: bool,
    by: String,
    origin: Option<String>,
    given: i64,
    until_wall: Option<i64>,
    until_boot: Option<i64>,
    boot: Option<String>,
    revoked: Option<Revoked>,
}

/// What a row cannot be read for.
#[derive(Debug, thiserror::Error)]
#[error("a grant with a wrong {0}")]
pub(super) struct Wrong(pub &'static str);

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64, what: &'static str) -> Result<u64, Wrong> {
    u64::try_from(number).map_err(|_| Wrong(what))
}

/// What this boot is called; empty where nobody says, which is no boot's name.
pub(super) fn this_boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

impl Record {
    pub fn of(stored: &Stored) -> Result<Record, serde_json::Error> {
        let grant = &stored.grant;
        let origin = grant.origin.as_deref().map(|rule| Origin {
            profile: rule.profile.clone(),
            id: rule.id.clone(),
            file: rule.file.clone(),
            line: rule.line,
        });
        let boot = grant.until.filter(|_| stored.is_of_this_boot).map(|_| this_boot());
        Ok(Record {
            id: grant.id.to_string(),
            effect: grant.effect.as_str(),
            uid: stored.holder.uid,
            user: stored.user.clone(),
            profile: stored.holder.profile.clone(),
            access: grant.access.as_str(),
            object: text::escaped(grant.object.as_bytes()),
            scope: lasting::write(&grant.scope)?,
            shown: grant.scope(),
            lifetime: grant.lifetime.as_str(),
            group: grant.group.clone(),
            authenticated: grant.authenticated,
            by: grant.by.clone(),
            origin: origin.map(|origin| serde_json::to_string(&origin)).transpose()?,
            given: signed(stored.given),
            until_wall: grant.until.map(|until| signed(until.wall)),
            until_boot: grant.until.map(|until| signed(until.boot.0.as_secs())),
            boot,
            revoked: None,
        })
    }

    pub fn revoked(self, revoked: Revoked) -> Record {
        Record { revoked: Some(revoked), ..self }
    }

    /// Of everything that must not change by itself.
    fn digest(&self) -> Vec<u8> {
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let (at, by) = self.revoked.as_ref().map(|own| (signed(own.at), own.by.clone())).unzip();
        let fields = [
            Some(self.id.clone()),
            Some(self.effect.to_owned()),
            Some(self.uid.to_string()),
            Some(self.user.clone()),
            Some(self.profile.clone()),
            Some(self.access.to_owned()),
            Some(self.object.clone()),
            Some(self.scope.clone()),
            Some(self.shown.clone()),
            Some(self.lifetime.to_owned()),
            self.group.clone(),
            Some(self.authenticated.to_string()),
            Some(self.by.clone()),
            self.origin.clone(),
            Some(self.given.to_string()),
            number(self.until_wall),
            number(self.until_boot),
            self.boot.clone(),
            number(at),
            by,
        ];
        let mut hash = Sha256::new();
        for field in fields {
            match field {
                None => hash.update([0]),
                Some(text) => {
                    hash.update([1]);
                    hash.update((text.len() as u64).to_le_bytes());
                    hash.update(text.as_bytes());
                }
            }
        }
        hash.finalize().to_vec()
    }

    /// The grant, of which nobody has said yet whether it still holds.
    fn into_row(self, uses: i64, last_used: Option<i64>, boot: &str) -> Result<Row, Wrong> {
        let is_of_this_boot = self.boot.as_deref() == Some(boot) && !boot.is_empty();
        let until = match (self.until_wall, self.until_boot) {
            (Some(wall), Some(since)) => {
                let since = std::time::Duration::from_secs(unsigned(since, "end")?);
                Some(Expiry { boot: Moment(since), wall: unsigned(wall, "end")? })
            }
            (None, None) => None,
            _ => return Err(Wrong("end")),
        };
        let lifetime = match self.lifetime {
            "until" if until.is_some() => Lifetime::Until,
            "persistent" if until.is_none() => Lifetime::Persistent,
            _ => return Err(Wrong("lifetime")),
        };
        let origin = match &self.origin {
            Some(line) => {
                let Origin { profile, id, file, line } = serde_json::from_str(line).map_err(|_| Wrong("rule"))?;
                Some(Box::new(RuleRef { profile, id, file, line, reason: None }))
            }
            None => None,
        };
        let id = u64::from_str_radix(&self.id, 16).map(GrantId).map_err(|_| Wrong("id"))?;
        let access = Access::ALL.into_iter().find(|access| access.as_str() == self.access).ok_or(Wrong("access"))?;
        let scope = lasting::read(&self.scope).map_err(|_| Wrong("scope"))?;
        let object = text::unescaped(&self.object).map(RawPath::new).ok_or(Wrong("object"))?;
        let effect = if self.effect == Effect::Deny.as_str() { Effect::Deny } else { Effect::Allow };
        let grant = Grant {
            id,
            effect,
            access,
            object,
            scope,
            lifetime,
            call: None,
            until,
            authenticated: self.authenticated,
            group: self.group,
            by: self.by,
            origin,
        };
        let stored = Stored {
            grant,
            holder: Holder { uid: self.uid, profile: self.profile },
            user: self.user,
            given: unsigned(self.given, "time")?,
            is_of_this_boot,
            uses: std::cell::Cell::new(unsigned(uses, "count")?),
            last_used: std::cell::Cell::new(last_used.map(|at| unsigned(at, "time")).transpose()?),
            is_counted: std::cell::Cell::new(true),
        };
        Ok(Row { stored, revoked: self.revoked })
    }
}

/// One of the words of a column that has only these.
fn word(row: &rusqlite::Row<'_>, column: usize, words: &[&'static str]) -> rusqlite::Result<Option<&'static str>> {
    let text: String = row.get(column)?;
    Ok(words.iter().copied().find(|own| *own == text))
}

const COLUMNS: &str = "id, effect, uid, user, profile, access, object, scope, shown, lifetime, person_group, \
    authenticated, given_by, origin, given, until_wall, until_boot, boot, revoked, revoked_by, digest, uses, last_used";

/// A row, or why it is none.
fn read(row: &rusqlite::Row<'_>, boot: &str) -> rusqlite::Result<Result<Row, Wrong>> {
    let (at, by): (Option<i64>, Option<String>) = (row.get(18)?, row.get(19)?);
    let revoked = match (at, by) {
        (Some(at), Some(by)) => unsigned(at, "time").map(|at| Some(Revoked { at, by })),
        (None, None) => Ok(None),
        _ => Err(Wrong("end")),
    };
    let accesses = Access::ALL.map(Access::as_str);
    let (effect, access, lifetime) =
        (word(row, 1, &["allow", "deny"])?, word(row, 5, &accesses)?, word(row, 9, &["until", "persistent"])?);
    let (Some(effect), Some(access), Some(lifetime), Ok(revoked)) = (effect, access, lifetime, revoked) else {
        return Ok(Err(Wrong("word")));
    };
    let record = Record {
        id: row.get(0)?,
        effect,
        uid: row.get(2)?,
        user: row.get(3)?,
        profile: row.get(4)?,
        access,
        object: row.get(6)?,
        scope: row.get(7)?,
        shown: row.get(8)?,
        lifetime,
        group: row.get(10)?,
        authenticated: row.get(11)?,
        by: row.get(12)?,
        origin: row.get(13)?,
        given: row.get(14)?,
        until_wall: row.get(15)?,
        until_boot: row.get(16)?,
        boot: row.get(17)?,
        revoked,
    };
    let digest: Vec<u8> = row.get(20)?;
    if digest != record.digest() {
        return Ok(Err(Wrong("digest")));
    }
    Ok(record.into_row(row.get(21)?, row.get(22)?, boot))
}

/// All rows, and how many cannot be read.
pub(super) fn select(disk: &Connection, uid: Option<u32>) -> rusqlite::Result<(Vec<Row>, usize)> {
    let boot = this_boot();
    let condition = if uid.is_some() { "WHERE uid = ?1" } else { "WHERE ?1 IS NULL" };
    let mut statement = disk.prepare(&format!("SELECT {COLUMNS} FROM grants {condition} ORDER BY given, id"))?;
    let mut rows = statement.query(params![uid])?;
    let (mut read_rows, mut broken) = (Vec::new(), 0_usize);
    while let Some(row) = rows.next()? {
        match read(row, &boot)? {
            Ok(row) => read_rows.push(row),
            Err(_) => broken = broken.saturating_add(1),
        }
    }
    Ok((read_rows, broken))
}

/// The row with this name, if there is one that can be read.
pub(super) fn select_one(disk: &Connection, id: GrantId) -> rusqlite::Result<Option<Row>> {
    let mut statement = disk.prepare(&format!("SELECT {COLUMNS} FROM grants WHERE id = ?1"))?;
    let boot = this_boot();
    let found = statement.query_row(params![id.to_string()], |row| read(row, &boot)).optional()?;
    Ok(found.and_then(Result::ok))
}

pub(super) fn insert(transaction: &Transaction<'_>, record: &Record) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT INTO grants ({COLUMNS}) VALUES \
         (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, NULL, NULL, ?19, 0, NULL)"
    );
    transaction.prepare(&sql)?.execute(params![
        record.id,
        record.effect,
        record.uid,
        record.user,
        record.profile,
        record.access,
        record.object,
        record.scope,
        record.shown,
        record.lifetime,
        record.group,
        record.authenticated,
        record.by,
        record.origin,
        record.given,
        record.until_wall,
        record.until_boot,
        record.boot,
        record.digest(),
    ])?;
    Ok(())
}

/// Writes down that it is revoked. The digest is of what is on the disk, so that nothing is made right by this.
pub(super) fn update(transaction: &Transaction<'_>, record: &Record) -> rusqlite::Result<()> {
    let Some(revoked) = &record.revoked else { return Ok(()) };
    let boot: Option<Option<String>> = transaction
        .query_row("SELECT boot FROM grants WHERE id = ?1", params![record.id], |row| row.get(0))
        .optional()?;
    let Some(boot) = boot else { return Ok(()) };
    let whole = Record { boot, ..record.clone() };
    let sql = "UPDATE grants SET revoked = ?2, revoked_by = ?3, digest = ?4 WHERE id = ?1";
    transaction.execute(sql, params![record.id, signed(revoked.at), revoked.by, whole.digest()])?;
    Ok(())
}

pub(super) fn delete(transaction: &Transaction<'_>, id: GrantId) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM grants WHERE id = ?1", params![id.to_string()])?;
    Ok(())
}

pub(super) fn count(
    transaction: &Transaction<'_>,
    id: GrantId,
    uses: u64,
    last_used: Option<u64>,
) -> rusqlite::Result<()> {
    let sql = "UPDATE grants SET uses = ?2, last_used = ?3 WHERE id = ?1";
    transaction.prepare(sql)?.execute(params![id.to_string(), signed(uses), last_used.map(signed)])?;
    Ok(())
}

/// Removes what was revoked first of this user's, but for so many.
pub(super) fn delete_oldest(transaction: &Transaction<'_>, uid: u32, but: usize) -> rusqlite::Result<()> {
    let sql = "DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE uid = ?1 AND revoked IS NOT NULL \
               ORDER BY revoked DESC, id LIMIT -1 OFFSET ?2)";
    transaction.execute(sql, params![uid, i64::try_from(but).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// Removes what has held no more since this moment, microseconds of CLOCK_REALTIME.
pub(super) fn delete_old(transaction: &Transaction<'_>, before: u64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM grants WHERE revoked < ?1 OR (until_wall IS NOT NULL AND until_wall < ?2)";
    transaction.execute(sql, params![signed(before), signed(before / 1_000_000)])?;
    Ok(())
}

/// Makes what is stored in a file that nobody has open look as if it had been so before this boot: for tests, which cannot
/// boot.
#[doc(hidden)]
pub fn of_another_boot(file: &std::path::Path) -> rusqlite::Result<()> {
    let mut disk = Connection::open(file)?;
    let transaction = disk.transaction()?;
    for row in select(&transaction, None)?.0 {
        if let Ok(record) = Record::of(&row.stored) {
            let record = Record { boot: record.boot.map(|_| "another".to_owned()), ..record };
            let sql = "UPDATE grants SET boot = ?2, digest = ?3 WHERE id = ?1";
            transaction.execute(sql, params![record.id, record.boot, record.digest()])?;
        }
    }
    transaction.commit()
}
