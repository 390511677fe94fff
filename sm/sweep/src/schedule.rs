//! The writes that are left, and which of them waits for which.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use snin_fabric::lft::BLOCK;
use snin_fabric::{Lid, Lmc, PortNum};

use crate::graph::Graph;
use crate::mft_shadow::MaskBlock;
use crate::query::{NodeId, PortId};
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::partitions;
use snin_sm_database::qos_table::QosTableId;

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// PortInfo.
    Port(PortId, PortWrite),
    /// A block of a partition table.
    Keys(PortId, u16, Box<partitions::Block>),
    /// A table of service levels or lanes.
    QosTable(PortId, QosTableId),
    /// A block of a forwarding table, as the target has it.
    Block(NodeId, u16),
    /// A block with some entries dropped.
    Dropping(NodeId, u16, Box<[u8; BLOCK]>),
    /// LinearFDBTop.
    Top(NodeId, Lid),
    /// A block of a multicast forwarding table, 16 ports wide.
    Masks(NodeId, Box<MaskBlock>),
    /// MulticastFDBTop.
    MulticastTop(NodeId, Lid),
    /// No write: what waits for it waits for everything it waits for, done or given up.
    Milestone,
    /// The same, but what waits for it is given up where anything that it waits for was not done.
    Barrier,
}

/// What of a PortInfo is written; all else stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PortWrite {
    /// Addresses, and with them all that an end port is told of its manager.
    pub(crate) address: Option<(Lid, Lmc)>,
    pub(crate) state: Option<Raise>,
    /// The port's host is to register again what it told its manager.
    pub(crate) reregister: bool,
    /// Whether a switch checks the partitions of what comes in, and of what goes out.
    pub(crate) checks: Option<(bool, bool)>,
}

/// A step up of a port's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raise {
    ToArmed,
    ToActive,
}

impl Step {
    /// The one port that is written to, if it is one.
    pub(crate) const fn end(&self) -> Option<PortId> {
        match self {
            Self::Port(end, _) | Self::Keys(end, ..) | Self::QosTable(end, _) => Some(*end),
            _ => None,
        }
    }

    /// The port whose trouble it is when the step fails: port 0 for a switch's tables.
    pub(crate) fn owner(&self) -> Option<PortId> {
        self.end().or_else(|| Some((self.node()?, PortNum::ZERO)))
    }

    /// Whether routes of others lead over what the step writes.
    pub(crate) fn carries_others(&self, graph: &Graph) -> bool {
        match self {
            Self::Port(end, _) => graph.is_trunk(*end),
            Self::Block(..) | Self::Dropping(..) | Self::Top(..) => true,
            Self::Masks(..) | Self::MulticastTop(..) => true,
            Self::Keys(..) | Self::QosTable(..) | Self::Milestone | Self::Barrier => false,
        }
    }

    /// Whether nothing more is written when the step fails: every table waits for a milestone after it, not
    /// for the step itself.
    pub(crate) const fn stops_all(&self) -> bool {
        matches!(self, Self::Port(..) | Self::Dropping(..))
    }

    /// The way there.
    pub(crate) fn path(&self, graph: &Graph) -> Option<DirectedRoute> {
        match self.end() {
            Some(end) => graph.path_to(end),
            None => graph.node(self.node()?).path,
        }
    }

    /// Whose agent gets it.
    pub(crate) const fn node(&self) -> Option<NodeId> {
        match self {
            Self::Port((node, _), _) | Self::Keys((node, _), ..) | Self::QosTable((node, _), _) => {
                Some(*node)
            }
            Self::Block(node, _) | Self::Dropping(node, ..) | Self::Top(node, _) => Some(*node),
            Self::Masks(node, _) | Self::MulticastTop(node, _) => Some(*node),
            Self::Milestone | Self::Barrier => None,
        }
    }
}

/// A number of a step.
pub(crate) type StepId = u32;

/// Steps, in the order in which they go out as far as nothing holds them up.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    steps: Vec<Step>,
    /// Before [`Self::begin`]: the pairs. After: who follows, by step.
    pairs: Vec<(StepId, StepId)>,
    from: Vec<u32>,
    waits: Vec<u32>,
    abandoned: Vec<bool>,
    ready: BinaryHeap<Reverse<StepId>>,
    /// Steps that are neither done nor abandoned.
    left: usize,
    stopped: bool,
    in_flight: usize,
}

