//! Servers that send back what they get. Run on the world's thread of servers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Namespace, serving::Serving};

/// One connection that was taken, or one datagram that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub from: SocketAddr,
    /// Empty for a connection.
    pub datagram: Vec<u8>,
}

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Seen>>>);

impl Log {
    pub fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, seen: Seen) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }
}

#[track_caller]
pub fn tcp(serving: &Serving, namespace: &Namespace, at: SocketAddr) -> Log {
    let log = Log::default();
    let (listener, seen) = (serving.listen(namespace, at), log.clone());
    serving.spawn(async move {
        while let Ok((mut stream, from)) = listener.accept().await {
            seen.push(Seen { from, datagram: Vec::new() });
            tokio::spawn(async move {
                let mut chunk = vec![0; 65536];
                while let Ok(count @ 1..) = stream.read(&mut chunk).await {
                    if stream.write_all(&chunk[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    log
}

#[track_caller]
pub fn udp(serving: &Serving, namespace: &Namespace, at: SocketAddr) -> Log {
    let log = Log::default();
    let (socket, seen) = (serving.datagrams(namespace, at), log.clone());
    serving.spawn(async move {
        let mut datagram = vec![0; 65536];
        loop {
            // An ICMP error for an earlier answer is told here, and is none of ours.
            let Ok((count, from)) = socket.recv_from(&mut datagram).await else { continue };
            seen.push(Seen { from, datagram: datagram[..count].to_vec() });
            let _ = socket.send_to(&datagram[..count], from).await;
        }
    });
    log
}
