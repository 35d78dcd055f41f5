//! Points in time that mean the same in every process of this machine until it is booted again, whatever the clock on the
//! wall is set to, and that go on while it sleeps. Pure but for the kernel's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::decision::Effect;

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

/// When something is over, by both clocks, of which each can be wrong: the one on the wall is set by people and programs, the
/// one since boot begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expiry {
    /// Within this boot.
    pub boot: Moment,
    /// Seconds of CLOCK_REALTIME.
    pub wall: u64,
}

impl Expiry {
    /// From now on.
    pub fn after(time: Duration) -> Expiry {
        Expiry { boot: Moment::now().after(time), wall: wall_now().saturating_add(time.as_secs()) }
    }

    /// What is left of something that was stored, perhaps before this boot, and ends at this second of CLOCK_REALTIME.
    pub fn at_wall(wall: u64) -> Expiry {
        let left = Duration::from_secs(wall.saturating_sub(wall_now()));
        Expiry { boot: Moment::now().after(left), wall }
    }

    /// Whether it is over. Where the clocks disagree the stricter one counts: what allows ends with the first, what denies
    /// with the last.
    pub fn is_over(self, effect: Effect) -> bool {
        let (boot, wall) = (Moment::now() >= self.boot, wall_now() >= self.wall);
        match effect {
            Effect::Allow => boot || wall,
            Effect::Deny => boot && wall,
        }
    }
}

/// Seconds of CLOCK_REALTIME.
pub fn wall_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
