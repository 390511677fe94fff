//! Records that have to survive a restart: groups, members, services, subscriptions, aliases.
//!
//! What the sweep writes is found again; what hosts said is not said again unless they are asked to.

use serde::{Deserialize, Serialize};
use snin_fabric::Guid;
use snin_mad::Gid;
use snin_protocol::Time;

use super::kinds::{
    Aliases, Change, Group, Groups, Kind, Member, MemberKey, Members, Service, ServiceKey,
    Services, Subscriber, Subscription, Subscriptions,
};
use super::{Database, Stamp};

/// One record that was written, or, without a value, removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kept {
    /// A multicast group.
    Group(Gid, Option<Group>),
    /// A port in one.
    Member(MemberKey, Option<Member>),
    /// A service.
    Service(ServiceKey, Option<Service>),
    /// A subscription.
    Subscription(Subscriber, Option<Subscription>),
    /// A further GUID of a port.
    Alias((Guid, u16), Option<Guid>),
}

/// A record that is kept, and when it was last changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptRecord {
    /// The record.
    pub kept: Kept,
    /// Of its last change; unknown where it was kept by a version that did not keep stamps.
    pub stamp: Option<Stamp>,
}

impl KeptRecord {
    /// Whether it says that the record was removed.
    pub const fn is_removed(&self) -> bool {
        match &self.kept {
            Kept::Group(_, value) => value.is_none(),
            Kept::Member(_, value) => value.is_none(),
            Kept::Service(_, value) => value.is_none(),
            Kept::Subscription(_, value) => value.is_none(),
            Kept::Alias(_, value) => value.is_none(),
        }
    }
}

impl From<Kept> for KeptRecord {
    fn from(kept: Kept) -> Self {
        Self { kept, stamp: None }
    }
}

impl Database {
    /// What was changed from `cursor` on of what has to be kept, as it is now.
    pub fn kept_since(&self, cursor: u64) -> Vec<KeptRecord> {
        let Some(changes) = self.since(cursor) else { return self.kept() };
        let kept = changes.filter_map(|change| {
            Some(match change {
                Change::Groups(key) => self.record::<Groups>(key, Kept::Group),
                Change::Members(key) => self.record::<Members>(key, Kept::Member),
                Change::Services(key) => self.record::<Services>(key, Kept::Service),
                Change::Subscriptions(key) => self.record::<Subscriptions>(key, Kept::Subscription),
                Change::Aliases(key) => self.record::<Aliases>(key, Kept::Alias),
                _ => return None,
            })
        });
        kept.collect()
    }

    fn record<K>(&self, key: &K::Key, kept: impl Fn(K::Key, Option<K::Value>) -> Kept) -> KeptRecord
    where
        K: Kind,
        K::Value: Clone,
    {
        let kept = kept(key.clone(), self.get::<K>(key).cloned());
        KeptRecord { kept, stamp: self.stamp::<K>(key) }
    }

    /// Everything that has to be kept, and what was removed as far as that is known.
    pub fn kept(&self) -> Vec<KeptRecord> {
        let mut kept = Vec::new();
        self.keep::<Groups>(Kept::Group, &mut kept);
        self.keep::<Members>(Kept::Member, &mut kept);
        self.keep::<Services>(Kept::Service, &mut kept);
        self.keep::<Subscriptions>(Kept::Subscription, &mut kept);
        self.keep::<Aliases>(Kept::Alias, &mut kept);
        kept
    }

    fn keep<K>(&self, kept: impl Fn(K::Key, Option<K::Value>) -> Kept, all: &mut Vec<KeptRecord>)
    where
        K: Kind,
        K::Value: Clone,
    {
        let entries = self.all::<K>().entries();
        all.extend(entries.map(|(key, value, stamp)| KeptRecord {
            kept: kept(key.clone(), value.cloned()),
            stamp: Some(stamp),
        }));
    }

    /// How many records have to be kept.
    pub const fn kept_len(&self) -> usize {
        let tables = &self.tables;
        tables.kept_len()
    }

    /// Takes what was kept, in the order in which it was.
    pub fn restore(&mut self, record: KeptRecord) {
        let stamp = record.stamp;
        match record.kept {
            Kept::Group(key, value) => self.set::<Groups>(key, value, stamp),
            Kept::Member(key, value) => self.set::<Members>(key, value, stamp),
            Kept::Service(key, value) => self.set::<Services>(key, value, stamp),
            Kept::Subscription(key, value) => self.set::<Subscriptions>(key, value, stamp),
            Kept::Alias(key, value) => self.set::<Aliases>(key, value, stamp),
        }
    }

    /// A record as it was, with its stamp; later changes have later ones.
    pub fn set<K: Kind>(&mut self, key: K::Key, value: Option<K::Value>, stamp: Option<Stamp>) {
        let stamp = stamp.unwrap_or_else(|| self.clock.tick(Time::ZERO));
        self.clock.see(stamp);
        K::index(self, &key, value.as_ref());
        K::table_mut(&mut self.tables).set(key.clone(), value, stamp);
        self.note(K::change(key), stamp);
    }
}
