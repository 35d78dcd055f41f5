//! What is odd in the programs and hosts of a rule. Pure.

use ipnet::IpNet;

use super::{Finding, Lint, Severity};
use crate::common::access::{Access, Level};
use crate::common::net::{HostPattern, HostTerm, Ports, TermHost, Zone};
use crate::common::path::RawPath;
use crate::common::scope::Part;
use crate::policy::file::RuleTable;
use crate::policy::merged;
use crate::policy::model::{ExecTerms, NetworkTerms, ProgramPattern, Rule};

/// Programs that run whatever their words say.
const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "zsh", "fish", "env", "python3", "perl", "node", "ruby", "busybox", "xargs"];

impl Lint<'_> {
    pub(super) fn program(
        &self,
        found: &mut Vec<Finding>,
        rule: &Rule,
        terms: &ExecTerms,
        pattern: &ProgramPattern,
        at: usize,
    ) {
        let written = merged::program(pattern);
        let ProgramPattern::Path(path) = pattern else {
            if let ProgramPattern::SystemName(name) = pattern {
                self.whole_shell(found, rule, terms, &String::from(name.clone()), at);
            }
            return;
        };
        let is_one = path.parts().iter().all(|part| matches!(part, Part::Name(_)));
        let is_free = matches!(rule.level, Level::Allow | Level::Notify);
        if is_one && (self.machine.follow)(&path.literal_prefix()).is_none() {
            let message = format!("rule `{}`: there is no program {written} here", rule.id);
            let remedy = "Write where it is, or `@path/NAME` for a program of the system wherever it is.";
            // A rule that denies is also for what may come.
            let severity = if is_free { Severity::Warning } else { Severity::Note };
            self.say(found, at, severity, "no-program", message, remedy);
        }
        let tree = path.as_tree();
        let writable = tree.as_ref().is_some_and(|tree| {
            tree.components().next().is_none()
                || self.profile.home.is_within(tree)
                || tree.is_within(&RawPath::from("/tmp"))
        });
        if is_free && self.profile.defaults.exec > rule.level && (writable || !path.is_anchored()) {
            let message = format!("rule `{}` lets {written} run, wherever a tool puts such a program", rule.id);
            self.warn(found, at, "too-broad", message, "Name directories that only root writes, or `@path`.");
        }
        self.whole_shell(found, rule, terms, &String::from_utf8_lossy(path.literal_prefix().file_name()), at);
    }

    /// Whoever may run a shell with any words may run anything by its text.
    fn whole_shell(&self, found: &mut Vec<Finding>, rule: &Rule, terms: &ExecTerms, name: &str, at: usize) {
        let is_free = matches!(rule.level, Level::Allow | Level::Notify) && terms.argv.is_none();
        if is_free && SHELLS.contains(&name) && self.profile.defaults.exec > Level::Notify {
            let message = format!(
                "rule `{}` allows `{name}` with whatever words: what it is told to do is not judged but for the programs that it starts",
                rule.id
            );
            self.say(found, at, Severity::Note, "interpreter", message, "Say which words with `argv`.");
        }
    }

    pub(super) fn hosts(
        &self,
        found: &mut Vec<Finding>,
        rule: &Rule,
        terms: &NetworkTerms,
        table: &RuleTable,
        start: usize,
    ) {
        let is_free = matches!(rule.level, Level::Allow | Level::Notify);
        let place = |number: usize| table.host.get(number).map_or(start, |value| value.span().start);
        if is_free && rule.access.contains(&Access::Connect) {
            for (number, term) in terms.hosts.iter().enumerate() {
                match &term.host {
                    TermHost::Name(HostPattern::Any) => {
                        let message = format!("rule `{}` lets every host be reached: `{term}`", rule.id);
                        self.warn(
                            found,
                            place(number),
                            "too-broad",
                            message,
                            "Name the hosts or domains that it needs.",
                        );
                    }
                    TermHost::Name(HostPattern::Below(domain)) if domain.registrable().is_none() => {
                        let message = format!("rule `{}`: anybody can have a name below `{domain}`", rule.id);
                        self.warn(
                            found,
                            place(number),
                            "too-broad",
                            message,
                            "Name a domain that one owner registered.",
                        );
                    }
                    TermHost::Address(address) if !address.is_loopback() => {
                        let message = format!("rule `{}` names the address {address} and not a host", rule.id);
                        self.warn(
                            found,
                            place(number),
                            "no-name",
                            message,
                            "Write the host's name: whoever is asked can read it, and it stays when the address goes.",
                        );
                    }
                    TermHost::Name(_) if term.ports == Ports::ANY => {
                        let message = format!("rule `{}`: `{term}` is every service of that host", rule.id);
                        self.say(
                            found,
                            place(number),
                            Severity::Note,
                            "all-ports",
                            message,
                            "Write the port, such as `:443`.",
                        );
                    }
                    _ => {}
                }
            }
            let is_public = |network: &IpNet| {
                let address = network.addr();
                Zone::of(address) == Zone::Public || network.prefix_len() == 0
            };
            for (number, network) in terms.networks.iter().enumerate() {
                let at = table.cidr.get(number).map_or(start, |value| value.span().start);
                if network.prefix_len() == 0 {
                    let message = format!("rule `{}` lets every address be reached: `{network}`", rule.id);
                    self.warn(found, at, "too-broad", message, "Name the hosts or domains that it needs.");
                } else if is_public(network) && terms.hosts.is_empty() {
                    let message = format!("rule `{}` names addresses and no host: `{network}`", rule.id);
                    self.warn(
                        found,
                        at,
                        "no-name",
                        message,
                        "Write names in `host`, where the network's owner has some.",
                    );
                }
            }
        }
        if is_free && rule.access.contains(&Access::Bind) {
            let everywhere =
                |term: &&HostTerm| matches!(&term.host, TermHost::Address(address) if address.is_unspecified());
            if let Some(term) = terms.hosts.iter().find(everywhere) {
                let message = format!("rule `{}` lets other machines reach the session: `{term}`", rule.id);
                self.warn(found, start, "too-broad", message, "Write `localhost:PORT`, unless others are meant to.");
            }
        }
    }
}
