//! `grant show|revoke|forget|export`, `history`: answers that outlive their sessions, and how often what was answered. Runs as
//! the caller.

use clap::{Args, Subcommand};
use serde::Serialize;
use zbus::proxy::CacheProperties;

use super::daemon::{Daemon, Grant, Reader};
use super::failure::Failure;
use super::grants;
use super::ids::{Kind, Prefix};
use super::output::{Output, moment, user_name};
use super::polkit::TextAgent;
use super::table::{Cell, Column, Table};
use crate::ctl::proxies::{GrantsProxy, Options};

#[derive(Debug, Subcommand)]
pub enum GrantVerb {
    /// Say all about a grant, also one that holds no more
    Show {
        /// The grant
        #[arg(value_name = "GRANT")]
        grant: Prefix,
    },

    /// Take it back, from the next attempt on
    Revoke {
        /// The grant
        #[arg(value_name = "GRANT")]
        grant: Prefix,
    },

    /// Take it back, and erase it and how often the same was answered
    Forget {
        /// The grant
        #[arg(value_name = "GRANT")]
        grant: Prefix,
    },

    /// Write all that outlives its session as JSON lines
    Export {
        /// Also what holds no more
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub struct History {
    /// Of all users, for root
    #[arg(long)]
    pub all: bool,

    /// Under this profile only
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
}

/// How often one thing was answered, in JSON.
#[derive(Serialize)]
struct Answers {
    user: u32,
    user_name: String,
    profile: String,
    access: String,
    what: String,
    yes: u64,
    no: u64,
    in_a_row: u32,
    last: String,
    last_decision: &'static str,
    by: String,
}

impl Daemon {
    pub(super) async fn lasting(&self) -> Result<GrantsProxy<'static>, Failure> {
        let proxy = GrantsProxy::builder(&self.connection).cache_properties(CacheProperties::No);
        Ok(proxy.build().await?)
    }

    /// All that is stored, of this user or of all, whether it holds or not.
    pub(super) async fn stored(&self, of_all: bool) -> Result<Vec<Grant>, Failure> {
        let filter = if of_all { Options::from([("all", true.into())]) } else { Options::new() };
        let mut grants = Vec::new();
        for fields in self.lasting().await?.list_stored(filter).await? {
            grants.push(Reader { what: "a grant", fields }.grant()?);
        }
        Ok(grants)
    }

    /// One that holds, or held.
    async fn grant(&self, prefix: &Prefix) -> Result<Grant, Failure> {
        let mut known = self.grants(None).await?;
        for stored in self.stored(false).await? {
            if !known.iter().any(|own| own.id == stored.id) {
                known.push(stored);
            }
        }
        let id = match (prefix.pick(Kind::Grant, known, |grant| grant.id.clone()), prefix.whole(Kind::Grant)) {
            (Ok(grant), _) => grant.id,
            (Err(Failure::NotFound { .. }), Some(id)) => id.to_owned(),
            (Err(failure), _) => return Err(failure),
        };
        let fields = self.lasting().await?.show(&id).await.map_err(|error| gone(error, prefix))?;
        Reader { what: "a grant", fields }.grant()
    }
}

fn gone(error: zbus::Error, prefix: &Prefix) -> Failure {
    match Failure::from(error) {
        Failure::TooLate(_) => Failure::NotFound { kind: Kind::Grant, prefix: prefix.clone() },
        other => other,
    }
}

pub async fn grant(output: &Output, verb: &GrantVerb) -> Result<(), Failure> {
    match verb {
        GrantVerb::Show { grant } => show(output, grant).await,
        GrantVerb::Revoke { grant } => grants::revoke(output, Some(grant)).await,
        GrantVerb::Forget { grant } => forget(output, grant).await,
        GrantVerb::Export { all } => export(output, *all).await,
    }
}

async fn show(output: &Output, prefix: &Prefix) -> Result<(), Failure> {
    let grant = Daemon::connect().await?.grant(prefix).await?;
    if output.json {
        return output.json(&grant.shown());
    }
    let local = |at: u64| Cell::Own(output.local(moment(at)));
    let mut fields = vec![
        ("grant", Cell::own(&*grant.id)),
        ("does", Cell::own(format!("{} {}", grant.effect, grant.access))),
        ("covers", grant.covers()),
        ("holds", Cell::own(grant.holds())),
        ("user", Cell::Own(user_name(grant.user))),
        ("profile", Cell::own(&*grant.profile)),
    ];
    if !grant.session.is_empty() {
        fields.push(("session", Cell::own(&*grant.session)));
    }
    fields.push(("given", local(grant.given)));
    fields.push(("by", Cell::Tool(grant.by.clone().into_bytes())));
    fields.push(("proven", Cell::own(if grant.authenticated { "yes" } else { "no" })));
    fields.extend(grant.until.map(|until| ("until", local(until))));
    if let Some(rule) = &grant.rule {
        fields.push(("rule", Cell::own(format!("{} ({}:{})", rule.id, rule.file, rule.line))));
    }
    fields.extend(grant.uses.map(|uses| ("uses", Cell::own(uses.to_string()))));
    fields.extend(grant.last_used.map(|at| ("last used", local(at))));
    if let Some((at, by)) = &grant.revoked {
        fields.push(("revoked", local(*at)));
        fields.push(("revoked by", Cell::Tool(by.clone().into_bytes())));
    }
    output.fields(&fields)
}

async fn forget(output: &Output, prefix: &Prefix) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let grant = daemon.grant(prefix).await?;
    let _agent = TextAgent::start_if(grant.user != nix::unistd::getuid().as_raw());
    daemon.lasting().await?.forget(&grant.id).await.map_err(|error| gone(error, prefix))?;
    match output.json {
        true => output.json(&serde_json::json!({ "forgotten": grant.id })),
        false => output.line("Forgotten."),
    }
}

