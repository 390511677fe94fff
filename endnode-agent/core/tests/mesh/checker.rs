//! What must hold, checked by true time from what was granted, sent and received; shares nothing with
//! the mesh.

use std::collections::BTreeMap;

use snin_agent_core::{FlowId, Piece};
use snin_fabric::TreeId;
use snin_protocol::Time;
use snin_protocol::message::Grant;

use crate::fake_port::Transmission;

#[derive(Default)]
pub(crate) struct Checker {
    /// By sender and flow, all that was ever granted.
    grants: BTreeMap<(usize, FlowId), Vec<Grant>>,
    /// By sender and flow, the next (sequence, message, offset).
    received: BTreeMap<(usize, FlowId), (u64, u64, u64)>,
    /// By tree: who was on it, and until when.
    owners: BTreeMap<TreeId, (usize, FlowId, Time)>,
    pub(crate) transmissions: u64,
}

impl Checker {
    pub(crate) fn granted(&mut self, host: usize, flow: FlowId, grant: Grant) {
        let known = self.grants.entry((host, flow)).or_default();
        if known.last() != Some(&grant) {
            known.push(grant);
        }
    }

    /// Inside the union of the flow's grants for that tree, and no other flow is on the links meanwhile.
    pub(crate) fn sent(&mut self, sent: &Transmission, guard: Time) {
        self.transmissions += 1;
        let key = (sent.host, sent.piece.flow);
        let grants = self.grants.get(&key).map_or(&[][..], Vec::as_slice);
        let mut covered = sent.start;
        for grant in grants.iter().filter(|grant| grant.tree == sent.tree) {
            if grant.from <= covered && covered < grant.until - guard {
                covered = grant.until - guard;
            }
        }
        assert!(covered >= sent.end, "sent outside its grants: {sent:?}\n{grants:?}");
        if let Some(&(host, flow, until)) = self.owners.get(&sent.tree)
            && (host, flow) != key
        {
            assert!(until <= sent.start, "{sent:?} while {host} {flow:?} is there until {until}");
        }
        self.owners.insert(sent.tree, (key.0, key.1, sent.arrives));
    }

    /// The very next piece of its flow.
    pub(crate) fn received(&mut self, sender: usize, piece: &Piece) {
        let next = self.received.entry((sender, piece.flow)).or_default();
        let got = (piece.sequence, piece.message, piece.offset);
        assert_eq!(got, *next, "not the next piece of host {sender} {:?}", piece.flow);
        next.0 += 1;
        next.2 += u64::from(piece.bytes);
        if piece.last {
            (next.1, next.2) = (next.1 + 1, 0);
        }
    }

    /// How many messages of a flow came whole.
    pub(crate) fn messages(&self, sender: usize, flow: FlowId) -> u64 {
        self.received.get(&(sender, flow)).map_or(0, |&(_, message, _)| message)
    }
}
