//! Where requests are put and by which secret: the person's own file, and the admin's, which says to which hosts they may go
//! at all. Runs as the person who is asked. A file that somebody else could have written, or could read the secret in, is
//! refused and nothing of it is used.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use ureq::http::Uri;

use super::signature::Secret;
use crate::common::net::{HostName, canonical};
use crate::common::text;

/// The person's file, below the home directory.
pub const OWN: &str = ".config/gated/webhook.toml";
/// The admin's.
pub const ADMIN: &str = "/etc/gated/webhook.toml";

/// Bytes of a file at the most; of certificates as well.
const LARGEST: u64 = 1 << 20;
/// How long one exchange with the bridge may take, and how long to wait between two looks for replies.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(600);

/// A file that cannot be used, or says what cannot be; fit for one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "{ADMIN} is not there: an administrator must name the hosts that requests may be sent to, as in hosts = [\"bridge.example.org\"]"
    )]
    NotAllowed,
    #[error("{}: {source}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{}: {reason}", file.display())]
    Unsafe { file: PathBuf, reason: &'static str },
    #[error("{}: {message}", file.display())]
    Invalid { file: PathBuf, message: String },
}

/// What the other side speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The protocol of `docs/webhook.md`.
    #[default]
    Json,
    /// A topic of an ntfy server.
    Ntfy,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnFile {
    url: String,
    #[serde(default)]
    mode: Mode,
    secret: Option<Hidden>,
    reply_url: Option<String>,
    timeout: Option<String>,
    poll: Option<String>,
    ca_file: Option<PathBuf>,
    proxy: Option<String>,
    topic: Option<Hidden>,
    reply_topic: Option<Hidden>,
    access_token: Option<Hidden>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdminFile {
    hosts: Vec<String>,
}

/// A text that is not to be shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// A host as it is compared: one spelling for each.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Name(HostName),
    Address(IpAddr),
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        match bare.parse::<IpAddr>() {
            Ok(address) => Some(Host::Address(canonical(address))),
            Err(_) => HostName::parse(text.as_bytes()).ok().map(Host::Name),
        }
    }

    /// Whether it can be nowhere but on this machine.
    fn is_here(&self) -> bool {
        match self {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name.as_str() == "localhost",
        }
    }
}

/// The hosts that an admin allows, each with its port where that is fixed.
#[derive(Debug)]
struct Allowed(Vec<(Host, Option<u16>)>);

impl Allowed {
    fn parse(texts: &[String]) -> Result<Allowed, String> {
        let entry = |text: &String| {
            let uri: Option<Uri> = format!("https://{text}/").parse().ok();
            let plain = uri.filter(|uri| uri.path() == "/" && uri.query().is_none() && !text.contains(['@', '/']));
            let entry = plain.and_then(|uri| Some((Host::parse(uri.host()?)?, uri.port_u16())));
            entry.ok_or_else(|| format!("`{}` is no host, alone or with a port", text::escaped(text.as_bytes())))
        };
        texts.iter().map(entry).collect::<Result<_, _>>().map(Allowed)
    }

    fn has(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|(own, only)| own == host && only.is_none_or(|only| only == port))
    }
}

/// Where to send to, checked.
#[derive(Clone, Debug)]
pub struct Address {
    pub uri: Uri,
    /// `bridge.example.org:443`, for the log: a path can be a secret.
    pub shown: String,
}

/// Everything that is fixed while the agent runs.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mode: Mode,
    pub url: Address,
    /// Where replies are fetched from, if they do not come as responses.
    pub replies: Option<Address>,
    /// Signs both ways; ntfy has nothing that could sign.
    pub secret: Option<Secret>,
    /// Of a whole exchange.
    pub timeout: Duration,
    pub poll: Duration,
    /// Certificates, PEM, in place of the system's.
    pub roots: Option<Vec<u8>>,
    pub proxy: Option<Address>,
    pub topics: Option<Topics>,
}

/// What ntfy needs.
#[derive(Clone, Debug)]
pub struct Topics {
    pub requests: String,
    pub replies: String,
    pub access_token: Option<Hidden>,
}

