//! What has to survive a restart: groups, members, services, subscriptions, aliases.
//!
//! What the sweep writes is found again; what hosts said is not said again unless they are asked to.

use snin_fabric::Guid;
use snin_mad::Gid;

use super::Database;
use super::kinds::{
    Aliases, Change, Group, Groups, Kind, Member, MemberKey, Members, Service, ServiceKey,
    Services, Subscriber, Subscription, Subscriptions,
};

/// One record that was written, or, without a value, removed.
#[derive(Clone, PartialEq, Eq, Debug)]
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

impl Database {
    /// What was changed from `cursor` on of what has to be kept, as it is now.
    pub(crate) fn kept_since(&self, cursor: u64) -> Vec<Kept> {
        let Some(changes) = self.since(cursor) else { return self.kept() };
        let kept = changes.filter_map(|change| {
            Some(match change {
                Change::Groups(key) => Kept::Group(*key, self.get::<Groups>(key).cloned()),
                Change::Members(key) => Kept::Member(*key, self.get::<Members>(key).copied()),
                Change::Services(key) => Kept::Service(*key, self.get::<Services>(key).cloned()),
                Change::Subscriptions(key) => {
                    Kept::Subscription(key.clone(), self.get::<Subscriptions>(key).cloned())
                }
                Change::Aliases(key) => Kept::Alias(*key, self.get::<Aliases>(key).copied()),
                _ => return None,
            })
        });
        kept.collect()
    }

    /// Everything that has to be kept.
    pub fn kept(&self) -> Vec<Kept> {
        let mut kept = Vec::new();
        kept.extend(self.all::<Groups>().iter().map(|(k, v)| Kept::Group(*k, Some(v.clone()))));
        kept.extend(self.all::<Members>().iter().map(|(k, v)| Kept::Member(*k, Some(*v))));
        kept.extend(self.all::<Services>().iter().map(|(k, v)| Kept::Service(*k, Some(v.clone()))));
        let subscriptions = self.all::<Subscriptions>().iter();
        kept.extend(subscriptions.map(|(k, v)| Kept::Subscription(k.clone(), Some(v.clone()))));
        kept.extend(self.all::<Aliases>().iter().map(|(k, v)| Kept::Alias(*k, Some(*v))));
        kept
    }

    /// How many records have to be kept.
    pub const fn kept_len(&self) -> usize {
        let tables = &self.tables;
        tables.kept_len()
    }

    /// Takes what was kept, in the order in which it was.
    pub(crate) fn restore(&mut self, kept: Kept) {
        match kept {
            Kept::Group(key, value) => self.set::<Groups>(key, value),
            Kept::Member(key, value) => self.set::<Members>(key, value),
            Kept::Service(key, value) => self.set::<Services>(key, value),
            Kept::Subscription(key, value) => self.set::<Subscriptions>(key, value),
            Kept::Alias(key, value) => self.set::<Aliases>(key, value),
        }
    }

    fn set<K: Kind>(&mut self, key: K::Key, value: Option<K::Value>) {
        let now = snin_protocol::Time::ZERO;
        match value {
            Some(value) => {
                self.put::<K>(key, value, now);
            }
            None => {
                self.remove::<K>(&key, now);
            }
        }
    }
}
