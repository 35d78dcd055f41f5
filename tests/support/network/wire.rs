//! What reached the internet from the machine, counted by the kernel before anything there saw it: nft(8).
//!
//! Neighbour discovery and multicast listener reports (ICMPv6 130 to 137 and 143) are the link's own, and are not counted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::Namespace;

/// Packets and bytes with their IP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub packets: u64,
    pub bytes: u64,
}

pub struct Wire {
    internet: Namespace,
}

const SETS: [&str; 4] = ["ports4", "ports6", "others4", "others6"];

impl Wire {
    /// Counts from now on; packets to `silent` addresses are dropped after they were counted.
    pub fn new(internet: &Namespace, silent: &[IpAddr]) -> Wire {
        let hushed: String = silent
            .iter()
            .map(|address| format!("{} daddr {address} drop\n", if address.is_ipv4() { "ip" } else { "ip6" }))
            .collect();
        let table = format!(
            "table inet wire {{
                set ports4 {{ type ipv4_addr . inet_proto . inet_service; flags dynamic; counter; size 65535; }}
                set ports6 {{ type ipv6_addr . inet_proto . inet_service; flags dynamic; counter; size 65535; }}
                set others4 {{ type ipv4_addr . inet_proto; flags dynamic; counter; size 65535; }}
                set others6 {{ type ipv6_addr . inet_proto; flags dynamic; counter; size 65535; }}
                chain count {{
                    meta nfproto ipv4 meta l4proto {{ tcp, udp }} add @ports4 {{ ip daddr . meta l4proto . th dport }} return
                    meta nfproto ipv6 meta l4proto {{ tcp, udp }} add @ports6 {{ ip6 daddr . meta l4proto . th dport }} return
                    icmpv6 type {{ 130-137, 143 }} return
                    meta nfproto ipv4 add @others4 {{ ip daddr . meta l4proto }}
                    meta nfproto ipv6 add @others6 {{ ip6 daddr . meta l4proto }}
                }}
                chain arriving {{
                    type filter hook prerouting priority raw
                    iifname eth0 jump count
                    {hushed}
                }}
            }}
            "
        );
        internet.output("/sbin/nft", &["-f", "-"], &table);
        Wire { internet: internet.again() }
    }

    /// By `PROTOCOL ADDRESS:PORT`, for example `tcp 192.0.2.10:80`, `udp [2001:db8::1]:53`, or `icmp 192.0.2.10`.
    #[track_caller]
    pub fn arrived(&self) -> BTreeMap<String, Traffic> {
        let mut found = BTreeMap::new();
        let listed = self.internet.output("/sbin/nft", &["-j", "-n", "list", "sets"], "");
        let listed: Value = serde_json::from_str(&listed).expect("nft -j prints JSON");
        for set in listed["nftables"].as_array().into_iter().flatten() {
            for element in set["set"]["elem"].as_array().into_iter().flatten() {
                let number = |key: &str| element["elem"]["counter"][key].as_u64().expect("a counter");
                let traffic = Traffic { packets: number("packets"), bytes: number("bytes") };
                found.insert(told(&element["elem"]["val"]["concat"]), traffic);
            }
        }
        found
    }

    /// Fails unless packets arrived for exactly these, each as [`Wire::arrived`] tells it.
    #[track_caller]
    pub fn assert_arrived(&self, expected: &[&str]) {
        let arrived = self.arrived();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert!(arrived.keys().eq(expected.iter()), "not exactly {expected:?} left the machine: {arrived:#?}");
    }

    /// Counts anew.
    #[track_caller]
    pub fn forget(&self) {
        let lines: String = SETS.iter().map(|set| format!("flush set inet wire {set}\n")).collect();
        self.internet.output("/sbin/nft", &["-f", "-"], &lines);
    }
}

fn told(key: &Value) -> String {
    let text = |index: usize| key[index].as_str().unwrap_or_default();
    let protocol = match &key[1] {
        Value::Number(number) => match number.as_u64() {
            Some(1) => "icmp".to_owned(),
            Some(6) => "tcp".to_owned(),
            Some(17) => "udp".to_owned(),
            Some(58) => "ipv6-icmp".to_owned(),
            _ => number.to_string(),
        },
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    match (key[2].as_u64(), text(0).contains(':')) {
        (Some(port), true) => format!("{protocol} [{}]:{port}", text(0)),
        (Some(port), false) => format!("{protocol} {}:{port}", text(0)),
        (None, _) => format!("{protocol} {}", text(0)),
    }
}
