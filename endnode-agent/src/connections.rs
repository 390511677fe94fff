//! What came along each connection of a job: packets, by the numbers that they have.
//!
//! A queue pair says with which number its peer begins when it becomes ready to receive; from then on the kernel
//! knows which number it expects next (`packet_numbers`), and the program's preload library says so once more when
//! the queue pair ends. Numbers have 24 bits: what is looked at every second counts right up to 16 million packets
//! a second.

use std::collections::BTreeMap;

use snin_fabric::Lid;
use tracing::warn;

use crate::packet_numbers;

/// Packet numbers have 24 bits (IBA 9.7.2).
const NUMBERS: u32 = 1 << 24;
/// The most connections that are counted; later ones are not.
const MAX_CONNECTIONS: usize = 65_536;

/// A job, and the first addresses of the own end and of its peer.
pub(crate) type Pair = (String, Lid, Lid);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Connections {
    device: String,
    /// By queue pair: whose it is, and the number that it expected last.
    known: BTreeMap<u32, (Pair, u32)>,
    has_failed: bool,
}

impl Connections {
    /// Of a device.
    pub(crate) const fn new(device: String) -> Self {
        Self { device, known: BTreeMap::new(), has_failed: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// A queue pair becomes ready to receive.
    pub(crate) fn begin(&mut self, queue_pair: u32, expected: u32, pair: &Pair) {
        if self.known.len() < MAX_CONNECTIONS || self.known.contains_key(&queue_pair) {
            self.known.insert(queue_pair, (pair.clone(), expected % NUMBERS));
        }
    }

    /// A queue pair ends: the packets that came since it was looked at, if it is of that job.
    pub(crate) fn end(&mut self, job: &str, queue_pair: u32, expected: u32) -> Option<(Pair, u64)> {
        self.known.get(&queue_pair).filter(|((owner, ..), _)| owner == job)?;
        let (pair, before) = self.known.remove(&queue_pair)?;
        Some((pair, came(before, expected)))
    }

    /// What came since the kernel was asked last, by pair. A queue pair that is gone is known no longer.
    pub(crate) fn look(&mut self) -> Vec<(Pair, u64)> {
        if self.known.is_empty() {
            return Vec::new();
        }
        match packet_numbers::expected(&self.device) {
            Ok(expected) => self.compare(&expected),
            Err(error) => {
                if !self.has_failed {
                    warn!("what comes along connections of {} is not known: {error}", self.device);
                }
                self.has_failed = true;
                Vec::new()
            }
        }
    }

    fn compare(&mut self, now: &BTreeMap<u32, u32>) -> Vec<(Pair, u64)> {
        let mut more = Vec::new();
        for (queue_pair, (pair, before)) in &mut self.known {
            let Some(&expected) = now.get(queue_pair) else { continue };
            more.push((pair.clone(), came(*before, expected)));
            *before = expected % NUMBERS;
        }
        more
    }

    /// Forgets connections of jobs that are gone.
    pub(crate) fn retain(&mut self, is_here: impl Fn(&String) -> bool) {
        self.known.retain(|_, ((job, ..), _)| is_here(job));
    }
}

fn came(before: u32, expected: u32) -> u64 {
    u64::from(expected.wrapping_sub(before) % NUMBERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_anew_after_24_bits_and_queue_pairs_are_their_jobs() {
        let mut connections = Connections::new("none".to_owned());
        let pair = |peer| ("a".to_owned(), Lid(1), Lid(peer));
        connections.begin(7, NUMBERS - 10, &pair(2));
        connections.begin(8, 0, &pair(3));
        let looked = connections.compare(&[(7, 20), (9, 5)].into());
        assert_eq!(looked, [(pair(2), 30)]);
        assert_eq!(connections.compare(&[(7, 20), (8, 4)].into()), [(pair(2), 0), (pair(3), 4)]);
        assert_eq!(connections.end("b", 7, 25), None, "another job's");
        assert_eq!(connections.end("a", 7, 25), Some((pair(2), 5)));
        assert_eq!(connections.end("a", 7, 25), None);
        connections.retain(|job| job != "a");
        assert!(connections.is_empty());
    }
}