/// Whose files they are, and where.
#[derive(Clone, Debug)]
pub struct Places {
    pub own: PathBuf,
    pub uid: u32,
    pub admin: PathBuf,
    pub admin_uid: u32,
}

impl Settings {
    pub fn read(places: &Places) -> Result<Settings, ConfigError> {
        let admin = match read(&places.admin, places.admin_uid, 0o022, "others than its owner may write it") {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(ConfigError::NotAllowed);
            }
            read => text_of(&places.admin, read?)?,
        };
        let invalid = |file: &Path| {
            let file = file.to_path_buf();
            move |message: String| ConfigError::Invalid { file, message }
        };
        let admin: AdminFile = toml::from_str(&admin).map_err(|error| invalid(&places.admin)(brief(&error)))?;
        let allowed = Allowed::parse(&admin.hosts).map_err(invalid(&places.admin))?;

        let own = read(&places.own, places.uid, 0o077, "others may read the secret in it: chmod 600")?;
        let own = text_of(&places.own, own)?;
        let own: OwnFile = toml::from_str(&own).map_err(|error| invalid(&places.own)(brief(&error)))?;
        let roots = match &own.ca_file {
            Some(file) => Some(read(file, places.uid, 0o022, "others than its owner may write it")?),
            None => None,
        };
        settings(own, roots, &allowed).map_err(invalid(&places.own))
    }
}

fn settings(own: OwnFile, roots: Option<Vec<u8>>, allowed: &Allowed) -> Result<Settings, String> {
    let url = address("url", &own.url, allowed)?;
    let replies = own.reply_url.as_deref().map(|url| address("reply_url", url, allowed)).transpose()?;
    let secret = own.secret.map(|secret| match secret.0.len() {
        Secret::SHORTEST.. => Ok(Secret::new(secret.0)),
        _ => Err(format!("secret: {} characters at the least, as `openssl rand -hex 32` makes", Secret::SHORTEST)),
    });
    let secret = secret.transpose()?;
    let topic = |key: &str, topic: Option<Hidden>| {
        let topic = topic.ok_or_else(|| format!("{key} is missing"))?.0;
        let plain = topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        // What ntfy takes. Whoever knows the name can answer, so that it must not be guessed.
        if plain && (16..=64).contains(&topic.len()) {
            Ok(topic)
        } else {
            Err(format!("{key}: 16 to 64 letters, digits, `-` and `_` that nobody guesses"))
        }
    };
    let topics = match own.mode {
        Mode::Json => {
            if secret.is_none() {
                return Err("secret is missing".to_owned());
            }
            if own.topic.is_some() || own.reply_topic.is_some() || own.access_token.is_some() {
                return Err("topic, reply_topic and access_token are for mode = \"ntfy\"".to_owned());
            }
            None
        }
        Mode::Ntfy => {
            if replies.is_some() || secret.is_some() {
                return Err("secret and reply_url are for mode = \"json\"".to_owned());
            }
            if url.uri.path() != "/" || url.uri.query().is_some() {
                return Err("url: that of the ntfy server, without a topic".to_owned());
            }
            let (requests, replies) = (topic("topic", own.topic)?, topic("reply_topic", own.reply_topic)?);
            if requests == replies {
                return Err("reply_topic must not be topic".to_owned());
            }
            if own.access_token.as_ref().is_some_and(|token| !token.0.bytes().all(|byte| byte.is_ascii_graphic())) {
                return Err("access_token: letters, digits and signs".to_owned());
            }
            Some(Topics { requests, replies, access_token: own.access_token })
        }
    };
    Ok(Settings {
        mode: own.mode,
        url,
        replies,
        secret,
        timeout: time("timeout", own.timeout.as_deref(), TIMEOUT)?,
        poll: time("poll", own.poll.as_deref(), POLL)?,
        roots,
        proxy: own.proxy.as_deref().map(|url| proxy(url, allowed)).transpose()?,
        topics,
    })
}

