//! A server of names over UDP and TCP that records what it is asked. Runs on the world's thread of servers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message;
use super::zone::Zone;
use super::{Namespace, serving::Serving};

/// One question, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// As it was sent, capitals too.
    pub name: String,
    /// A number of the registry of types, for example [`message::A`].
    pub kind: u16,
    pub tcp: bool,
    /// The server that was asked.
    pub at: SocketAddr,
    pub from: SocketAddr,
}

/// What is sent back, each in a datagram or message of its own.
type Lies = Arc<dyn Fn(&[u8]) -> Vec<Vec<u8>> + Send + Sync>;

#[derive(Default)]
struct State {
    zone: Zone,
    lies: HashMap<String, Lies>,
    queries: Vec<Query>,
    /// Messages that could not be read.
    nonsense: usize,
}

/// Shared by all addresses that it serves.
#[derive(Clone)]
pub struct Dns(Arc<Mutex<State>>);

impl Dns {
    pub fn new(zone: Zone) -> Dns {
        Dns(Arc::new(Mutex::new(State { zone, ..State::default() })))
    }

    /// Changes what is known from the next question on.
    pub fn change<T>(&self, change: impl FnOnce(&mut Zone) -> T) -> T {
        change(&mut self.lock().zone)
    }

    /// Answers questions about a name, of any type, with whatever `lies` makes of the message, in place of what the zone has.
    pub fn lie(&self, name: &str, lies: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static) {
        self.lock().lies.insert(name.to_ascii_lowercase(), Arc::new(lies));
    }

    /// Every question so far.
    pub fn queries(&self) -> Vec<Query> {
        self.lock().queries.clone()
    }

    /// Every name that was asked for so far, in lower case, once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.queries().iter().map(|query| query.name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// How many messages were no question.
    pub fn nonsense(&self) -> usize {
        self.lock().nonsense
    }

    /// Forgets the questions so far.
    pub fn forget(&self) {
        self.lock().queries.clear();
    }

    #[track_caller]
    pub fn serve(&self, serving: &Serving, namespace: &Namespace, at: SocketAddr) {
        let (socket, dns) = (serving.datagrams(namespace, at), self.clone());
        serving.spawn(async move {
            let mut datagram = vec![0; 65536];
            loop {
                // An ICMP error for an earlier answer is told here, and is none of ours.
                let Ok((count, from)) = socket.recv_from(&mut datagram).await else { continue };
                for answer in dns.answer(&datagram[..count], at, from, false) {
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
        let (listener, dns) = (serving.listen(namespace, at), self.clone());
        serving.spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                tokio::spawn(dns.clone().converse(stream, at, from));
            }
        });
    }

    async fn converse(self, mut stream: TcpStream, at: SocketAddr, from: SocketAddr) {
        while let Ok(length) = stream.read_u16().await {
            let mut query = vec![0; length.into()];
            if stream.read_exact(&mut query).await.is_err() {
                return;
            }
            for answer in self.answer(&query, at, from, true) {
                let framed = [&(answer.len() as u16).to_be_bytes(), answer.as_slice()].concat();
                if stream.write_all(&framed).await.is_err() {
                    return;
                }
            }
        }
    }

    fn answer(&self, query: &[u8], at: SocketAddr, from: SocketAddr, tcp: bool) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        let Some(question) = message::read(query) else {
            state.nonsense += 1;
            return Vec::new();
        };
        state.queries.push(Query { name: question.name.clone(), kind: question.kind, tcp, at, from });
        if let Some(lies) = state.lies.get(&question.name.to_ascii_lowercase()) {
            return lies(query);
        }
        let answer = state.zone.answer(&question.name, question.kind);
        answer.map(|(code, records)| question.answer(code, &records, !tcp)).into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
