//! `org.gated.Gated1.Grants`, as `dbus/org.gated.Gated1.Grants.xml` says: answers given before anything asked, and those that
//! outlive their sessions. Runs as root in the daemon; every argument is any local user's.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use zbus::message::Header;
use zbus::{Connection, OwnedVariant, Variant};

use super::Doing;
use super::error::Error;
use super::handle::Handle;
use super::manager::{grant_id, session_id};
use super::objects::MOST_LISTED;
use super::options::Options;
use crate::common::access::Access;
use crate::common::decision::{Effect, Term};
use crate::common::path::RawPath;
use crate::common::text;
use crate::daemon::answers::{Chosen, For, Listed, Unasked};
use crate::daemon::core::Core;
use crate::daemon::lasting::end_of;
use crate::policy::unasked::Words;

type Dict = HashMap<&'static str, Variant<'static>>;

/// Bytes of the words of a command at the most.
const MOST_BYTES: usize = 8 << 10;

pub struct Grants {
    handle: Handle,
}

impl Grants {
    pub fn new(handle: Handle) -> Grants {
        Grants { handle }
    }
}

/// A grant in a list.
pub fn row(listed: Listed) -> Dict {
    let Listed { session, uid, profile, grant, given, uses, last_used, revoked } = listed;
    let mut row = Dict::from([
        ("id", Variant::from(grant.id.to_string())),
        ("user", Variant::from(uid)),
        ("profile", Variant::from(text::escaped(profile.as_bytes()))),
        ("effect", Variant::from(grant.effect.as_str())),
        ("access", Variant::from(grant.access.as_str())),
        ("scope", Variant::from(grant.scope())),
        ("object", Variant::from(grant.object.as_bytes().to_vec())),
        ("lifetime", Variant::from(grant.lifetime.as_str())),
        ("by", Variant::from(text::escaped(grant.by.as_bytes()))),
        ("authenticated", Variant::from(grant.authenticated)),
        ("given", Variant::from(given)),
    ]);
    row.extend(session.map(|session| ("session", Variant::from(session.0))));
    row.extend(grant.until.map(|until| ("until", Variant::from(end_of(until)))));
    row.extend(grant.call.map(|call| ("call", Variant::from(call.0))));
    row.extend(grant.group.map(|group| ("group", Variant::from(group))));
    row.extend(uses.map(|uses| ("uses", Variant::from(uses))));
    row.extend(last_used.map(|at| ("last-used", Variant::from(at))));
    if let Some(revoked) = revoked {
        row.insert("revoked", Variant::from(revoked.at));
        row.insert("revoked-by", Variant::from(text::escaped(revoked.by.as_bytes())));
    }
    if let Some(rule) = grant.origin {
        row.insert("rule", Variant::from(text::escaped(rule.id.as_bytes())));
        row.insert("file", Variant::from(text::escaped(rule.file.as_bytes())));
        row.insert("line", Variant::from(rule.line));
    }
    row
}

/// As many rows as fit into a message.
pub fn rows(listed: Vec<Listed>) -> Vec<Dict> {
    let mut room = MOST_LISTED;
    let fits = |listed: &Listed| {
        let object = listed.grant.object.as_bytes().len();
        // The scope has the object in it, escaped.
        room = room.saturating_sub(object.saturating_mul(5).saturating_add(1024));
        room > 0
    };
    listed.into_iter().take_while(fits).map(row).collect()
}

fn words(pattern: HashMap<String, OwnedVariant>) -> Result<Words, Error> {
    let mut pattern = Options::new(pattern);
    let wrong = || Error::InvalidArgument("pattern".into());
    let bytes = |list: Option<Vec<Vec<u8>>>| {
        let list = list.unwrap_or_default();
        let length: usize = list.iter().map(|word| word.len().saturating_add(1)).sum();
        let is_plain = length <= MOST_BYTES && !list.iter().any(|word| word.contains(&0));
        is_plain.then_some(list).ok_or_else(wrong)
    };
    let words = match (
        pattern.take::<String>("paths")?,
        pattern.path("program")?,
        pattern.take::<String>("host")?,
        pattern.take::<String>("socket")?,
    ) {
        (Some(paths), None, None, None) => Words::Paths(paths),
        (None, Some(program), None, None) => Words::Command {
            program,
            words: bytes(pattern.take("words")?)?,
            interpreters: bytes(pattern.take("interpreters")?)?.into_iter().map(RawPath::new).collect(),
        },
        (None, None, Some(host), None) => Words::Host(host),
        (None, None, None, Some(socket)) => Words::Socket(socket),
        _ => return Err(wrong()),
    };
    pattern.end()?;
    Ok(words)
}

