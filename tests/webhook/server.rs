//! The other side of the webhook: an HTTP server of the test's own on loopback, which does exactly what a test says, however
//! badly. Knows of the protocol only what its page says.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::mpsc;

use super::world::within;

pub const SECRET: &str = "what both sides of the webhook know";

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// What the server does with a request: it writes whatever it wants, and then the connection is closed.
pub type Handler = dyn Fn(&Received, &mut TcpStream) + Send + Sync;

pub struct Server {
    pub address: SocketAddr,
    received: mpsc::UnboundedReceiver<Received>,
}

impl Server {
    pub fn start(handler: impl Fn(&Received, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, received) = mpsc::unbounded_channel();
        let handler: Arc<Handler> = Arc::new(handler);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), handler, tell) = (stream, Arc::clone(&handler), tell.clone()) else { return };
                std::thread::spawn(move || {
                    let Some(one) = read(&stream) else { return };
                    let _ = tell.send(one.clone());
                    handler(&one, &mut stream);
                });
            }
        });
        Server { address, received }
    }

    /// One that takes everything and says nothing.
    pub fn silent() -> Server {
        Server::start(|_, stream| answer(stream, "200 OK", b""))
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn next(&mut self) -> Received {
        within(self.received.recv()).await.expect("the server lives")
    }

    /// The next message with this event, verified.
    pub async fn event(&mut self, event: &str) -> Value {
        loop {
            let message = self.next().await;
            if message.method == "POST" {
                let body = message.verified();
                if body["event"] == event {
                    return body;
                }
            }
        }
    }

    pub fn is_left_alone(&mut self) -> bool {
        self.received.try_recv().is_err()
    }
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.trim().to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received { method, target, headers, body })
}

/// A whole response.
pub fn answer(stream: &mut TcpStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

pub fn mac(text: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(text);
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={digits}")
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Received {
    /// The message, if who sent it has the secret.
    #[track_caller]
    pub fn verified(&self) -> Value {
        let time = &self.headers["x-gated-timestamp"];
        assert!(now().abs_diff(time.parse().unwrap()) < 60, "{time}");
        let what = if self.method == "POST" { self.body.as_slice() } else { self.target.as_bytes() };
        assert_eq!(self.headers["x-gated-signature"], mac(&[time.as_bytes(), b".", what].concat()));
        if self.body.is_empty() { Value::Null } else { serde_json::from_slice(&self.body).unwrap() }
    }
}

/// The token of an answer.
#[track_caller]
pub fn token(asked: &Value, answer: &str, width: Option<&str>) -> String {
    let answers = asked["answers"].as_array().unwrap();
    let is_it = |one: &&Value| one["answer"] == answer && (width.is_none() || one["width"].as_str() == width);
    let found = answers.iter().find(is_it);
    found.unwrap_or_else(|| panic!("{answer} in {answers:?}"))["token"].as_str().unwrap().to_owned()
}

/// A reply that counts, if the token does.
pub fn reply(request: &str, token: &str) -> Value {
    reply_at(request, token, now())
}

pub fn reply_at(request: &str, token: &str, timestamp: u64) -> Value {
    let signature = mac(format!("{timestamp}.{request}.{token}").as_bytes());
    json!({ "request": request, "token": token, "timestamp": timestamp, "signature": signature })
}
