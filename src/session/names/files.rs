//! The files by which programs of a session find its resolver: `/etc/resolv.conf`, `/etc/hosts` and `/etc/nsswitch.conf`.
//!
//! Made by root while the session is built, from the host's own, which are its admin's.

use std::fmt::Write as _;

use super::host::{HostFiles, read};
use super::hosts;
use super::upstream::Settings;
use crate::common::net::HostName;
use crate::tool::ownfiles::OwnFiles;

/// A person is to have time: seconds that a program waits, and how often it asks. The C library takes no more (`RES_MAXRETRANS`
/// and `RES_MAXRETRY`, resolv.h).
const PATIENCE: &str = "timeout:30 attempts:5";

/// The session's own, from what the host has now.
pub fn of_host(files: &dyn HostFiles) -> OwnFiles {
    let text = |path| files.open(path).and_then(read).unwrap_or_default();
    let name = rustix::system::uname().nodename().to_owned();
    let host_name = HostName::parse(name.to_bytes()).ok();
    OwnFiles {
        resolv_conf: resolv_conf(&Settings::parse(&text("/etc/resolv.conf"))).into_bytes(),
        hosts: hosts::for_session(&text("/etc/hosts"), host_name.as_ref()),
        nsswitch: nsswitch(&text("/etc/nsswitch.conf")),
    }
}

/// resolv.conf(5).
fn resolv_conf(host: &Settings) -> String {
    let mut text = String::from("# Names are looked up by the resolver of this gated session.\nnameserver 127.0.0.1\n");
    if !host.search.is_empty() {
        text.push_str("search");
        for domain in &host.search {
            let _ = write!(text, " {domain}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "options ndots:{} {PATIENCE}", host.ndots);
    text
}

/// nsswitch.conf(5): the host's, but that names of hosts come from the two files above and from nowhere else. Where the host
/// asks no DNS, neither does the session.
fn nsswitch(host: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut asks_dns = true;
    for line in host.split_inclusive(|&byte| byte == b'\n') {
        match line.trim_ascii_start().strip_prefix(b"hosts:") {
            Some(ways) => {
                let ways = ways.split(|&byte| byte == b'#').next().unwrap_or_default();
                let mut words = ways.split(u8::is_ascii_whitespace);
                asks_dns = words.any(|word| matches!(word, b"dns" | b"resolve"));
            }
            None => text.extend_from_slice(line),
        }
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(if asks_dns { b"hosts: files dns\n" } else { b"hosts: files\n" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_resolver_is_the_only_one_and_the_hosts_domains_stay() {
        let host = Settings::parse(b"nameserver 192.0.2.1\nsearch corp.example lan\noptions ndots:3 timeout:1\n");
        let text = resolv_conf(&host);
        assert!(
            text.contains("\nnameserver 127.0.0.1\nsearch corp.example lan\noptions ndots:3 timeout:30 attempts:5\n")
        );
        assert!(!text.contains("192.0.2.1"));
    }

    #[test]
    fn names_of_hosts_come_from_files_and_the_resolver_alone() {
        let host = b"passwd: files systemd\nhosts:          mymachines resolve [!UNAVAIL=return] files myhostname dns\nnetworks: files";
        assert_eq!(nsswitch(host), b"passwd: files systemd\nnetworks: files\nhosts: files dns\n");
        assert_eq!(nsswitch(b"hosts: files # dns\n"), b"hosts: files\n");
        assert_eq!(nsswitch(b""), b"hosts: files dns\n");
    }
}
