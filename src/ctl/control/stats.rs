//! `stats`: what the daemon counted. Runs as the caller, who sees their own sessions' counts, or everybody's as root or with
//! polkit's leave.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use zbus::OwnedVariant;

use super::daemon;
use super::failure::Failure;
use super::output::{Output, moment};
use super::polkit::TextAgent;
use super::table::{Cell, Column, Table};
use crate::ctl::proxies::{Fields, Options, StatisticsProxy};

#[derive(Debug, Args)]
pub struct StatsArguments {
    /// Of everybody's sessions; for root it is so anyway
    #[arg(long)]
    all: bool,

    /// Also have the daemon write its file for monitoring now
    #[arg(long)]
    write: bool,
}

/// The JSON.
#[derive(Debug, Serialize)]
struct Statistics {
    since: String,
    sessions: u64,
    sessions_started: u64,
    pending: u64,
    agents: u64,
    grants: BTreeMap<String, u64>,
    /// By access and result.
    requests: BTreeMap<String, BTreeMap<String, u64>>,
    denials: u64,
    /// By source.
    decisions: BTreeMap<String, u64>,
    waits: Waits,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit_failures: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Waits {
    count: u64,
    seconds: f64,
    /// How many waited no longer.
    within: Vec<Within>,
}

#[derive(Debug, Serialize)]
struct Within {
    seconds: f64,
    count: u64,
}

/// The value of a key; a newer daemon may have more to say.
fn take<T: TryFrom<OwnedVariant>>(fields: &mut Fields, key: &str) -> Result<T, Failure> {
    let wrong = || Failure::Nonsense(format!("statistics without {key}, or with a wrong one"));
    fields.remove(key).and_then(|value| T::try_from(value).ok()).ok_or_else(wrong)
}

fn read(mut fields: Fields) -> Result<Statistics, Failure> {
    let mut requests: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (access, result, count) in take::<Vec<(String, String, u64)>>(&mut fields, "requests")? {
        requests.entry(access).or_default().insert(result, count);
    }
    let (count, microseconds): (u64, u64) = take(&mut fields, "waited")?;
    let waits: Vec<(u64, u64)> = take(&mut fields, "waits")?;
    Ok(Statistics {
        since: format!("{:.6}", moment(take(&mut fields, "since")?)),
        sessions: take(&mut fields, "sessions")?,
        sessions_started: take(&mut fields, "sessions-started")?,
        pending: take(&mut fields, "pending")?,
        agents: take(&mut fields, "agents")?,
        grants: take::<Vec<(String, u64)>>(&mut fields, "grants")?.into_iter().collect(),
        requests,
        denials: take(&mut fields, "denials")?,
        decisions: take::<Vec<(String, u64)>>(&mut fields, "decisions")?.into_iter().collect(),
        waits: Waits {
            count,
            seconds: std::time::Duration::from_micros(microseconds).as_secs_f64(),
            within: waits
                .into_iter()
                .map(|(end, count)| Within { seconds: std::time::Duration::from_millis(end).as_secs_f64(), count })
                .collect(),
        },
        audit_failures: fields
            .contains_key("audit-failures")
            .then(|| take(&mut fields, "audit-failures"))
            .transpose()?,
    })
}

pub async fn stats(output: &Output, arguments: &StatsArguments) -> Result<(), Failure> {
    let connection = daemon::connect().await?;
    let proxy =
        StatisticsProxy::builder(&connection).cache_properties(zbus::proxy::CacheProperties::No).build().await?;
    let _agent = TextAgent::start_if(arguments.all || arguments.write);
    if arguments.write {
        proxy.write(Options::new()).await?;
    }
    let statistics = read(proxy.get(Options::from([("all", arguments.all.into())])).await?)?;
    if output.json {
        return output.json(&statistics);
    }
    let grants: u64 = statistics.grants.values().fold(0, |sum, count| sum.saturating_add(*count));
    let decided: Vec<String> = statistics
        .decisions
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(source, count)| format!("{source} {count}"))
        .collect();
    let mut fields = vec![
        ("since", Cell::Own(statistics.since.clone())),
        ("sessions", Cell::Own(format!("{} now, {} in all", statistics.sessions, statistics.sessions_started))),
        ("waiting for an answer", Cell::Own(statistics.pending.to_string())),
        ("answers that hold", Cell::Own(grants.to_string())),
        ("consent agents", Cell::Own(statistics.agents.to_string())),
        ("denials", Cell::Own(statistics.denials.to_string())),
        ("decided by", Cell::Own(if decided.is_empty() { "nobody yet".to_owned() } else { decided.join(", ") })),
        ("answered within", Cell::Own(statistics.waits.half())),
    ];
    if let Some(failures) = statistics.audit_failures {
        fields.push(("records that failed", Cell::Own(failures.to_string())));
    }
    output.fields(&fields)?;
    let mut table =
        Table::new(output.width, &[Column::whole("ACCESS"), Column::whole("RESULT"), Column::whole("COUNT")]);
    for (access, results) in &statistics.requests {
        for (result, count) in results {
            table.push(vec![Cell::own(access.as_str()), Cell::own(result.as_str()), Cell::Own(count.to_string())]);
        }
    }
    output.line("")?;
    output.table(&table, "Nothing was asked for or recorded.")
}

impl Waits {
    /// What half of them, and nine of ten, took at the most.
    fn half(&self) -> String {
        let within = |parts: u64, of: u64| {
            let enough = self.count.saturating_mul(parts).div_ceil(of);
            let class = self.within.iter().find(|within| within.count >= enough);
            class.map_or_else(|| "more than 15 minutes".to_owned(), |within| format!("{} s", within.seconds))
        };
        match self.count {
            0 => "nothing has waited yet".to_owned(),
            _ => format!("{} (half of them), {} (nine of ten)", within(1, 2), within(9, 10)),
        }
    }
}
