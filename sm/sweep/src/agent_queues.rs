//! How many SMPs one agent has before it: one that is slow must not fill the window, nor be asked so much at
//! once that it cannot answer in time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::query::{NodeId, Query};

/// How many queries are in flight to each agent, and the queries that wait for their turn.
#[derive(Debug)]
pub(crate) struct AgentQueues {
    most: u32,
    in_flight: BTreeMap<NodeId, u32>,
    waiting: BTreeMap<NodeId, VecDeque<Query>>,
    /// Agents that have room for one that waits.
    free: BTreeSet<NodeId>,
}

impl AgentQueues {
    /// At most so many to one agent.
    pub(crate) const fn new(most: u32) -> Self {
        Self { most, in_flight: BTreeMap::new(), waiting: BTreeMap::new(), free: BTreeSet::new() }
    }

    fn has_room(&self, agent: NodeId) -> bool {
        self.in_flight.get(&agent).is_none_or(|&count| count < self.most)
    }

    /// Whether it may be sent now; if not, it is kept until [`Self::next`] gives it.
    pub(crate) fn admit(&mut self, agent: Option<NodeId>, query: Query) -> bool {
        let Some(agent) = agent.filter(|&agent| !self.has_room(agent)) else { return true };
        self.waiting.entry(agent).or_default().push_back(query);
        false
    }

    /// A query that waited and may be sent now.
    pub(crate) fn next(&mut self) -> Option<Query> {
        let agent = *self.free.first()?;
        let waiting = self.waiting.get_mut(&agent)?;
        let query = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&agent);
            self.free.remove(&agent);
        }
        query
    }

    /// What waits for one agent, which it does no more.
    pub(crate) fn take(&mut self, agent: NodeId) -> Vec<Query> {
        self.free.remove(&agent);
        self.waiting.remove(&agent).map_or_else(Vec::new, Into::into)
    }

    /// Nothing is under way, and nothing waits.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.most);
    }

    /// Everything that waits, which it does no more.
    pub(crate) fn clear(&mut self) -> Vec<Query> {
        self.free.clear();
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }

    /// One more is under way to the agent.
    pub(crate) fn sent(&mut self, agent: Option<NodeId>) {
        let Some(agent) = agent else { return };
        *self.in_flight.entry(agent).or_insert(0) += 1;
        if !self.has_room(agent) {
            self.free.remove(&agent);
        }
    }

    /// One was answered or given up.
    pub(crate) fn finished(&mut self, agent: Option<NodeId>) {
        let Some(agent) = agent else { return };
        if let Some(count) = self.in_flight.get_mut(&agent) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(&agent);
            }
        }
        if self.waiting.contains_key(&agent) {
            self.free.insert(agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_one_agent_waits_and_the_others_go_on() {
        let mut agent_queues = AgentQueues::new(2);
        let (slow, quick) = (NodeId(1), NodeId(2));
        let block = |agent, number| Query::ReadBlock(agent, number);
        let send = |agent_queues: &mut AgentQueues, query: Query| {
            let admitted = agent_queues.admit(query.agent(), query);
            if admitted {
                agent_queues.sent(query.agent());
            }
            admitted
        };
        assert_eq!(
            [0, 1, 2, 3].map(|n| send(&mut agent_queues, block(slow, n))),
            [true, true, false, false]
        );
        assert!(send(&mut agent_queues, block(quick, 0)));
        assert_eq!(agent_queues.next(), None);
        agent_queues.finished(Some(slow));
        let next = agent_queues.next().unwrap();
        assert_eq!(next, block(slow, 2));
        assert!(send(&mut agent_queues, next));
        assert_eq!(agent_queues.next(), None);
        assert_eq!(agent_queues.clear(), [block(slow, 3)]);
        agent_queues.finished(Some(slow));
        assert_eq!(agent_queues.next(), None);
    }
}
