//! The thread that a world's servers run on. Ends, and closes all of their sockets, when dropped.

use std::future::Future;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::Namespace;

pub struct Serving {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn new() -> Serving {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        // The runtime ends on its thread, and with it every task.
        let thread = std::thread::spawn(move || {
            let _ = runtime.block_on(stopped);
        });
        Serving { handle, stop: Some(stop), thread: Some(thread) }
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// A listener in a namespace, ready for connections when this returns.
    #[track_caller]
    pub fn listen(&self, namespace: &Namespace, at: SocketAddr) -> tokio::net::TcpListener {
        let listener = namespace.inside(|| TcpListener::bind(at)).unwrap_or_else(|error| panic!("{at}: {error}"));
        // SAFETY: listen(2) on a listener of ours; std's backlog of 128 is too short for what a test may do at once.
        unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 4096) };
        listener.set_nonblocking(true).expect("O_NONBLOCK");
        let _inside = self.handle.enter();
        tokio::net::TcpListener::from_std(listener).expect("epoll")
    }

    /// A datagram socket in a namespace.
    #[track_caller]
    pub fn datagrams(&self, namespace: &Namespace, at: SocketAddr) -> tokio::net::UdpSocket {
        let socket = namespace.inside(|| UdpSocket::bind(at)).unwrap_or_else(|error| panic!("{at}: {error}"));
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        let _inside = self.handle.enter();
        tokio::net::UdpSocket::from_std(socket).expect("epoll")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