fn term(options: &mut Options) -> Result<Term, Error> {
    let time: Option<u64> = options.take("time")?;
    let term: String = options.take("term")?.ok_or_else(|| Error::InvalidOption("term".into()))?;
    match (term.as_str(), time) {
        ("session", None) => Ok(Term::Session),
        ("always", None) => Ok(Term::Always),
        // Whole seconds, as clocks here count.
        ("for", Some(time)) if time >= 1_000_000 => Ok(Term::For(Duration::from_secs(time / 1_000_000))),
        _ => Err(Error::InvalidOption("term".into())),
    }
}

#[zbus::interface(name = "org.gated.Gated1.Grants", introspection_docs = false)]
impl Grants {
    #[zbus(out_args("grant"))]
    async fn add_grant(
        &self,
        effect: &str,
        access: &str,
        pattern: HashMap<String, OwnedVariant>,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Dict, Error> {
        let invalid = |what: &str| Error::InvalidArgument(what.to_owned());
        let effect = [Effect::Allow, Effect::Deny].into_iter().find(|own| own.as_str() == effect);
        let access = Access::ALL.into_iter().find(|own| own.as_str() == access);
        let mut options = Options::new(options);
        let place = match options.take::<String>("session")? {
            Some(session) => For::Session(session_id(&session)?),
            None => For::Profile(Chosen {
                profile: options.take("profile")?,
                directory: options.path("directory")?.unwrap_or_else(|| RawPath::from("/")),
                home: options.path("home")?,
                profiles: options.texts("profiles")?,
                user: options.take("user")?,
            }),
        };
        let unasked = Unasked {
            effect: effect.ok_or_else(|| invalid("effect"))?,
            access: access.ok_or_else(|| invalid("access"))?,
            words: words(pattern)?,
            term: term(&mut options)?,
            place,
        };
        options.end()?;
        let add = move |core: Rc<Core>, caller| -> Doing<_> {
            let unasked = unasked.clone();
            Box::pin(async move {
                let added = core.add_grant(&caller, unasked).await?;
                Ok((added.listed, u32::try_from(added.not_in).unwrap_or(u32::MAX)))
            })
        };
        let (listed, not_in) = self.handle.call(connection, &header, add).await?;
        let mut row = row(listed);
        row.insert("not-in-sessions", Variant::from(not_in));
        Ok(row)
    }

    #[zbus(out_args("grants"))]
    async fn list_stored(
        &self,
        filter: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<Dict>, Error> {
        let mut filter = Options::new(filter);
        let all: bool = filter.take("all")?.unwrap_or(false);
        filter.end()?;
        let list =
            move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.stored(&caller, all).await }) };
        Ok(rows(self.handle.call(connection, &header, list).await?))
    }

    #[zbus(out_args("grant"))]
    async fn show(
        &self,
        grant: &str,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Dict, Error> {
        let id = grant_id(grant)?;
        let show =
            move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.show_grant(&caller, id).await }) };
        Ok(row(self.handle.call(connection, &header, show).await?))
    }

    async fn forget(
        &self,
        grant: &str,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        let id = grant_id(grant)?;
        let forget =
            move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.forget_grant(&caller, id).await }) };
        self.handle.call(connection, &header, forget).await
    }

    #[zbus(out_args("answers"))]
    async fn history(
        &self,
        filter: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<Dict>, Error> {
        let mut filter = Options::new(filter);
        let all: bool = filter.take("all")?.unwrap_or(false);
        filter.end()?;
        let history = move |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.history(&caller, all) }) };
        let answers = self.handle.call(connection, &header, history).await?;
        let mut room = MOST_LISTED;
        let fits = |length: usize| {
            room = room.saturating_sub(length.saturating_add(512));
            room > 0
        };
        let mut fits = fits;
        let answers = answers.into_iter().take_while(|(_, thing, _)| fits(thing.what.len()));
        let row = |(holder, thing, count): (
            crate::daemon::store::Holder,
            crate::daemon::store::Thing,
            crate::daemon::store::Count,
        )| {
            Dict::from([
                ("user", Variant::from(holder.uid)),
                ("profile", Variant::from(text::escaped(holder.profile.as_bytes()))),
                ("access", Variant::from(thing.access.as_str())),
                ("what", Variant::from(thing.what)),
                ("yes", Variant::from(count.yes)),
                ("no", Variant::from(count.no)),
                ("in-a-row", Variant::from(count.in_a_row)),
                ("last-was-yes", Variant::from(count.last_was_yes)),
                ("last", Variant::from(count.last)),
                ("by", Variant::from(text::escaped(count.by.as_bytes()))),
            ])
        };
        Ok(answers.map(row).collect())
    }
}
