//! The daemon as `gatedctl` sees it: one connection to the system bus, and what is asked over it. Runs as the caller; what
//! comes back is checked before anything is made of it.

use zbus::fdo::{ManagedObjects, ObjectManagerProxy};
use zbus::{Connection, OwnedObjectPath, OwnedVariant};

use super::failure::Failure;
use super::ids::{Kind, Prefix};
use crate::common::bus::{BUS_NAME, MANAGER_PATH, REQUEST_INTERFACE, SESSION_INTERFACE, SESSIONS_PATH};
use crate::common::consent::Prompt;
use crate::common::details::Details;
use crate::common::text::Untrusted;
use crate::ctl::proxies::{Fields, ManagerProxy, Options, PATIENCE, PolicyProxy, SessionProxy};

/// A connection on which gatedd has an owner, or can be started.
pub struct Daemon {
    pub connection: Connection,
    pub manager: ManagerProxy<'static>,
}

/// A session as it is listed.
#[derive(Debug)]
pub struct Session {
    pub id: String,
    pub user: u32,
    pub profile: String,
    pub directory: Vec<u8>,
    pub state: String,
    /// Microseconds since 1970.
    pub started: u64,
    pub unit: String,
    pub calls: Vec<Call>,
}

/// A call that runs.
#[derive(Debug)]
pub struct Call {
    pub number: u32,
    pub pid: u32,
    pub argv: Vec<Untrusted>,
}

/// A request that waits.
#[derive(Debug)]
pub struct Pending {
    pub id: String,
    /// Whose session it is.
    pub user: u32,
    pub prompt: Prompt,
}

/// An answer that still holds.
#[derive(Debug)]
pub struct Grant {
    pub id: String,
    /// Empty where it outlives its session.
    pub session: String,
    pub user: u32,
    /// Empty where a daemon does not say it.
    pub profile: String,
    /// `allow` or `deny`.
    pub effect: String,
    pub access: String,
    /// The pattern that it covers.
    pub scope: String,
    /// What was asked for.
    pub object: Vec<u8>,
    pub lifetime: String,
    pub call: Option<u32>,
    pub by: String,
    pub authenticated: bool,
    /// Microseconds since 1970.
    pub given: u64,
    /// The same; when it is over in any case.
    pub until: Option<u64>,
    /// What it decided, as far as that is counted.
    pub uses: Option<u64>,
    /// Microseconds since 1970.
    pub last_used: Option<u64>,
    /// When, and by whom.
    pub revoked: Option<(u64, String)>,
    /// The rule that asked.
    pub rule: Option<AskedBy>,
}

/// A rule by its place.
#[derive(Debug)]
pub struct AskedBy {
    pub id: String,
    pub file: String,
    pub line: u32,
}

/// What can be seen by this user.
#[derive(Debug, Default)]
pub struct Objects {
    /// Oldest first.
    pub sessions: Vec<Session>,
    /// The one with the least time left first.
    pub pending: Vec<Pending>,
    /// The ids of those, by the paths of their objects.
    pub pending_at: Vec<(OwnedObjectPath, String)>,
    /// What could not be understood.
    pub failures: Vec<Failure>,
}

/// The system bus.
pub async fn connect() -> Result<Connection, Failure> {
    zbus::connection::Builder::system().method_timeout(PATIENCE).build().await.map_err(Failure::NoBus)
}

impl Daemon {
    pub async fn connect() -> Result<Daemon, Failure> {
        Daemon::on(connect().await?).await
    }

    pub async fn on(connection: Connection) -> Result<Daemon, Failure> {
        let manager = ManagerProxy::builder(&connection).cache_properties(zbus::proxy::CacheProperties::No);
        Ok(Daemon { manager: manager.build().await?, connection })
    }

    pub async fn policy(&self) -> Result<PolicyProxy<'static>, Failure> {
        let policy = PolicyProxy::builder(&self.connection).cache_properties(zbus::proxy::CacheProperties::No);
        Ok(policy.build().await?)
    }

    pub async fn objects(&self) -> Result<Objects, Failure> {
        let objects = self.all_objects().await?;
        // One that is not understood is told, and does not hide the others.
        objects.failures.iter().for_each(|failure| eprintln!("gatedctl: {failure}"));
        Ok(objects)
    }

    /// The same for who has no standard error.
    pub async fn all_objects(&self) -> Result<Objects, Failure> {
        let proxy = ObjectManagerProxy::builder(&self.connection).destination(BUS_NAME).path(MANAGER_PATH);
        let proxy = proxy.cache_properties(zbus::proxy::CacheProperties::No).build().await?;
        let managed = proxy.get_managed_objects().await.map_err(zbus::Error::from)?;
        Ok(objects(managed))
    }

    pub async fn session(&self, prefix: &Prefix) -> Result<Session, Failure> {
        prefix.pick(Kind::Session, self.objects().await?.sessions, |session| session.id.clone())
    }

    pub async fn pending(&self, prefix: &Prefix) -> Result<Pending, Failure> {
        prefix.pick(Kind::Request, self.objects().await?.pending, |pending| pending.id.clone())
    }

    /// Of one session, or of all.
    pub async fn grants(&self, session: Option<&str>) -> Result<Vec<Grant>, Failure> {
        let filter: Options<'_> = session.map(|session| ("session", session.into())).into_iter().collect();
        let mut grants = Vec::new();
        for fields in self.manager.list_grants(filter).await? {
            let mut fields = Reader { what: "a grant", fields };
            grants.push(fields.grant()?);
        }
        grants.sort_by(|a, b| (a.given, &a.id).cmp(&(b.given, &b.id)));
        Ok(grants)
    }

    /// Kill everything in the session with this whole id.
    pub async fn stop(&self, session: &str) -> Result<(), Failure> {
        let path = format!("{SESSIONS_PATH}/{session}");
        let proxy = SessionProxy::builder(&self.connection).path(path);
        let proxy = proxy.cache_properties(zbus::proxy::CacheProperties::No).build().await?;
        Ok(proxy.stop(Options::new()).await?)
    }
}

