//! The scope of a grant as it is kept for years: JSON with a version of its own, so that what a later version of these types
//! looks like changes nothing. Pure; read back by the daemon from a file of its own, and checked as if it were not.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::common::decision::Width;
use crate::common::exec::Version;
use crate::common::net::{HostName, Ports, Service, Transport, canonical};
use crate::common::path::RawPath;
use crate::common::scope::Pattern;
use crate::common::text::{self, Untrusted};

use super::commands::CommandScope;
use super::grants::Scope;
use super::hostscope::{HostScope, ScopeHost};
use super::sockets::SocketScope;

/// What [`write`] writes.
const VERSION: u32 = 1;

/// A text that no version up to this one has written.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("no scope: {0}")]
    Json(#[from] serde_json::Error),
    #[error("a scope of version {0}; {VERSION} was expected")]
    Version(u32),
    #[error("a scope with a wrong {0}")]
    Value(&'static str),
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    version: u32,
    #[serde(flatten)]
    scope: Written,
}

/// Bytes of a tool are in the notation of [`crate::common::text`].
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Written {
    Paths {
        pattern: Pattern,
    },
    Command {
        width: Width,
        argv: Vec<String>,
        interpreters: Vec<String>,
        variables: Vec<String>,
        cwd: Option<String>,
        /// Device, inode, seconds and nanoseconds of the last change.
        file: Option<(u64, u64, i64, i64)>,
    },
    Host {
        host: WrittenHost,
        ports: String,
        transport: Transport,
        program: Option<String>,
    },
    Socket {
        pattern: Pattern,
        service: Option<Service>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenHost {
    Name(HostName),
    Domain(HostName),
    Address(IpAddr),
}

/// One line.
pub fn write(scope: &Scope) -> Result<String, serde_json::Error> {
    let path = |path: &RawPath| text::escaped(path.as_bytes());
    let words = |words: &[Untrusted]| words.iter().map(|word| text::escaped(word.as_bytes())).collect();
    let scope = match scope {
        Scope::Paths(pattern) => Written::Paths { pattern: pattern.clone() },
        Scope::Command(own) => Written::Command {
            width: own.width,
            argv: words(&own.argv),
            interpreters: own.interpreters.iter().map(path).collect(),
            variables: words(&own.variables),
            cwd: own.cwd.as_ref().map(path),
            file: own.version.map(|file| (file.device, file.inode, file.changed.0, file.changed.1)),
        },
        Scope::Host(own) => Written::Host {
            host: match &own.host {
                ScopeHost::Name(name) => WrittenHost::Name(name.clone()),
                ScopeHost::Domain(name) => WrittenHost::Domain(name.clone()),
                ScopeHost::Address(address) => WrittenHost::Address(*address),
            },
            ports: own.ports.to_string(),
            transport: own.transport,
            program: own.program.as_ref().map(path),
        },
        Scope::Socket(own) => Written::Socket { pattern: own.paths.clone(), service: own.service },
    };
    serde_json::to_string(&Envelope { version: VERSION, scope })
}

/// What [`write`] was given.
pub fn read(line: &str) -> Result<Scope, Unreadable> {
    let Envelope { version, scope } = serde_json::from_str(line)?;
    if version != VERSION {
        return Err(Unreadable::Version(version));
    }
    let bytes = |text: &String, what| text::unescaped(text).ok_or(Unreadable::Value(what));
    let path = |text: &String, what| bytes(text, what).map(RawPath::new);
    let words = |texts: &[String], what| -> Result<Vec<Untrusted>, Unreadable> {
        texts.iter().map(|text| bytes(text, what).map(Untrusted::new)).collect()
    };
    Ok(match scope {
        Written::Paths { pattern } => Scope::Paths(pattern),
        Written::Command { width, argv, interpreters, variables, cwd, file } => {
            if !matches!(width, Width::Exact | Width::Prefix | Width::Program) {
                return Err(Unreadable::Value("width"));
            }
            Scope::Command(CommandScope {
                width,
                argv: words(&argv, "argv")?,
                interpreters: interpreters.iter().map(|own| path(own, "interpreter")).collect::<Result<_, _>>()?,
                variables: words(&variables, "variable")?,
                cwd: cwd.as_ref().map(|own| path(own, "cwd")).transpose()?,
                version: file.map(|(device, inode, seconds, nanoseconds)| Version {
                    device,
                    inode,
                    changed: (seconds, nanoseconds),
                }),
            })
        }
        Written::Host { host, ports, transport, program } => Scope::Host(HostScope {
            host: match host {
                WrittenHost::Name(name) => ScopeHost::Name(name),
                WrittenHost::Domain(name) => ScopeHost::Domain(name),
                WrittenHost::Address(address) if canonical(address) == address => ScopeHost::Address(address),
                WrittenHost::Address(_) => return Err(Unreadable::Value("address")),
            },
            ports: ports.parse::<Ports>().map_err(|_| Unreadable::Value("ports"))?,
            transport,
            program: program.as_ref().map(|own| path(own, "program")).transpose()?,
        }),
        Written::Socket { pattern, service } => Scope::Socket(SocketScope { paths: pattern, service }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes() -> Vec<Scope> {
        let words = |words: &[&[u8]]| words.iter().map(|word| Untrusted::new(*word)).collect();
        let host = |host, ports: &str| {
            let ports = ports.parse().unwrap();
            Scope::Host(HostScope { host, ports, transport: Transport::Tcp, program: None })
        };
        let name: HostName = "example.org".parse().unwrap();
        vec![
            Scope::Paths(Pattern::parse("/srv/**/.env").unwrap()),
            Scope::Paths(Pattern::literal(&RawPath::new(*b"/srv/\xff\x1b* \n"))),
            Scope::Command(CommandScope {
                width: Width::Prefix,
                argv: words(&[b"git", b"pu\\sh\n\xff"]),
                interpreters: vec!["/usr/bin/node".into()],
                variables: words(&[b"GIT_DIR=x y"]),
                cwd: Some("/work".into()),
                version: Some(Version { device: u64::MAX, inode: 1, changed: (-1, 2) }),
            }),
            host(ScopeHost::Name(name.clone()), "443"),
            host(ScopeHost::Domain(name), "*"),
            host(ScopeHost::Address("2001:db8::1".parse().unwrap()), "1-9"),
            Scope::Socket(SocketScope { paths: Pattern::parse("/run/x/*").unwrap(), service: Some(Service::SshAgent) }),
        ]
    }

    #[test]
    fn a_scope_reads_back_as_it_was() {
        for scope in scopes() {
            let line = write(&scope).unwrap();
            assert_eq!(read(&line).unwrap(), scope, "{line}");
            assert!(!line.contains('\n'));
        }
    }

    /// What was written once is read for ever.
    #[test]
    fn what_the_first_version_wrote_means_the_same() {
        let paths = r#"{"version":1,"kind":"paths","pattern":"/srv/x/**"}"#;
        assert_eq!(read(paths).unwrap(), Scope::Paths(Pattern::parse("/srv/x/**").unwrap()));
        let host =
            r#"{"version":1,"kind":"host","host":{"domain":"npmjs.org"},"ports":"*","transport":"tcp","program":null}"#;
        assert_eq!(read(host).unwrap().clone(), {
            let host = ScopeHost::Domain("npmjs.org".parse().unwrap());
            Scope::Host(HostScope { host, ports: Ports::ANY, transport: Transport::Tcp, program: None })
        });
        for wrong in [
            r#"{"version":2,"kind":"paths","pattern":"/srv/x/**"}"#,
            r#"{"version":1,"kind":"paths","pattern":"srv"}"#,
            r#"{"version":1,"kind":"everything"}"#,
            r#"{"version":1,"kind":"command","width":"tree","argv":[],"interpreters":[],"variables":[],"cwd":null,"file":null}"#,
            r#"{"version":1,"kind":"host","host":{"address":"::ffff:1.2.3.4"},"ports":"*","transport":"tcp","program":null}"#,
            "",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