/// One value on each line, with `--json` or without.
async fn export(output: &Output, all: bool) -> Result<(), Failure> {
    let grants = Daemon::connect().await?.stored(false).await?;
    for grant in grants.iter().filter(|grant| all || grant.is_live()) {
        output.json(&grant.shown())?;
    }
    Ok(())
}

pub async fn history(output: &Output, arguments: &History) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let _agent = TextAgent::start_if(arguments.all);
    let filter = if arguments.all { Options::from([("all", true.into())]) } else { Options::new() };
    let mut answers = Vec::new();
    for fields in daemon.lasting().await?.history(filter).await? {
        let mut fields = Reader { what: "an answer", fields };
        let user: u32 = fields.take("user")?;
        let yes: bool = fields.take("last-was-yes")?;
        let last: u64 = fields.take("last")?;
        let answer = Answers {
            user,
            user_name: user_name(user),
            profile: fields.take("profile")?,
            access: fields.take("access")?,
            what: fields.take("what")?,
            yes: fields.take("yes")?,
            no: fields.take("no")?,
            in_a_row: fields.take("in-a-row")?,
            last: format!("{:.6}", moment(last)),
            last_decision: if yes { "yes" } else { "no" },
            by: fields.take("by")?,
        };
        if arguments.profile.as_ref().is_none_or(|profile| *profile == answer.profile) {
            answers.push((last, answer));
        }
    }
    if output.json {
        return output.json(&answers.into_iter().map(|(_, answer)| answer).collect::<Vec<_>>());
    }
    let mut table = Table::new(
        output.width,
        &[
            Column::whole("LAST"),
            Column::whole("USER").if_wide(),
            Column::whole("PROFILE").if_wide(),
            Column::whole("YES"),
            Column::whole("NO"),
            Column::cut("BY").if_wide(),
            Column::whole("ACCESS"),
            Column::cut("WHAT"),
        ],
    );
    for (last, answer) in answers {
        table.push(vec![
            Cell::Own(output.short_local(moment(last))),
            Cell::Own(answer.user_name),
            Cell::Own(answer.profile),
            Cell::own(answer.yes.to_string()),
            Cell::own(answer.no.to_string()),
            Cell::Escaped(answer.by),
            Cell::Own(answer.access),
            Cell::Escaped(answer.what),
        ]);
    }
    output.table(&table, "Nothing was answered.")
}