/// A URL of an allowed host, over TLS unless it is on this machine.
fn address(key: &str, url: &str, allowed: &Allowed) -> Result<Address, String> {
    let wrong = || format!("{key}: a URL https://HOST/… was expected, without a user or a password");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let host = uri.host().and_then(Host::parse).ok_or_else(wrong)?;
    let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    let port = match uri.scheme_str() {
        Some("https") => uri.port_u16().unwrap_or(443),
        Some("http") if host.is_here() => uri.port_u16().unwrap_or(80),
        Some("http") => {
            return Err(format!("{key}: http only to this machine (127.0.0.1, [::1], localhost); else https"));
        }
        _ => return Err(wrong()),
    };
    if has_user || url.contains('#') {
        return Err(wrong());
    }
    let shown = format!("{}:{port}", text::escaped(uri.host().unwrap_or_default().as_bytes()));
    if !allowed.has(&host, port) {
        return Err(format!("{key}: {ADMIN} does not allow {shown}"));
    }
    Ok(Address { uri, shown })
}

/// An HTTP proxy of an allowed host. It sees to whom is spoken and how much, and nothing that is under TLS.
fn proxy(url: &str, allowed: &Allowed) -> Result<Address, String> {
    let wrong = || "proxy: a URL http://HOST:PORT was expected".to_owned();
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let host = uri.host().and_then(Host::parse).ok_or_else(wrong)?;
    let port = uri.port_u16().ok_or_else(wrong)?;
    let shown = format!("{}:{port}", text::escaped(uri.host().unwrap_or_default().as_bytes()));
    let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
    match uri.scheme_str() {
        _ if has_user => Err(wrong()),
        Some("http") if allowed.has(&host, port) => Ok(Address { uri, shown }),
        Some("http") => Err(format!("proxy: {ADMIN} does not allow {shown}")),
        _ => Err(wrong()),
    }
}

/// `30s`, `2m`.
fn time(key: &str, text: Option<&str>, usual: Duration) -> Result<Duration, String> {
    let Some(text) = text else { return Ok(usual) };
    let parsed = match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(seconds), _) => seconds.parse().ok(),
        (_, Some(minutes)) => minutes.parse::<u64>().ok().and_then(|minutes| minutes.checked_mul(60)),
        _ => None,
    };
    let fits = parsed.map(Duration::from_secs).filter(|time| !time.is_zero() && *time <= LONGEST);
    fits.ok_or_else(|| format!("{key}: `1s` to `10m` was expected"))
}

/// All of a regular file that is this user's, or root's, and of which nobody else has these rights.
fn read(file: &Path, uid: u32, nobody_else: u32, reason: &'static str) -> Result<Vec<u8>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { file: file.to_path_buf(), source };
    let refuse = |reason| Err(ConfigError::Unsafe { file: file.to_path_buf(), reason });
    // Not a link, which could lead to a file of somebody else's; and no waiting for the other end of a pipe.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let opened = match File::options().read(true).custom_flags(flags).open(file) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return refuse("it is a symbolic link"),
        opened => opened.map_err(unreadable)?,
    };
    let state = opened.metadata().map_err(unreadable)?;
    if !state.is_file() {
        return refuse("it is no regular file");
    }
    if state.uid() != uid && state.uid() != 0 {
        return refuse("it belongs to somebody else");
    }
    if state.mode() & nobody_else != 0 {
        return refuse(reason);
    }
    let mut bytes = Vec::new();
    opened.take(LARGEST.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= LARGEST) {
        Ok(bytes)
    } else {
        refuse("it is larger than 1 MiB")
    }
}

fn text_of(file: &Path, bytes: Vec<u8>) -> Result<String, ConfigError> {
    let invalid = |_| ConfigError::Invalid { file: file.to_path_buf(), message: "it is not UTF-8".to_owned() };
    String::from_utf8(bytes).map_err(invalid)
}

/// What is wrong, without the line it stands in: that can be the secret's.
fn brief(error: &toml::de::Error) -> String {
    text::escaped_within(error.message().as_bytes(), 200)
}
