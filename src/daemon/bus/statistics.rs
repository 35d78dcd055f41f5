//! What is counted: `org.gated.Gated1.Statistics`, as `dbus/org.gated.Gated1.Statistics.xml` says. Runs as root in the daemon;
//! every argument is any local user's.

use std::collections::HashMap;
use std::rc::Rc;

use zbus::message::Header;
use zbus::{Connection, OwnedVariant, Variant};

use super::Doing;
use super::error::Error;
use super::handle::Handle;
use super::options::Options;
use crate::common::access::Access;
use crate::daemon::core::Core;
use crate::daemon::statistics::{LIFETIMES, OUTCOMES, Report, Source};

/// `a{sv}` as it is sent.
type Dict = HashMap<&'static str, Variant<'static>>;

pub struct Statistics {
    handle: Handle,
}

impl Statistics {
    pub fn new(handle: Handle) -> Statistics {
        Statistics { handle }
    }
}

fn told(report: &Report) -> Dict {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let counts = &report.counts;
    let requests: Vec<(&str, &str, u64)> = Access::ALL
        .into_iter()
        .flat_map(|access| {
            OUTCOMES.map(|outcome| (access.as_str(), outcome.as_str(), counts.requests(access, outcome)))
        })
        .filter(|(_, _, count)| *count > 0)
        .collect();
    let decisions: Vec<(&str, u64)> =
        Source::ALL.map(|source| (source.as_str(), counts.decisions(source))).into_iter().collect();
    let denials = Access::ALL.into_iter().fold(0, |sum: u64, access| sum.saturating_add(counts.denials(access)));
    let lifetimes = LIFETIMES.map(|lifetime| (lifetime, report.grants.get(&lifetime).copied().unwrap_or_default()));
    let grants: Vec<(&str, u64)> =
        lifetimes.into_iter().map(|(lifetime, count)| (lifetime.as_str(), number(count))).collect();
    let waited = u64::try_from(counts.waits.sum.as_micros()).unwrap_or(u64::MAX);
    let mut told = Dict::from([
        ("since", Variant::from(report.since)),
        ("requests", Variant::from(requests)),
        ("denials", Variant::from(denials)),
        ("decisions", Variant::from(decisions)),
        ("waits", Variant::from(counts.waits.up_to().collect::<Vec<(u64, u64)>>())),
        ("waited", Variant::from((counts.waits.count, waited))),
        ("sessions", Variant::from(number(report.sessions))),
        ("sessions-started", Variant::from(counts.sessions)),
        ("pending", Variant::from(number(report.pending))),
        ("grants", Variant::from(grants)),
        ("agents", Variant::from(number(report.agents))),
    ]);
    if let Some(failures) = report.audit_failures {
        told.insert("audit-failures", Variant::from(failures));
    }
    told
}

#[zbus::interface(name = "org.gated.Gated1.Statistics", introspection_docs = false)]
impl Statistics {
    #[zbus(out_args("statistics"))]
    async fn get(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Dict, Error> {
        let mut options = Options::new(options);
        let all: bool = options.take("all")?.unwrap_or(false);
        options.end()?;
        let get = move |core: Rc<Core>, caller| -> Doing<_> {
            Box::pin(async move { core.statistics(&caller, all).map(|report| told(&report)) })
        };
        self.handle.call(connection, &header, get).await
    }

    async fn write(
        &self,
        options: HashMap<String, OwnedVariant>,
        #[zbus(header)] header: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<(), Error> {
        Options::new(options).end()?;
        let write = |core: Rc<Core>, caller| -> Doing<_> { Box::pin(async move { core.metrics_asked(&caller).await }) };
        self.handle.call(connection, &header, write).await
    }
}
