//! The judge of a session, as its resolver asks it.
//!
//! Runs as the user in the supervisor, on threads that may wait.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::asker::{Asker, Finder, Sender};
use super::verdicts::{Bench, Said};
use crate::common::access::{Access, Level};
use crate::common::errno::Errno;
use crate::common::id::CallId;
use crate::common::net::{Destination, HostName, Transport};
use crate::common::request::Operation;
use crate::policy::decide::Source;
use crate::policy::grants::Grants;
use crate::policy::network::Reaching;
use crate::session::judge::{Approvals, Halt, Judge, Wanted};
use crate::session::perform::Performer;

/// Times that a look-up is judged anew, because somebody said yes to it and another rule wants more by then.
const TRIES_AT_MOST: u32 = 4;

pub struct Court {
    pub finder: Finder,
    pub performer: Arc<Performer>,
}

fn looking_up(destination: Destination) -> [Wanted; 1] {
    [Wanted::reaching_out(Access::Connect, Operation::LookUp, Arc::new(destination))]
}

impl Court {
    fn judge(&self) -> &Judge {
        self.performer.judge()
    }

    /// Policy's own yes, or that of an answer which was given before.
    fn allows(&self, asker: &Asker, destination: Destination) -> bool {
        // Told to whoever would be asked about instead of asking.
        let instead = || Some(Errno::ACCES);
        self.judge().permit(asker, &looking_up(destination), &mut Approvals::default(), instead).is_ok()
    }
}

impl Bench for Court {
    type Asker = Asker;

    fn find(&self, sender: &Sender) -> Option<Asker> {
        self.finder.find(sender)
    }

    fn call(&self, asker: &Asker) -> CallId {
        asker.call()
    }

    fn still_allows(&self, asker: &Asker, name: &HostName) -> bool {
        self.allows(asker, Destination::name(name.clone()))
    }

    fn judge(&self, asker: &Asker, name: &HostName) -> Said {
        let wanted = looking_up(Destination::name(name.clone()));
        let mut approvals = Approvals::default();
        let mut was_asked = false;
        for _ in 0..TRIES_AT_MOST {
            match Court::judge(self).permit(asker, &wanted, &mut approvals, || None) {
                Ok(_permit) if was_asked && !self.still_allows(asker, name) => return Said::Once,
                Ok(_permit) => return Said::Yes,
                Err(Halt::Again) => was_asked = true,
                Err(Halt::Gone) => return Said::Gone,
                Err(Halt::Answer(_)) => return Said::No,
            }
        }
        Said::No
    }

    fn learnt(&self, name: &HostName, addresses: &[IpAddr]) {
        self.performer.let_udp_out(name, addresses);
    }

    fn forbids(&self, name: &HostName) -> bool {
        let destination = Destination::name(name.clone());
        let reaching = Reaching { destination: &destination, program: &|| None };
        let verdict = self.judge().policy().decide_connect(&reaching, CallId(0), &Grants::new());
        verdict.level == Level::Deny && matches!(verdict.source, Source::Rule(_))
    }

    fn allows_address(&self, asker: &Asker, address: IpAddr) -> bool {
        // No connection goes to port 0: rules that speak of all ports of an address are meant.
        let at = SocketAddr::new(address, 0);
        self.allows(asker, Destination::address(at, Transport::Tcp, Vec::new()))
    }
}
