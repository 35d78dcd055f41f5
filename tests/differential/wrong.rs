//! Deliberate mistakes of the executor, one at a time: the proof that the comparison sees them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Nothing,
    /// mkdir loses a permission bit, as if another umask had been applied.
    Mode,
    /// A removal that fails with `ENOTEMPTY` says `EEXIST`.
    Errno,
    /// Descriptors lose their close-on-exec flag.
    CloseOnExec,
    /// A set time is a second off.
    Time,
}

impl Wrong {
    pub const ALL: [Wrong; 4] = [Wrong::Mode, Wrong::Errno, Wrong::CloseOnExec, Wrong::Time];

    pub fn from_name(name: &str) -> Option<Wrong> {
        [Wrong::Nothing].into_iter().chain(Wrong::ALL).find(|wrong| format!("{wrong:?}") == name)
    }

    pub fn before(self, name: &str, registers: &mut [u64; 6]) {
        match (self, name) {
            (Wrong::Mode, "mkdir") => registers[1] &= !0o001,
            (Wrong::Time, "utimensat") => {
                // SAFETY: only a time array that the executor placed itself is touched: four words on its heap.
                let times = registers[2] as *mut u64;
                if registers[2] > 0x10000 && registers[2] < 1 << 47 {
                    unsafe { *times.add(2) = (*times.add(2)).wrapping_add(1) }
                }
            }
            _ => {}
        }
    }

    pub fn errno(self, name: &str, errno: String) -> String {
        if self == Wrong::Errno && matches!(name, "rmdir" | "unlinkat") && errno == "ENOTEMPTY" {
            "EEXIST".into()
        } else {
            errno
        }
    }

    pub fn descriptor_flags(self, flags: i32) -> i32 {
        if self == Wrong::CloseOnExec { flags & !libc::FD_CLOEXEC } else { flags }
    }
}
