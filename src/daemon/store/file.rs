//! The file itself: made, opened, checked, and set aside where it cannot be trusted. Runs as root while the daemon starts.
//!
//! A rollback journal, not a write-ahead log: answers are few, the whole store is one file once it is closed, and whoever died
//! while writing leaves a journal beside it from which the next one restores the state before. One process has it at a time. `synchronous=EXTRA`: a commit that returned is
//! on the disk, with the directory that says so.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, params};

use super::super::core::now_micros;
use super::rows;
use super::tally::{self, Count};
use super::thing::Thing;
use super::{FILE, Holder, StoreError, Stored};

/// Of the tables: `PRAGMA user_version`.
pub(super) const VERSION: i64 = 1;
/// Whose file it is: `PRAGMA application_id`, "gatd".
const APPLICATION: i64 = 0x6761_7464;

/// How long what holds no more can be looked at: 90 days.
const KEPT: u64 = 90 * 24 * 3600 * 1_000_000;

const TABLES: &str = "
    CREATE TABLE grants (
        id TEXT NOT NULL PRIMARY KEY,
        effect TEXT NOT NULL,
        uid INTEGER NOT NULL,
        user TEXT NOT NULL,
        profile TEXT NOT NULL,
        access TEXT NOT NULL,
        object TEXT NOT NULL,
        scope TEXT NOT NULL,
        shown TEXT NOT NULL,
        lifetime TEXT NOT NULL,
        person_group TEXT,
        authenticated INTEGER NOT NULL,
        given_by TEXT NOT NULL,
        origin TEXT,
        given INTEGER NOT NULL,
        until_wall INTEGER,
        until_boot INTEGER,
        boot TEXT,
        revoked INTEGER,
        revoked_by TEXT,
        digest BLOB NOT NULL,
        uses INTEGER NOT NULL,
        last_used INTEGER
    ) STRICT;
    CREATE INDEX grants_by_holder ON grants (uid, profile, id);
    CREATE TABLE answers (
        uid INTEGER NOT NULL,
        profile TEXT NOT NULL,
        access TEXT NOT NULL,
        what TEXT NOT NULL,
        mark TEXT NOT NULL,
        yes INTEGER NOT NULL,
        no INTEGER NOT NULL,
        in_a_row INTEGER NOT NULL,
        last_was_yes INTEGER NOT NULL,
        width TEXT NOT NULL,
        last INTEGER NOT NULL,
        given_by TEXT NOT NULL,
        PRIMARY KEY (uid, profile, access, what, mark)
    ) STRICT;
    CREATE TABLE clock (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), last_seen INTEGER NOT NULL) STRICT;
    INSERT INTO clock VALUES (1, 0);";

/// A file that could not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Where it is now.
    pub to: PathBuf,
    pub why: String,
}

/// What a file holds.
pub(super) struct Contents {
    /// What may still hold.
    pub rows: Vec<Stored>,
    pub answers: Vec<(Holder, Thing, Count)>,
    pub last_seen: u64,
}

pub(super) struct Opened {
    pub connection: Connection,
    pub contents: Contents,
    pub set_aside: Option<SetAside>,
}

/// Why a file is not used.
enum Unfit {
    /// Nobody can say what it holds.
    Damaged(String),
    /// It is not that; try again, or ask an admin.
    Error(StoreError),
}

pub(super) fn open(directory: &Path) -> Result<Opened, StoreError> {
    let failed = |source| StoreError::File { path: directory.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    // SQLite follows no link to its file, and takes none on the way there.
    let directory = fs::canonicalize(directory).map_err(failed)?;
    let path = directory.join(FILE);
    let mut set_aside = None;
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(StoreError::File { path, source }),
        Ok(found) => match check_owner(&found).map_err(Unfit::Damaged).and_then(|()| read(&path)) {
            Ok((connection, contents)) => return Ok(Opened { connection, contents, set_aside: None }),
            Err(Unfit::Error(error)) => return Err(error),
            Err(Unfit::Damaged(why)) => {
                let to = move_away(&path).map_err(|source| StoreError::File { path: path.clone(), source })?;
                set_aside = Some(SetAside { to, why });
            }
        },
    }
    make(&directory, &path)?;
    match read(&path) {
        Ok((connection, contents)) => Ok(Opened { connection, contents, set_aside }),
        Err(Unfit::Error(error)) => Err(error),
        Err(Unfit::Damaged(why)) => Err(StoreError::File { path, source: io::Error::other(why) }),
    }
}