/// A request, by the properties of its object.
pub fn request(fields: Fields) -> Result<Pending, Failure> {
    Reader { what: "a request", fields }.pending()
}

/// What is understood of them.
fn objects(managed: ManagedObjects) -> Objects {
    let mut objects = Objects::default();
    for (path, interfaces) in managed {
        for (interface, fields) in interfaces {
            let read = match interface.as_str() {
                SESSION_INTERFACE => {
                    let mut fields = Reader { what: "a session", fields };
                    fields.session().map(|session| objects.sessions.push(session))
                }
                REQUEST_INTERFACE => request(fields).map(|pending| {
                    objects.pending_at.push((path.clone(), pending.id.clone()));
                    objects.pending.push(pending);
                }),
                _ => Ok(()),
            };
            objects.failures.extend(read.err());
        }
    }
    objects.sessions.sort_by(|a, b| (a.started, &a.id).cmp(&(b.started, &b.id)));
    objects.pending.sort_by(|a, b| (a.prompt.deadline, &a.id).cmp(&(b.prompt.deadline, &b.id)));
    objects
}

/// Named values, taken one by one; unknown ones are passed over, for a newer daemon may have more to say.
pub(super) struct Reader {
    pub what: &'static str,
    pub fields: Fields,
}

impl Reader {
    pub fn may<T: TryFrom<OwnedVariant>>(&mut self, key: &str) -> Result<Option<T>, Failure> {
        let wrong = |_| Failure::Nonsense(format!("{} with a wrong {key}", self.what));
        self.fields.remove(key).map(T::try_from).transpose().map_err(wrong)
    }

    pub fn take<T: TryFrom<OwnedVariant>>(&mut self, key: &str) -> Result<T, Failure> {
        self.may(key)?.ok_or_else(|| Failure::Nonsense(format!("{} without {key}", self.what)))
    }

    /// An id: what is typed into a shell again.
    fn id(&mut self, key: &str) -> Result<String, Failure> {
        let id: String = self.take(key)?;
        let is_id = !id.is_empty() && id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id { Ok(id) } else { Err(Failure::Nonsense(format!("{} with a wrong {key}", self.what))) }
    }

    fn session(&mut self) -> Result<Session, Failure> {
        let mut calls = Vec::new();
        for fields in self.take::<Vec<Fields>>("Calls")? {
            let mut call = Reader { what: "a call", fields };
            let argv: Vec<Vec<u8>> = call.take("argv")?;
            let argv = argv.into_iter().map(Untrusted::new).collect();
            calls.push(Call { number: call.take("call")?, pid: call.take("pid")?, argv });
        }
        calls.sort_by_key(|call| call.number);
        Ok(Session {
            id: self.id("Id")?,
            user: self.take("User")?,
            profile: self.take("Profile")?,
            directory: self.take("Directory")?,
            state: self.take("State")?,
            started: self.take("Started")?,
            unit: self.take("Unit")?,
            calls,
        })
    }

    fn pending(&mut self) -> Result<Pending, Failure> {
        let id: String = self.id("Id")?;
        let details: Details = self.take("Details")?;
        let question = details.question(&id).map_err(|error| Failure::Nonsense(format!("a request whose {error}")))?;
        Ok(Pending { id, user: question.user, prompt: question.into() })
    }

    pub fn grant(&mut self) -> Result<Grant, Failure> {
        let rule = match self.may::<String>("rule")? {
            Some(id) => {
                let (file, line) = (self.may("file")?.unwrap_or_default(), self.may("line")?.unwrap_or_default());
                Some(AskedBy { id, file, line })
            }
            None => None,
        };
        let revoked = match self.may::<u64>("revoked")? {
            Some(at) => Some((at, self.may("revoked-by")?.unwrap_or_default())),
            None => None,
        };
        let session = if self.fields.contains_key("session") { self.id("session")? } else { String::new() };
        Ok(Grant {
            id: self.id("id")?,
            session,
            profile: self.may("profile")?.unwrap_or_default(),
            effect: self.may("effect")?.unwrap_or_else(|| "allow".to_owned()),
            uses: self.may("uses")?,
            last_used: self.may("last-used")?,
            revoked,
            rule,
            user: self.take("user")?,
            access: self.take("access")?,
            scope: self.take("scope")?,
            object: self.take("object")?,
            lifetime: self.take("lifetime")?,
            call: self.may("call")?,
            by: self.take("by")?,
            authenticated: self.take("authenticated")?,
            given: self.take("given")?,
            until: self.may("until")?,
        })
    }
}
