//! A cluster's service as managers see it: keys with revisions, some of which go with who set them.

use std::collections::BTreeMap;

use snin_mastership::cluster::{Answer, Ask, Entry};
use snin_protocol::Time;

/// What was attached goes so long after its last sign of life.
const LEASE: Time = Time::secs(5);

#[derive(Default)]
pub(crate) struct Store {
    entries: BTreeMap<String, (String, u64)>,
    revision: u64,
    attached: BTreeMap<String, Time>,
}

impl Store {
    pub(crate) fn put(&mut self, key: &str, value: &str) {
        self.revision += 1;
        self.entries.insert(key.to_owned(), (value.to_owned(), self.revision));
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.entries.remove(key);
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|(value, _)| value.as_str())
    }

    /// Leases run out.
    pub(crate) fn expire(&mut self, now: Time) {
        let entries = &mut self.entries;
        self.attached.retain(|key, at| {
            let lives = now < *at + LEASE;
            if !lives {
                entries.remove(key);
            }
            lives
        });
    }

    /// Does what a manager asks.
    pub(crate) fn answer(&mut self, ask: Ask, now: Time) -> (u64, Answer) {
        self.expire(now);
        match ask {
            Ask::Read { number, key, value } => {
                self.attached.insert(key.clone(), now);
                if self.get(&key) != Some(&value) {
                    self.put(&key, &value);
                }
                let entry = |(key, (value, revision)): (&String, &(String, u64))| Entry {
                    key: key.clone(),
                    value: value.clone(),
                    revision: *revision,
                };
                (number, Answer::Entries(self.entries.iter().map(entry).collect()))
            }
            Ask::Choose { number, key, revision, value } => {
                let is_so = self.entries.get(&key).map_or(0, |(_, revision)| *revision) == revision;
                if is_so {
                    self.put(&key, &value);
                }
                (number, Answer::Chosen(is_so))
            }
        }
    }
}
