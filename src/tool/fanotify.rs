//! Permission events of fanotify(7): the kernel holds an open until it is answered. The group is made and its mounts are marked
//! as root, while the session is built; afterwards the supervisor, as the user, reads, answers, and marks single inodes, which
//! the kernel lets it do on a group that root made. What is told here of a file or thread is the kernel's own word.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Held are opens of files and of directories; execve(2) opens too.
const OPENS: u64 = libc::FAN_OPEN_PERM | libc::FAN_ONDIR;
const METADATA: usize = size_of::<libc::fanotify_event_metadata>();

/// A group of class `FAN_CLASS_CONTENT` that names threads, not processes.
#[derive(Debug)]
pub struct Group {
    fd: OwnedFd,
    /// A procfs in which this process has a number, `O_PATH`: an object that is pinned is named by its descriptor there.
    procfs: OwnedFd,
}

/// An open that waits for its answer. One that is dropped without is denied when it can be; answer each.
#[derive(Debug)]
pub struct Event {
    /// Thread id in the pid namespace of whoever receives; 0 if it has none there.
    pub thread: i32,
    /// What is opened, opened for reading by the kernel on the receiver's behalf, through the mount of whoever opens.
    pub file: OwnedFd,
}

/// Which opens an inode's mark holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the file or directory itself.
    Itself,
    /// Of a directory, and of all that is directly in it, whenever it comes to be there.
    Children,
}

impl Group {
    /// As root. Fails with `EINVAL` or `ENOSYS` where the kernel was built without permission events.
    pub fn new(procfs: OwnedFd) -> io::Result<Group> {
        let flags = libc::FAN_CLASS_CONTENT
            | libc::FAN_CLOEXEC
            | libc::FAN_REPORT_TID
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        let files = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: fanotify_init(2) takes two numbers.
        let fd = unsafe { libc::syscall(libc::SYS_fanotify_init, flags, files) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        Ok(Group { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) }, procfs })
    }

    /// Holds every open through the mount that this pinned object is in. As root.
    pub fn mark_mount(&self, object: BorrowedFd<'_>) -> io::Result<()> {
        self.mark(libc::FAN_MARK_ADD | libc::FAN_MARK_MOUNT, OPENS, object)
    }

    /// Holds every open of this pinned file, or in this pinned directory, through whatever mount and by whomever.
    pub fn mark_inode(&self, object: BorrowedFd<'_>, reach: Reach) -> io::Result<()> {
        self.mark(libc::FAN_MARK_ADD, OPENS | children(reach), object)
    }

    /// Takes back what [`Group::mark_inode`] did.
    pub fn unmark_inode(&self, object: BorrowedFd<'_>, reach: Reach) -> io::Result<()> {
        self.mark(libc::FAN_MARK_REMOVE, OPENS | children(reach), object)
    }

    /// Takes back every [`Group::mark_inode`].
    pub fn unmark_inodes(&self) -> io::Result<()> {
        self.mark(libc::FAN_MARK_FLUSH, 0, self.procfs.as_fd())
    }

    fn mark(&self, flags: libc::c_uint, mask: u64, object: BorrowedFd<'_>) -> io::Result<()> {
        let path = CString::new(format!("self/fd/{}", object.as_raw_fd()))?;
        // SAFETY: path is NUL-terminated and outlives the call, which reads nothing else.
        let done =
            unsafe { libc::fanotify_mark(self.fd.as_raw_fd(), flags, mask, self.procfs.as_raw_fd(), path.as_ptr()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The next open; blocks. Any number of threads may wait here. `None` if there is nothing to be answered, or the kernel
    /// could not open the file for us, in which case it has denied the open by itself.
    pub fn receive(&self) -> io::Result<Option<Event>> {
        let mut buffer = MaybeUninit::<libc::fanotify_event_metadata>::uninit();
        // SAFETY: the kernel writes at most the length that is passed, which is the buffer's.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), buffer.as_mut_ptr().cast(), METADATA) };
        match usize::try_from(got) {
            Ok(METADATA) => {}
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            // What the kernel met when it opened the file, or a signal: whoever waited has its answer.
            Err(_) => return Ok(None),
        }
        // SAFETY: all of it was written, as its length says; every bit pattern is a value of it.
        let event = unsafe { buffer.assume_init() };
        if event.vers != libc::FANOTIFY_METADATA_VERSION {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if event.fd < 0 {
            return Ok(None);
        }
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
        Ok(Some(Event { thread: event.pid, file }))
    }

    /// Lets the open go on, or fail with `EPERM`. `ENOENT` if nobody waits for it any more.
    pub fn answer(&self, event: Event, allow: bool) -> io::Result<()> {
        let response = libc::fanotify_response {
            fd: event.file.as_raw_fd(),
            response: if allow { libc::FAN_ALLOW } else { libc::FAN_DENY },
        };
        // SAFETY: the kernel reads one live structure of the length that is passed.
        let done = unsafe {
            libc::write(self.fd.as_raw_fd(), (&raw const response).cast(), size_of::<libc::fanotify_response>())
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn children(reach: Reach) -> u64 {
    if reach == Reach::Children { libc::FAN_EVENT_ON_CHILD } else { 0 }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