fn check_owner(found: &fs::Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    match () {
        () if !found.is_file() => Err("it is not a regular file".into()),
        () if found.uid() != own => Err(format!("it is owned by user {}; {own} was expected", found.uid())),
        () if found.mode() & 0o077 != 0 => {
            Err(format!("others than its owner may read or write it (mode {:o})", found.mode() & 0o7777))
        }
        () if found.nlink() != 1 => Err("it has another name besides".into()),
        () => Ok(()),
    }
}

/// An empty store, whole before it has its name: whatever else has that name is no store.
fn make(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let new = directory.join(format!("{FILE}.new"));
    let failed = |source| StoreError::File { path: new.clone(), source };
    for old in companions(&new).into_iter().chain([new.clone()]) {
        match fs::remove_file(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    // The journal of what was set aside would be played into the new one.
    for old in companions(path) {
        let _gone = fs::remove_file(old);
    }
    drop(fs::File::options().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?);
    let write = || -> rusqlite::Result<()> {
        let mut connection = connect(&new)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)
    };
    write().map_err(|source| StoreError::Open { path: new.clone(), source })?;
    fs::rename(&new, path).map_err(failed)?;
    fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(path, flags)?;
    // Two daemons on one file would each believe to know it.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "DELETE")?;
    connection.pragma_update(None, "synchronous", "EXTRA")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // What is forgotten is not left in pages that nobody uses.
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(connection)
}

/// Opens a file that is there and reads all of it.
fn read(path: &Path) -> Result<(Connection, Contents), Unfit> {
    let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch) => {
            Unfit::Damaged(source.to_string())
        }
        // A table or a column that is not there, or another type of value in it.
        None => Unfit::Damaged(source.to_string()),
        Some(ErrorCode::Unknown) => Unfit::Damaged(source.to_string()),
        Some(_) => Unfit::Error(StoreError::Open { path: path.to_owned(), source }),
    };
    let mut connection = connect(path).map_err(failed)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id").map_err(failed)? != APPLICATION {
        return Err(Unfit::Damaged("it is no store of gated's".into()));
    }
    match pragma("user_version").map_err(failed)? {
        VERSION => {}
        found if found > VERSION => {
            return Err(Unfit::Error(StoreError::Newer { path: path.to_owned(), found }));
        }
        other => return Err(Unfit::Damaged(format!("it has version {other}, which there never was"))),
    }
    let verdict: String = connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).map_err(failed)?;
    if verdict != "ok" {
        return Err(Unfit::Damaged(verdict.lines().next().unwrap_or_default().to_owned()));
    }
    let (all, broken) = rows::select(&connection, None).map_err(failed)?;
    if broken > 0 {
        return Err(Unfit::Damaged(format!("{broken} of its rows are not what was written")));
    }
    let answers = tally::select(&connection).map_err(failed)?;
    let sql = "SELECT last_seen FROM clock WHERE one = 1";
    let last_seen: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(failed)?;
    let rows = all.into_iter().filter(|row| row.revoked.is_none()).map(|row| row.stored).collect();
    // A disk that takes nothing can still be read.
    if let Err(error) = forget_old(&mut connection) {
        tracing::warn!(%error, "what holds no more stays in the store");
    }
    let last_seen = u64::try_from(last_seen).unwrap_or(0);
    Ok((connection, Contents { rows, answers, last_seen }))
}

fn forget_old(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    rows::delete_old(&transaction, now_micros().saturating_sub(KEPT))?;
    transaction.commit()
}

/// Writes down that it is as late as this, second of CLOCK_REALTIME.
pub(super) fn saw(transaction: &Transaction<'_>, now: u64) -> rusqlite::Result<()> {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    transaction.execute("UPDATE clock SET last_seen = max(last_seen, ?1)", params![now])?;
    Ok(())
}

/// What SQLite has beside a file.
fn companions(path: &Path) -> Vec<PathBuf> {
    ["-journal", "-wal", "-shm"]
        .into_iter()
        .map(|end| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        })
        .collect()
}

/// Out of the way, with its companions, under a name that nothing has.
fn move_away(path: &Path) -> io::Result<PathBuf> {
    let mut time = now_micros() / 1_000_000;
    let to = loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".corrupt-{time}"));
        let to = PathBuf::from(name);
        match fs::symlink_metadata(&to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break to,
            Err(error) => return Err(error),
            Ok(_) => time = time.saturating_add(1),
        }
    };
    for (old, new) in companions(path).into_iter().zip(companions(&to)) {
        match fs::rename(old, new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, &to)?;
    Ok(to)
}
