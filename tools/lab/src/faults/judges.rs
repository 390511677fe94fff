//! What must always be so, judged from what was granted, sent, written and received; shares nothing with what it
//! judges.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use snin_agent_core::{FlowId, Piece};
use snin_emulator::{Fabric, Write};
use snin_fabric::{Guid, Lid, PortIndex, PortNum};
use snin_mad::{Attribute as _, AttributeId, LinearForwarding, Method, PortState, SmInfo};
use snin_protocol::Time;
use snin_protocol::message::{Grant, Lease};

use super::site::Site;

/// After this long without a fault every manager knows of every other, and one of them alone writes.
const KNOWN: Time = Time::secs(5);
/// Grants that ended so long ago are forgotten.
const PAST: Time = Time::secs(5);

/// An agent's life.
type Sender = (Guid, u64);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Judges {
    /// Writes that were not looked at yet.
    pub(super) written: Rc<RefCell<Vec<Write>>>,
    /// What was granted, by sender and flow.
    grants: BTreeMap<(Guid, u32), VecDeque<Grant>>,
    /// By link: which agent's piece was on it last, and until when.
    owners: BTreeMap<PortIndex, (usize, Time)>,
    /// Messages of the present flow that came whole.
    whole: BTreeMap<Sender, u64>,
    /// By receiver's life and sender: the next (sequence, message, offset).
    next: BTreeMap<(usize, u32, Sender), (u64, u64, u64)>,
    /// The last fault, and who wrote since all could know of each other.
    shaken: Time,
    writers: Vec<usize>,
    /// Two wrote in turns.
    pub(super) both_write: Option<String>,
}

impl Judges {
    /// Something goes wrong, or right again.
    pub(super) fn shake(&mut self, now: Time) {
        self.shaken = now;
        self.writers.clear();
    }

    /// A manager sends a request.
    pub(super) fn sends(
        &mut self,
        n: usize,
        (method, attribute): (Method, AttributeId),
        now: Time,
    ) {
        let writes = method == Method::Set && attribute != SmInfo::ID;
        if !writes || now < self.shaken + KNOWN || self.writers.last() == Some(&n) {
            return;
        }
        if self.writers.contains(&n) {
            let since = self.shaken;
            self.both_write
                .get_or_insert_with(|| format!("manager{n} and {:?} since {since}", self.writers));
        }
        self.writers.push(n);
    }

    /// A controller grants: what it says counts from then on, whether it arrives or not.
    pub(super) fn granted(&mut self, to: Guid, lease: &Lease, now: Time) {
        for grant in &lease.grants {
            let known = self.grants.entry((to, grant.connection.0)).or_default();
            if known.back() != Some(grant) {
                known.push_back(*grant);
            }
            while known.front().is_some_and(|old| old.until + PAST < now) {
                known.pop_front();
            }
        }
    }

    /// A piece leaves: why it must not.
    pub(super) fn within(
        &self,
        (from, flow): (Guid, FlowId),
        lid: Lid,
        (start, end): (Time, Time),
        guard: Time,
    ) -> Option<String> {
        let grants = self.grants.get(&(from, flow.0)).into_iter().flatten();
        let own: Vec<&Grant> = grants.filter(|grant| grant.dlid.0 == lid).collect();
        let mut covered = start;
        // Leases come in order, but grants of two controllers may not.
        for _ in 0..own.len() {
            for grant in &own {
                if grant.from <= covered && covered + guard < grant.until {
                    covered = grant.until - guard;
                }
            }
        }
        (covered < end).then(|| {
            let last = own.last().map(|grant| (grant.from, grant.until));
            format!("{start} to {end} by {lid}: granted until {covered}; the last grant {last:?}")
        })
    }

    /// A piece is on these links from `start` on: a link on which another agent's is.
    pub(super) fn occupy(
        &mut self,
        agent: usize,
        links: &[PortIndex],
        (start, until): (Time, Time),
    ) -> Option<(PortIndex, usize)> {
        let mut clash = None;
        for &link in links {
            let owner = self.owners.insert(link, (agent, until));
            if let Some((other, last)) = owner
                && other != agent
                && last > start
            {
                clash.get_or_insert((link, other));
            }
        }
        clash
    }

    /// A piece arrives at a living agent's port.
    pub(super) fn arrived(&mut self, from: Sender, piece: &Piece) {
        if piece.last {
            self.whole.insert(from, piece.message + 1);
        }
    }

    /// A sender says that a message is complete: why that is not so.
    pub(super) fn sent(&self, from: Sender, message: u64) -> Option<String> {
        let whole = self.whole.get(&from).copied().unwrap_or(0);
        (whole <= message).then(|| format!("message {message} of {from:?}: {whole} came"))
    }

    /// A sender's flow is closed; the next one begins with message 0.
    pub(super) fn closed(&mut self, from: Sender) {
        self.whole.remove(&from);
    }

    /// A receiver takes a piece: why it is not the next one.
    pub(super) fn received(
        &mut self,
        (n, life): (usize, u32),
        from: Sender,
        piece: &Piece,
    ) -> Option<String> {
        let got = (piece.sequence, piece.message, piece.offset);
        let next = self.next.entry((n, life, from)).or_insert(got);
        let expected = *next;
        *next = match piece.last {
            true => (got.0 + 1, got.1 + 1, 0),
            false => (got.0 + 1, got.1, got.2 + u64::from(piece.bytes)),
        };
        // Another flow of the same number begins with a first message; pieces in between went to others.
        let begins = (got.1, got.2) == (0, 0) && got.0 >= expected.0;
        (got != expected && !begins).then(|| format!("{got:?} of {from:?}, expected {expected:?}"))
    }
}

/// A packet to an address that goes round in circles, from wherever it comes: the address and the switch.
fn looped(fabric: &Fabric) -> Option<(Lid, String)> {
    let topology = fabric.topology();
    let switches: Vec<_> = topology.switches().collect();
    let tops = switches.iter().filter_map(|&switch| fabric.switch_info(switch));
    let top = tops.map(|info| info.linear_fdb_top).max()?;
    for lid in (1..=top.0).map(Lid) {
        for &first in &switches {
            let mut at = first;
            let mut hops = 0;
            while let Some(out) = fabric.forwards(at, lid).filter(|&out| out != PortNum::ZERO) {
                let port = topology.port_of(at, out);
                let port = port.filter(|&port| fabric.port_state(port) != PortState::Down);
                let Some(peer) = port.and_then(|port| topology.peer(port)) else { break };
                at = topology.port(peer).node;
                if !topology.is_switch(at) {
                    break;
                }
                hops += 1;
                if hops > switches.len() {
                    return Some((lid, topology.node(first).name.to_string()));
                }
            }
        }
    }
    None
}

impl Site {
    /// What was written since this was called last.
    pub(super) fn judge_writes(&mut self) {
        let written = std::mem::take(&mut *self.judges.written.borrow_mut());
        if written.is_empty() {
            return;
        }
        self.summary.writes += written.len() as u64;
        for write in &written {
            let bytes =
                [u64::from(write.node.0).to_le_bytes(), u64::from(write.modifier).to_le_bytes()];
            self.fold(&bytes.concat());
        }
        if written.iter().any(|write| write.attribute == LinearForwarding::ID)
            && let Some((lid, switch)) = looped(self.emulator.fabric())
        {
            self.violated("a forwarding loop", format_args!("{lid} from {switch}"));
        }
        if let Some(both) = self.judges.both_write.take() {
            self.violated("two managers write", both);
        }
    }
}
