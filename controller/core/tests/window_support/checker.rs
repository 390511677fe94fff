//! Watches every directed link: from the moment that a connection may send until what it sent has drained,
//! no other connection may be on it.

use std::collections::BTreeMap;

use snin_fabric::{Dlid, Guid, PortIndex};
use snin_protocol::{ConnectionNumber, Time};

use super::fabric::Plant;

pub type Flow = (Guid, ConnectionNumber);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clash {
    pub link: PortIndex,
    pub at: Time,
    pub owner: Flow,
    pub other: Flow,
}

struct Sending {
    dlid: Dlid,
    links: Vec<PortIndex>,
}

#[derive(Default)]
pub struct Checker {
    /// On each link who is on it, and since they stopped until when.
    links: BTreeMap<PortIndex, BTreeMap<(Flow, Dlid), Option<Time>>>,
    sending: BTreeMap<(Flow, Dlid), Sending>,
    pub clashes: Vec<Clash>,
    /// How long flows could send, all together.
    pub sent: BTreeMap<Flow, Time>,
    since: BTreeMap<(Flow, Dlid), Time>,
    pub starts: u64,
}

impl Checker {
    pub fn start(&mut self, plant: &Plant, flow: Flow, dlid: Dlid, now: Time) {
        self.starts += 1;
        let links = plant.links(flow.0, dlid);
        self.enter(flow, dlid, &links, now);
        self.since.insert((flow, dlid), now);
        self.sending.insert((flow, dlid), Sending { dlid, links });
    }

    fn enter(&mut self, flow: Flow, dlid: Dlid, links: &[PortIndex], now: Time) {
        for (place, &link) in links.iter().enumerate() {
            let on = self.links.entry(link).or_default();
            on.retain(|_, until| until.is_none_or(|until| until > now));
            for &(other, _) in on.keys() {
                // What one port sends, it sends one after the other.
                let own_port = place == 0 && other.0 == flow.0;
                if other != flow && !own_port {
                    self.clashes.push(Clash { link, at: now, owner: other, other: flow });
                }
            }
            on.insert((flow, dlid), None);
        }
    }

    pub fn stop(&mut self, flow: Flow, dlid: Dlid, now: Time, drained: Time) {
        let Some(sending) = self.sending.remove(&(flow, dlid)) else { return };
        for link in &sending.links {
            self.links.get_mut(link).unwrap().insert((flow, dlid), Some(drained));
        }
        let since = self.since.remove(&(flow, dlid)).unwrap();
        *self.sent.entry(flow).or_default() += now - since;
    }

    /// Tables changed: what is sent from now on goes other ways, what is under way is there still.
    pub fn tables_changed(&mut self, plant: &Plant, now: Time, drain: Time) {
        let flows: Vec<(Flow, Dlid)> = self.sending.keys().copied().collect();
        for (flow, dlid) in flows {
            let links = plant.links(flow.0, dlid);
            if links != self.sending[&(flow, dlid)].links {
                self.stop(flow, dlid, now, now + drain);
                self.enter(flow, dlid, &links, now);
                self.since.insert((flow, dlid), now);
                self.sending.insert((flow, dlid), Sending { dlid, links });
            }
        }
    }

    pub fn is_sending(&self, flow: Flow) -> bool {
        self.sending.keys().any(|(sending, _)| *sending == flow)
    }

    pub fn senders(&self) -> usize {
        self.sending.len()
    }
}
