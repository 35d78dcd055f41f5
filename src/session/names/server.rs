//! The resolver of a session: takes questions at port 53 of every address of its network, and answers them.
//!
//! Runs as the user, on one thread of the supervisor that never waits for a person or a disk. Every question comes from a
//! hostile process; a name is judged before anything of it leaves the machine. What is not known to be allowed is refused.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::{A, AAAA, PTR};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::Known;
use super::asker::Sender;
use super::datagrams::{Arrived, Datagrams, QUESTION_BYTES};
use super::host::{HostFiles, Watched};
use super::packet::{Carrier, Decoded, Query, Reason, Reply, decode};
use super::question::{Meaning, meaning};
use super::upstream::{Settings, Upstream};
use super::verdicts::{AT_A_TIME, Bench, Verdict, Verdicts};
use crate::common::id::CallId;
use crate::common::net::HostName;

/// Questions that are being answered at a time; another is told that the resolver is busy.
const QUESTIONS_AT_MOST: usize = 512;
/// Of these, questions of one call about allowed names: a server that is silent keeps them for long.
const ASKING_OF_ONE_CALL: usize = 256;
/// Connections at a time; another is closed.
const STREAMS_AT_MOST: usize = 64;
/// How long a connection may say nothing (RFC 7766, 6.2.3).
const IDLE: Duration = Duration::from_secs(20);
/// Seconds for which an answer from the hosts file holds.
const OWN_TTL: u32 = 10;
const STACK_BYTES: usize = 256 * 1024;
/// How long a thread that waited for a person stays for the next question.
const THREAD_STAYS: Duration = Duration::from_secs(2);
/// How long nothing is taken when there is no descriptor or memory for it.
const PAUSE: Duration = Duration::from_millis(100);

/// The sockets on which a session's questions arrive, bound.
#[derive(Debug, Default)]
pub struct Sockets {
    pub datagrams: Vec<UdpSocket>,
    pub streams: Vec<TcpListener>,
}

/// What a resolver needs.
pub struct Order<B> {
    pub sockets: Sockets,
    pub bench: Arc<B>,
    pub files: Arc<dyn HostFiles>,
    pub known: Arc<Known>,
}

/// Starts the resolver's thread; it goes on until the process ends.
pub fn start<B: Bench>(order: Order<B>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(AT_A_TIME)
        .thread_name("gated-name")
        .thread_stack_size(STACK_BYTES)
        .thread_keep_alive(THREAD_STAYS)
        .build()?;
    let run = move || {
        let served = LocalSet::new().block_on(&runtime, serve(order));
        if let Err(error) = served {
            tracing::error!(%error, "the session's resolver cannot go on");
        }
    };
    std::thread::Builder::new().name("gated-names".to_owned()).stack_size(2 * STACK_BYTES).spawn(run)?;
    Ok(())
}

async fn serve<B: Bench>(order: Order<B>) -> io::Result<()> {
    let Sockets { datagrams, streams } = order.sockets;
    let server = Rc::new(Server {
        verdicts: Verdicts::new(order.bench),
        files: order.files,
        known: order.known,
        settings: Watched::new("/etc/resolv.conf", Arc::new(Settings::parse(b""))),
        upstream: RefCell::default(),
        questions: Cell::new(0),
        streams: Cell::new(0),
        asking: RefCell::default(),
    });
    let mut tasks = Vec::new();
    for socket in datagrams {
        let socket = Rc::new(Datagrams::new(socket)?);
        tasks.push(tokio::task::spawn_local(Rc::clone(&server).take_datagrams(socket)));
    }
    for listener in streams {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tasks.push(tokio::task::spawn_local(Rc::clone(&server).take_streams(listener)));
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

struct Server<B> {
    verdicts: Rc<Verdicts<B>>,
    files: Arc<dyn HostFiles>,
    known: Arc<Known>,
    settings: Watched<Arc<Settings>>,
    upstream: RefCell<Option<Rc<Upstream>>>,
    questions: Cell<usize>,
    streams: Cell<usize>,
    asking: RefCell<HashMap<CallId, usize>>,
}

/// One of the questions of a call that the host's servers are asked, or that are answered from what they said.
struct Asking<'a>(&'a RefCell<HashMap<CallId, usize>>, CallId);

impl<'a> Asking<'a> {
    /// `None` if the call has so many that others would have none.
    fn begin(asking: &'a RefCell<HashMap<CallId, usize>>, call: CallId) -> Option<Asking<'a>> {
        let mut counts = asking.borrow_mut();
        let count = counts.entry(call).or_default();
        (*count < ASKING_OF_ONE_CALL).then(|| {
            *count = count.saturating_add(1);
            Asking(asking, call)
        })
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.borrow_mut();
        let left = counts.get(&self.1).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            counts.remove(&self.1);
        } else {
            counts.insert(self.1, left);
        }
    }
}

/// One of a limited number.
struct Place<'a>(&'a Cell<usize>);

