//! What speaks HTTP: one exchange at a time on a thread of its own, with an end to its time and to its size. Runs as the
//! person who is asked; the other side is a bridge that may be broken, or somebody else's.
//!
//! No redirects, no proxy but a configured one, no cookies, no compression, nothing kept open. TLS by the system's roots.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Proxy};

use super::config::{Address, Settings};

/// Bytes of a response at the most; the same for all lines of a stream together.
pub const LARGEST: u64 = 64 << 10;
/// The longest that it may take to get through to the bridge.
const CONNECT: Duration = Duration::from_secs(10);

/// An exchange without a response.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// It did not reach the bridge, or the bridge has no time: perhaps later.
    #[error("{0}")]
    NotNow(String),
    #[error("{0}")]
    Refused(String),
}

impl ExchangeError {
    pub fn is_passing(&self) -> bool {
        matches!(self, ExchangeError::NotNow(_))
    }
}

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("ca_file: there is no certificate in it, or one that cannot be read")]
    Roots,
    #[error("proxy: {0}")]
    Proxy(String),
}

/// A header.
pub type Header = (&'static str, String);

/// See the module.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
}

impl Client {
    pub fn new(settings: &Settings) -> Result<Client, ClientError> {
        let roots = match &settings.roots {
            None => RootCerts::PlatformVerifier,
            Some(pem) => {
                let mut roots = Vec::new();
                for item in parse_pem(pem) {
                    match item {
                        Ok(PemItem::Certificate(root)) => roots.push(root),
                        Ok(_) => {}
                        Err(_) => return Err(ClientError::Roots),
                    }
                }
                if roots.is_empty() {
                    return Err(ClientError::Roots);
                }
                RootCerts::from(roots)
            }
        };
        let proxy = settings.proxy.as_ref().map(|proxy| Proxy::new(&proxy.uri.to_string())).transpose();
        let proxy = proxy.map_err(|error| ClientError::Proxy(error.to_string()))?;
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            // `None` also keeps away what the environment says.
            .proxy(proxy)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(settings.timeout))
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .max_response_header_size(16 << 10)
            .max_idle_connections(0)
            .accept_encoding("identity")
            .user_agent(concat!("gated-notify/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Client { agent: config.new_agent() })
    }

    /// The body of the response.
    pub fn post(&self, to: &Address, headers: &[Header], body: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        let mut request = self.agent.post(&to.uri).content_type("application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        whole(request.send(body))
    }

    /// The same, of what is there. `query` is appended to the URL's own.
    pub fn get(&self, from: &str, headers: &[Header]) -> Result<Vec<u8>, ExchangeError> {
        whole(self.getting(from, headers))
    }

    /// Hands on one line after the other as they come, until the end of the stream, of its time, or until `line` says that
    /// it is enough.
    pub fn lines(
        &self,
        from: &str,
        headers: &[Header],
        mut line: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ExchangeError> {
        let mut response = checked(self.getting(from, headers))?;
        let body = response.body_mut().as_reader().take(LARGEST);
        let mut reader = BufReader::new(body);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match reader.read_until(b'\n', &mut bytes) {
                Ok(0) => return Ok(()),
                // What the end has cut off is no line.
                Ok(_) if bytes.last() != Some(&b'\n') => return Ok(()),
                Ok(_) if !line(&bytes) => return Ok(()),
                Ok(_) => {}
                // Such as the end of the time that it has.
                Err(error) => return Err(ExchangeError::NotNow(error.to_string())),
            }
        }
    }

    fn getting(&self, from: &str, headers: &[Header]) -> Result<Response<Body>, ureq::Error> {
        let mut request = self.agent.get(from);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request.call()
    }
}

/// With a status of success.
fn checked(response: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, ExchangeError> {
    let response = response.map_err(failed)?;
    let status = response.status();
    match status.as_u16() {
        200..=299 => Ok(response),
        300..=399 => Err(ExchangeError::Refused(format!("it redirects elsewhere ({status}), which is not followed"))),
        429 | 500..=599 => Err(ExchangeError::NotNow(format!("it answers {status}"))),
        _ => Err(ExchangeError::Refused(format!("it answers {status}"))),
    }
}

fn whole(response: Result<Response<Body>, ureq::Error>) -> Result<Vec<u8>, ExchangeError> {
    let mut response = checked(response)?;
    response.body_mut().with_config().limit(LARGEST).read_to_vec().map_err(failed)
}

fn failed(error: ureq::Error) -> ExchangeError {
    use ureq::{Error, Timeout};
    let passing = match &error {
        // What takes too long after that has arrived, and is not said twice.
        Error::Timeout(Timeout::Resolve | Timeout::Connect) | Error::HostNotFound | Error::ConnectionFailed => true,
        Error::Io(error) => matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
                | std::io::ErrorKind::NetworkUnreachable
                | std::io::ErrorKind::NotFound
        ),
        _ => false,
    };
    // One line: some errors quote what the other side said.
    let words = crate::common::text::escaped_within(error.to_string().as_bytes(), 300);
    if passing { ExchangeError::NotNow(words) } else { ExchangeError::Refused(words) }
}
