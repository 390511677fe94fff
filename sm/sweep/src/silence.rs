//! Ports whose neighbour does not answer: each is asked again by itself, less and less often, beside all other
//! work, so that silence never delays anything.

use std::collections::BTreeMap;

use snin_protocol::Time;

use crate::graph::{Graph, Trouble};
use crate::query::PortId;

/// The first wait; it doubles with every question that is left without an answer.
const FIRST_WAIT: Time = Time::millis(200);
/// The longest wait.
const LONGEST_WAIT: Time = Time::secs(30);
/// Questions to silent neighbours in flight at one time.
const MOST_AT_ONCE: usize = 64;

/// One silent neighbour.
#[derive(Debug)]
struct Silent {
    wait: Time,
    due: Time,
    asked: bool,
}

/// Every port whose neighbour does not answer. An entry goes when the neighbour answers, when the port goes down,
/// or when the port itself is out of reach.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    ports: BTreeMap<PortId, Silent>,
    in_flight: usize,
}

impl Silence {
    /// Takes over what is known now.
    pub(crate) fn update(&mut self, graph: &Graph, now: Time) {
        let silent = |end: &PortId| {
            let port = graph.port(*end);
            let mute = port.is_some_and(|p| p.is_up() && p.trouble == Some(Trouble::Mute));
            mute && graph.node(end.0).path.is_some()
        };
        self.ports.retain(|end, silent_port| silent_port.asked || silent(end));
        for (id, node) in graph.reachable().filter(|&(id, n)| n.is_switch() || graph.is_own(id)) {
            for (num, _) in node.external().filter(|&(num, _)| silent(&(id, num))) {
                let first = Silent { wait: FIRST_WAIT, due: now + FIRST_WAIT, asked: false };
                self.ports.entry((id, num)).or_insert(first);
            }
        }
    }

    /// All are asked anew, without waiting.
    pub(crate) fn ask_all(&mut self, now: Time) {
        for silent in self.ports.values_mut().filter(|silent| !silent.asked) {
            (silent.wait, silent.due) = (FIRST_WAIT, now);
        }
    }

    /// When the next one is to be asked.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let waiting = self.ports.values().filter(|silent| !silent.asked);
        waiting.map(|silent| silent.due).min().filter(|_| self.in_flight < MOST_AT_ONCE)
    }

    /// A port that is to be asked now.
    pub(crate) fn next(&mut self, now: Time) -> Option<PortId> {
        if self.in_flight >= MOST_AT_ONCE {
            return None;
        }
        let due = |silent: &Silent| !silent.asked && silent.due <= now;
        let (&end, silent) = self.ports.iter_mut().find(|(_, silent)| due(silent))?;
        silent.asked = true;
        self.in_flight += 1;
        Some(end)
    }

    /// The neighbour answered.
    pub(crate) fn broken(&mut self, end: PortId) {
        if self.ports.remove(&end).is_some_and(|silent| silent.asked) {
            self.in_flight -= 1;
        }
    }

    /// The neighbour did not answer, or could not be asked.
    pub(crate) fn lasts(&mut self, end: PortId, now: Time) {
        let Some(silent) = self.ports.get_mut(&end) else { return };
        if std::mem::take(&mut silent.asked) {
            self.in_flight -= 1;
        }
        silent.wait = (silent.wait * 2).min(LONGEST_WAIT);
        silent.due = now + silent.wait;
    }
}