impl<'a> Place<'a> {
    fn take(count: &'a Cell<usize>, most: usize) -> Option<Place<'a>> {
        let before = count.get();
        (before < most).then(|| {
            count.set(before.saturating_add(1));
            Place(count)
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl<B: Bench> Server<B> {
    async fn take_datagrams(self: Rc<Self>, socket: Rc<Datagrams>) {
        let mut buffer = vec![0; QUESTION_BYTES];
        loop {
            let arrived = match socket.receive(&mut buffer).await {
                Ok(arrived) => arrived,
                // An answer that nobody took comes back as an error of the next call (udp(7)).
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let packet = buffer.get(..arrived.bytes).unwrap_or_default();
            match decode(packet) {
                Decoded::Nothing => {}
                Decoded::Answered(bytes) => send(&socket, &bytes, &arrived),
                Decoded::Query(query) => self.take_query(&socket, query, arrived),
            }
        }
    }

    fn take_query(self: &Rc<Self>, socket: &Rc<Datagrams>, query: Box<Query>, arrived: Arrived) {
        if self.questions.get() >= QUESTIONS_AT_MOST {
            let busy = Reply::because(ResponseCode::ServFail, Reason::NotReady);
            return send(socket, &query.encode(&busy, Carrier::Datagram), &arrived);
        }
        let (server, socket) = (Rc::clone(self), Rc::clone(socket));
        tokio::task::spawn_local(async move {
            let Some(_place) = Place::take(&server.questions, QUESTIONS_AT_MOST) else { return };
            let sender = Sender { carrier: Carrier::Datagram, from: arrived.from, to: arrived.to };
            if let Some(reply) = server.answer(&query, &sender).await {
                send(&socket, &query.encode(&reply, Carrier::Datagram), &arrived);
                if reply.code == ResponseCode::Refused {
                    // musl passes over a refusal and waits for the rest of its time (res_msend.c): this it takes. Whoever took
                    // the refusal has no question with this number any more.
                    let none = Reply::because(ResponseCode::NXDomain, Reason::Prohibited);
                    send(&socket, &query.encode(&none, Carrier::Datagram), &arrived);
                }
            }
        });
    }

    async fn take_streams(self: Rc<Self>, listener: tokio::net::TcpListener) {
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            if self.streams.get() >= STREAMS_AT_MOST {
                continue;
            }
            let server = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let Some(_place) = Place::take(&server.streams, STREAMS_AT_MOST) else { return };
                // Whoever breaks a connection off needs no answer.
                let _ = server.take_stream(stream, from).await;
            });
        }
    }

    /// Questions on one connection, one after the other (RFC 7766).
    async fn take_stream(&self, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        let sender = Sender { carrier: Carrier::Stream, from, to: stream.local_addr()? };
        loop {
            let length = match tokio::time::timeout(IDLE, stream.read_u16()).await {
                Ok(length) => usize::from(length?),
                Err(_) => return Ok(()),
            };
            if length > QUESTION_BYTES {
                return Ok(());
            }
            let mut packet = vec![0; length];
            match tokio::time::timeout(IDLE, stream.read_exact(&mut packet)).await {
                Ok(read) => drop(read?),
                Err(_) => return Ok(()),
            }
            let bytes = match decode(&packet) {
                Decoded::Nothing => return Ok(()),
                Decoded::Answered(bytes) => bytes,
                Decoded::Query(query) => match self.answer(&query, &sender).await {
                    Some(reply) => query.encode(&reply, Carrier::Stream),
                    None => return Ok(()),
                },
            };
            let mut framed = u16::try_from(bytes.len()).unwrap_or(0).to_be_bytes().to_vec();
            framed.extend_from_slice(&bytes);
            match tokio::time::timeout(IDLE, stream.write_all(&framed)).await {
                Ok(written) => written?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// `None` where nobody waits for an answer.
    async fn answer(&self, query: &Query, sender: &Sender) -> Option<Reply> {
        let (name, kind) = (&query.question.name, query.question.query_type);
        let meaning = meaning(name, kind);
        match meaning {
            Meaning::Nothing => Some(Reply::default()),
            Meaning::Localhost => {
                Some(addresses(name, kind, &[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]))
            }
            Meaning::Reverse(address) => self.answer_reverse(name, address, sender).await,
            // The hosts file goes first, also for what is otherwise no name here.
            Meaning::NoSuchName => {
                let own = HostName::parse(name.to_ascii().as_bytes()).ok();
                let found = own.and_then(|own| self.known.hosts().addresses_of(&own).map(<[IpAddr]>::to_vec));
                Some(found.map_or(Reply::of(ResponseCode::NXDomain), |found| addresses(name, kind, &found)))
            }
            Meaning::LookUp { judged, asked } => {
                if let Some(found) = self.known.hosts().addresses_of(&asked) {
                    return Some(addresses(name, kind, found));
                }
                self.look_up(&judged, &asked, kind, sender).await
            }
        }
    }

    async fn look_up(&self, judged: &HostName, asked: &HostName, kind: RecordType, sender: &Sender) -> Option<Reply> {
        let settings = self.settings();
        let call = match self.verdicts.on(sender, judged, &settings.search).await {
            Verdict::Allowed(call) => call,
            Verdict::Nobody => return None,
            // A program that is told so tries no other server for long, where after a silence it would.
            Verdict::Denied => return Some(Reply::because(ResponseCode::Refused, Reason::Prohibited)),
            Verdict::TooMany => return Some(Reply::because(ResponseCode::ServFail, Reason::NotReady)),
        };
        let Some(_place) = Asking::begin(&self.asking, call) else {
            return Some(Reply::because(ResponseCode::ServFail, Reason::NotReady));
        };
        let Some(upstream) = self.upstream() else {
            return Some(Reply::because(ResponseCode::ServFail, Reason::NetworkError));
        };
        let found = upstream.look_up(asked, kind).await;
        // A name that is denied is not reached behind another either (an alias that its owner points there).
        if found.reply.answers.iter().any(|record| self.is_forbidden_alias(record)) {
            return Some(Reply::because(ResponseCode::Refused, Reason::Prohibited));
        }
        // What a service's own labels lead to is no address of the host that was judged, but where it says so.
        if judged == asked || matches!(kind, RecordType::HTTPS | RecordType::SVCB) {
            let addresses: Vec<IpAddr> = found.addresses.iter().map(|(address, _)| *address).collect();
            self.known.learn(judged, found.addresses.into_iter());
            self.verdicts.learnt(judged, &addresses);
        }
        Some(found.reply)
    }

    fn is_forbidden_alias(&self, record: &Record) -> bool {
        let RData::CNAME(target) = &record.data else { return false };
        HostName::parse(target.0.to_ascii().as_bytes()).is_ok_and(|target| self.verdicts.forbids(&target))
    }

    async fn answer_reverse(&self, name: &Name, address: IpAddr, sender: &Sender) -> Option<Reply> {
        let known = self.known.names_of(address);
        if let Some(first) = known.first() {
            return Some(pointer(name, &first.name));
        }
        if address.is_loopback() {
            return Some(HostName::parse(b"localhost").map_or(Reply::default(), |own| pointer(name, &own)));
        }
        match self.verdicts.on_address(sender, address) {
            Verdict::Allowed(_) => {}
            Verdict::Nobody => return None,
            // Whose name nobody may ask for has none: programs then show the address, and at once.
            Verdict::Denied | Verdict::TooMany => return Some(Reply::of(ResponseCode::NXDomain)),
        }
        match self.upstream() {
            Some(upstream) => Some(upstream.look_up_address(address).await.reply),
            None => Some(Reply::because(ResponseCode::ServFail, Reason::NetworkError)),
        }
    }

    fn settings(&self) -> Arc<Settings> {
        self.settings.get(&*self.files, |text| Arc::new(Settings::parse(text)))
    }

    /// By the host's settings as they are now. Another network has other answers, so those of the last are forgotten.
    fn upstream(&self) -> Option<Rc<Upstream>> {
        let settings = self.settings();
        let mut upstream = self.upstream.borrow_mut();
        if upstream.as_ref().is_none_or(|upstream| *upstream.settings() != *settings) {
            *upstream = Upstream::new((*settings).clone()).ok().map(Rc::new);
        }
        upstream.clone()
    }
}

fn send(socket: &Datagrams, bytes: &[u8], arrived: &Arrived) {
    // Whoever does not take it has closed its socket, or does not read it.
    let _ = socket.send(bytes, arrived);
}

/// Those of the addresses that are of the type that was asked for.
fn addresses(name: &Name, kind: RecordType, found: &[IpAddr]) -> Reply {
    let data = |address: &IpAddr| match (address, kind) {
        (IpAddr::V4(address), RecordType::A) => Some(RData::A(A(*address))),
        (IpAddr::V6(address), RecordType::AAAA) => Some(RData::AAAA(AAAA(*address))),
        _ => None,
    };
    let records = found.iter().filter_map(data).map(|data| Record::from_rdata(name.clone(), OWN_TTL, data));
    Reply { answers: records.collect(), ..Reply::default() }
}

fn pointer(name: &Name, to: &HostName) -> Reply {
    let Ok(mut to) = Name::from_ascii(to.as_str()) else { return Reply::of(ResponseCode::NXDomain) };
    to.set_fqdn(true);
    let record = Record::from_rdata(name.clone(), OWN_TTL, RData::PTR(PTR(to)));
    Reply { answers: vec![record], ..Reply::default() }
}
