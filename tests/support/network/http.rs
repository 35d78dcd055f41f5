//! HTTP/1.1 that records what it is asked. Runs on the world's thread of servers, on data of the world's clients.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Namespace, serving::Serving};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The address of ours that the client connected to.
    pub at: SocketAddr,
    pub from: SocketAddr,
    pub method: String,
    /// With the query.
    pub target: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// What the client calls the host, with the port if it said one.
    pub fn host(&self) -> &str {
        self.headers.get("host").map_or("", String::as_str)
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Response {
        Response { status, headers: vec![("content-type".into(), kind.into())], body: body.into() }
    }
}

type Handler = Arc<dyn Fn(&Request) -> Option<Response> + Send + Sync>;

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    connections: usize,
    /// Asked in order, the latest first.
    handlers: Vec<Handler>,
}

/// Shared by all addresses that it serves. Without handlers, `/` says `hello from HOST`, `/bytes/N` gives N bytes, anything
/// else is not found.
#[derive(Clone)]
pub struct Web(Arc<Mutex<State>>);

impl Web {
    pub fn new() -> Web {
        let web = Web(Arc::default());
        web.handle(|request| {
            let bytes = request.path().strip_prefix("/bytes/").and_then(|count| count.parse().ok());
            match bytes {
                Some(count) => Some(Response::new(200, "application/octet-stream", vec![b'x'; count])),
                None if request.path() == "/" => {
                    Some(Response::new(200, "text/plain", format!("hello from {}\n", request.host())))
                }
                None => None,
            }
        });
        web
    }

    /// Answers what `handler` gives an answer to.
    pub fn handle(&self, handler: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static) {
        self.lock().handlers.insert(0, Arc::new(handler));
    }

    /// Answers one path on every host.
    pub fn put(&self, path: &str, kind: &str, body: impl Into<Vec<u8>>) {
        let (path, response) = (path.to_owned(), Response::new(200, kind, body));
        self.handle(move |request| (request.path() == path).then(|| response.clone()));
    }

    /// Answers paths below `prefix` (`/a/`) with the files below a directory, which may change.
    pub fn tree(&self, prefix: &str, directory: &Path) {
        let (prefix, directory): (String, PathBuf) = (prefix.to_owned(), directory.to_owned());
        self.handle(move |request| {
            let below = request.path().strip_prefix(&prefix)?;
            let file = directory.join(below);
            let plain = !below.split('/').any(|part| part == "..") && file.is_file();
            plain.then(|| Response::new(200, "application/octet-stream", std::fs::read(file).unwrap_or_default()))
        });
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// How many connections were taken so far.
    pub fn connections(&self) -> usize {
        self.lock().connections
    }

    /// Forgets the requests and connections so far.
    pub fn forget(&self) {
        let mut state = self.lock();
        state.requests.clear();
        state.connections = 0;
    }

    #[track_caller]
    pub fn serve(&self, serving: &Serving, namespace: &Namespace, at: SocketAddr) {
        let (listener, web) = (serving.listen(namespace, at), self.clone());
        serving.spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                web.lock().connections += 1;
                tokio::spawn(web.clone().converse(stream, from));
            }
        });
    }

    async fn converse(self, stream: TcpStream, from: SocketAddr) {
        let Ok(at) = stream.local_addr() else { return };
        let _ = stream.set_nodelay(true);
        let mut stream = BufReader::new(stream);
        while let Some(request) = read(&mut stream, canonical(at), canonical(from)).await {
            let (handlers, closes) = {
                let mut state = self.lock();
                state.requests.push(request.clone());
                (state.handlers.clone(), request.headers.get("connection").is_some_and(|value| value == "close"))
            };
            let found = handlers.iter().find_map(|handler| handler(&request));
            let response = found.unwrap_or_else(|| Response::new(404, "text/plain", "not found\n"));
            let mut head = format!("HTTP/1.1 {} .\r\ncontent-length: {}\r\n", response.status, response.body.len());
            for (name, value) in &response.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str(if closes { "connection: close\r\n\r\n" } else { "\r\n" });
            let body: &[u8] = if request.method == "HEAD" { &[] } else { &response.body };
            let sent = [head.as_bytes(), body].concat();
            if stream.write_all(&sent).await.is_err() || closes {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An IPv4 address of a socket of both families as what it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let count = stream.read_line(&mut line).await.ok()?;
    (count > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}

/// One request; `None` at the end of the connection or for what is none.
async fn read(stream: &mut BufReader<TcpStream>, at: SocketAddr, from: SocketAddr) -> Option<Request> {
    let first = line(stream).await?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let header = line(stream).await?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.get("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
    }
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        loop {
            let length = line(stream).await?;
            let length = usize::from_str_radix(length.split(';').next()?.trim(), 16).ok()?;
            let start = body.len();
            body.resize(start + length, 0);
            stream.read_exact(&mut body[start..]).await.ok()?;
            line(stream).await?;
            if length == 0 {
                break;
            }
        }
    } else if let Some(length) = headers.get("content-length") {
        body.resize(length.parse().ok()?, 0);
        stream.read_exact(&mut body).await.ok()?;
    }
    Some(Request { at, from, method, target, headers, body })
}
