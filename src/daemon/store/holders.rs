//! Everything that holds, by whose it is. Pure, on the daemon's one thread.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::{Holder, Stored};
use crate::common::id::GrantId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holders {
    of: HashMap<Holder, BTreeMap<GrantId, Rc<Stored>>>,
    all: HashMap<GrantId, Holder>,
}

impl Holders {
    pub fn enter(&mut self, stored: Rc<Stored>) {
        self.all.insert(stored.id(), stored.holder.clone());
        self.of.entry(stored.holder.clone()).or_default().insert(stored.id(), stored);
    }

    pub fn remove(&mut self, id: GrantId) -> Option<Rc<Stored>> {
        let holder = self.all.remove(&id)?;
        let own = self.of.get_mut(&holder)?;
        let gone = own.remove(&id);
        if own.is_empty() {
            self.of.remove(&holder);
        }
        gone
    }

    pub fn get(&self, id: GrantId) -> Option<&Rc<Stored>> {
        self.of.get(self.all.get(&id)?)?.get(&id)
    }

    pub fn of(&self, holder: &Holder) -> impl Iterator<Item = &Rc<Stored>> {
        self.of.get(holder).into_iter().flat_map(BTreeMap::values)
    }

    pub fn count(&self, holder: &Holder) -> usize {
        self.of.get(holder).map_or(0, BTreeMap::len)
    }

    pub fn count_of_user(&self, uid: u32) -> usize {
        self.of.iter().filter(|(holder, _)| holder.uid == uid).map(|(_, own)| own.len()).sum()
    }

    pub fn all(&self) -> impl Iterator<Item = &Rc<Stored>> {
        self.of.values().flat_map(BTreeMap::values)
    }

    /// Those of a user whose time is over.
    pub fn drop_over(&mut self, uid: u32) -> Vec<GrantId> {
        let own = self.of.iter().filter(|(holder, _)| holder.uid == uid).flat_map(|(_, own)| own.values());
        let over: Vec<GrantId> = own.filter(|stored| stored.grant().is_over()).map(|stored| stored.id()).collect();
        over.iter().for_each(|id| drop(self.remove(*id)));
        over
    }
}