impl Schedule {
    pub(crate) fn add(&mut self, step: Step) -> StepId {
        self.steps.push(step);
        (self.steps.len() - 1) as StepId
    }

    /// `then` waits for `first`.
    pub(crate) fn wait(&mut self, first: StepId, then: StepId) {
        self.pairs.push((first, then));
    }

    pub(crate) fn step(&self, id: StepId) -> Option<&Step> {
        self.steps.get(id as usize)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Counts who waits for whom; nothing can be added any more.
    pub(crate) fn begin(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        self.waits = vec![0; self.steps.len()];
        self.from = vec![0; self.steps.len() + 1];
        self.abandoned = vec![false; self.steps.len()];
        for &(first, then) in &self.pairs {
            self.waits[then as usize] += 1;
            self.from[first as usize + 1] += 1;
        }
        (0..self.steps.len()).for_each(|n| self.from[n + 1] += self.from[n]);
        let free = |&n: &StepId| self.waits[n as usize] == 0;
        self.ready = (0..self.steps.len() as StepId).filter(free).map(Reverse).collect();
        self.left = self.steps.len();
    }

    /// The next step to be sent.
    pub(crate) fn next(&mut self) -> Option<StepId> {
        while let Some(Reverse(id)) = self.ready.pop() {
            if self.stopped {
                self.left -= 1;
            } else if matches!(self.steps[id as usize], Step::Milestone | Step::Barrier) {
                self.follow(id, true);
            } else {
                self.in_flight += 1;
                return Some(id);
            }
        }
        None
    }

    /// A step that was sent was answered, or never will be.
    pub(crate) fn finish(&mut self, id: StepId, done: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.follow(id, done);
    }

    /// Nothing more is sent.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Nothing in flight, and nothing to come.
    pub(crate) fn is_done(&self) -> bool {
        self.in_flight == 0 && (self.stopped || self.left == 0)
    }

    /// What waits for a step that failed is given up too, milestones excepted.
    fn follow(&mut self, id: StepId, done: bool) {
        let mut finished = vec![(id, done)];
        while let Some((id, done)) = finished.pop() {
            self.left -= 1;
            let range = self.from[id as usize] as usize..self.from[id as usize + 1] as usize;
            for n in range {
                let then = self.pairs[n].1;
                let milestone = self.steps[then as usize] == Step::Milestone;
                self.abandoned[then as usize] |= !done && !milestone;
                self.waits[then as usize] -= 1;
                if self.waits[then as usize] == 0 {
                    match self.abandoned[then as usize] {
                        true => finished.push((then, false)),
                        false => self.ready.push(Reverse(then)),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(n: u16) -> Step {
        Step::Block(NodeId(0), n)
    }

    #[test]
    fn steps_wait_and_failures_spread_up_to_milestones() {
        let mut schedule = Schedule::default();
        let [a, b, c] = [0, 1, 2].map(|n| schedule.add(block(n)));
        let milestone = schedule.add(Step::Milestone);
        let last = schedule.add(block(3));
        schedule.wait(a, b);
        schedule.wait(b, c);
        [a, b, c].into_iter().for_each(|n| schedule.wait(n, milestone));
        schedule.wait(milestone, last);
        schedule.begin();
        assert_eq!((schedule.next(), schedule.next()), (Some(a), None));
        schedule.finish(a, false);
        assert_eq!(schedule.next(), Some(last), "b and c are given up");
        assert!(!schedule.is_done());
        schedule.finish(last, true);
        assert!(schedule.is_done());
    }

    #[test]
    fn a_stopped_schedule_waits_for_what_is_in_flight() {
        let mut schedule = Schedule::default();
        let [a, b] = [0, 1].map(|n| schedule.add(block(n)));
        schedule.wait(a, b);
        schedule.begin();
        assert_eq!(schedule.next(), Some(a));
        schedule.stop();
        assert!(!schedule.is_done());
        schedule.finish(a, true);
        assert_eq!(schedule.next(), None);
        assert!(schedule.is_done());
    }
}
