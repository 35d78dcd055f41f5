//! The user database, asked away from the daemon's own thread because it may be on a network (nsswitch.conf(5)). Runs as
//! root.

use std::collections::BTreeSet;
use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use crate::common::path::RawPath;
use crate::common::wire::Identity;

/// A user and the names of their groups.
#[derive(Clone, Debug)]
pub struct Known {
    pub identity: Identity,
    pub groups: BTreeSet<String>,
}

/// Nobody is known by that name or number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    #[error("there is no user {0}")]
    Nobody(String),
    #[error("the user database: {0}")]
    Database(#[from] nix::errno::Errno),
    #[error("the user database cannot be asked")]
    NoThread,
}

/// The user with this number.
pub async fn by_uid(uid: u32) -> Result<Known, UserError> {
    let find = move || {
        let user = User::from_uid(Uid::from_raw(uid))?.ok_or_else(|| UserError::Nobody(uid.to_string()))?;
        known(user)
    };
    tokio::task::spawn_blocking(find).await.map_err(|_| UserError::NoThread)?
}

/// The user with this name.
pub async fn by_name(name: String) -> Result<Known, UserError> {
    let find = move || {
        let user = User::from_name(&name)?.ok_or_else(|| UserError::Nobody(name.escape_default().to_string()))?;
        known(user)
    };
    tokio::task::spawn_blocking(find).await.map_err(|_| UserError::NoThread)?
}

fn known(user: User) -> Result<Known, UserError> {
    // A name of the user database has no NUL.
    let name = CString::new(user.name.as_bytes()).unwrap_or_default();
    let groups = getgrouplist(&name, user.gid)?;
    // A group that has no name is none that a file could mean; one that cannot be looked up may be.
    let named = groups.iter().filter_map(|gid| Group::from_gid(*gid).transpose());
    let names = named.map(|group| group.map(|group| group.name)).collect::<Result<_, _>>()?;
    let identity = Identity {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(Gid::as_raw).collect(),
        name: user.name,
        home: RawPath::from(user.dir),
    };
    Ok(Known { identity, groups: names })
}
