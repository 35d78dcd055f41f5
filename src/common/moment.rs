//! Points in time that mean the same in every process of this machine until it is booted again, whatever the clock on the
//! wall is set to, and that go on while it sleeps. Pure but for the kernel's clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time since boot, as `CLOCK_BOOTTIME` counts it (sysinfo(2)); whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(pub Duration);

impl Moment {
    pub fn now() -> Moment {
        Moment(Duration::from_secs(u64::try_from(rustix::system::sysinfo().uptime).unwrap_or(0)))
    }

    /// Saturates.
    pub fn after(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time))
    }
}
