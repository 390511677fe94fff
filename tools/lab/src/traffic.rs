//! The applications' demands: pattern after pattern, and their outcomes.

use snin_fabric::traffic::Demand;

use super::host::Outcome;

/// Counted over all windows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Connections that patterns asked for.
    pub requested: usize,
    /// Of those, the ones that have sent.
    pub granted: usize,
    /// Of those, the ones that the controller refused.
    pub refused: usize,
}

/// How a pattern was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// The most connections of a host in one direction, times the windows that each wants: no fewer windows
    /// can do.
    pub degree: usize,
    /// Windows that it took so far.
    pub windows: usize,
    /// Connections that still wait.
    pub waiting: usize,
}

impl Served {
    /// All done, and no window more than needed.
    pub const fn in_time(&self) -> bool {
        self.waiting == 0 && self.windows <= self.degree
    }
}

/// A connection of any pattern.
#[derive(Clone, Copy, Debug)]
struct Connection {
    demand: Demand,
    began: bool,
    over: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Traffic {
    hosts: usize,
    /// Windows for which a connection sends.
    hold: u32,
    /// All of them; the last pattern's are at the end.
    connections: Vec<Connection>,
    /// Where those of the last pattern begin.
    last_first: usize,
    patterns: Vec<Served>,
    tally: Tally,
}

impl Traffic {
    /// Nothing is asked for yet.
    pub fn new(hosts: usize, hold: u32) -> Self {
        let (connections, patterns) = (Vec::new(), Vec::new());
        Self { hosts, hold, connections, last_first: 0, patterns, tally: Tally::default() }
    }

    /// Whether all that was asked for is over.
    pub fn is_over(&self) -> bool {
        self.patterns.last().is_none_or(|pattern| pattern.waiting == 0)
    }

    /// Another pattern is asked for; the number of its first connection.
    pub fn ask(&mut self, demands: &[Demand]) -> u32 {
        let first = self.connections.len() as u32;
        self.last_first = self.connections.len();
        let connection = |&demand| Connection { demand, began: false, over: false };
        self.connections.extend(demands.iter().map(connection));
        self.tally.requested += demands.len();
        let degree = degree(demands, self.hosts) * self.hold as usize;
        self.patterns.push(Served { degree, windows: 0, waiting: demands.len() });
        first
    }

    /// A window is over.
    pub fn count_window(&mut self) {
        if let Some(pattern) = self.patterns.last_mut() {
            pattern.windows += 1;
        }
    }

    /// Something became of a connection of the pattern asked for last.
    pub fn note(&mut self, connection: u32, outcome: Outcome) {
        let Some(known) = self.connections.get_mut(connection as usize) else { return };
        match outcome {
            Outcome::Began => {
                self.tally.granted += usize::from(!std::mem::replace(&mut known.began, true));
            }
            Outcome::Done | Outcome::Refused if known.over => {}
            Outcome::Done | Outcome::Refused => {
                known.over = true;
                self.tally.refused += usize::from(outcome == Outcome::Refused);
                if let Some(pattern) = self.patterns.last_mut() {
                    pattern.waiting -= 1;
                }
            }
        }
    }

    /// What of the last pattern is not over.
    pub fn open(&self) -> impl Iterator<Item = Demand> {
        let of_last = self.connections[self.last_first..].iter();
        of_last.filter(|known| !known.over).map(|known| known.demand)
    }

    /// The hosts that a connection joins.
    pub fn demand(&self, connection: u32) -> Option<Demand> {
        self.connections.get(connection as usize).map(|known| known.demand)
    }

    /// Counted so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Every pattern asked for so far.
    pub fn patterns(&self) -> &[Served] {
        &self.patterns
    }
}

/// The most demands that a host has in one direction.
pub fn degree(demands: &[Demand], hosts: usize) -> usize {
    let (mut out, mut into) = (vec![0; hosts], vec![0; hosts]);
    for demand in demands {
        out[demand.source.index()] += 1;
        into[demand.destination.index()] += 1;
    }
    out.into_iter().chain(into).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_degree_is_of_the_busiest_host_in_either_direction() {
        let demands = [Demand::new(0, 1), Demand::new(2, 1), Demand::new(3, 1), Demand::new(0, 2)];
        assert_eq!(degree(&demands, 4), 3);
        assert_eq!(degree(&[], 4), 0);
    }

    #[test]
    fn a_connection_counts_once_whatever_is_said_of_it() {
        let mut traffic = Traffic::new(4, 2);
        assert!(traffic.is_over());
        assert_eq!(traffic.ask(&[Demand::new(0, 1), Demand::new(2, 1)]), 0);
        for outcome in [Outcome::Began, Outcome::Began, Outcome::Done, Outcome::Done] {
            traffic.note(0, outcome);
        }
        traffic.count_window();
        assert_eq!(traffic.patterns(), [Served { degree: 4, windows: 1, waiting: 1 }]);
        traffic.note(1, Outcome::Refused);
        assert!(traffic.is_over());
        assert_eq!(traffic.tally(), Tally { requested: 2, granted: 1, refused: 1 });
    }
}
