//! Bounds of non-interference: how long a packet may wait behind others inside the fabric.

use std::fmt;
use std::str::FromStr;

use snin_controller_core::config::{Bound, Statistic};
use snin_emulator::data::{Statistics, Wait};
use snin_fabric::{PortIndex, Topology};
use snin_protocol::Time;

use super::event::time;

/// `max=2us`, `p99=500ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Which of the waits are meant.
    pub statistic: Statistic,
    /// The longest.
    pub most: Time,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}`: expected max=TIME or p99=TIME, such as max=2us");
        let (name, limit) = text.split_once('=').ok_or_else(form)?;
        let statistic = match name.trim() {
            "max" => Statistic::Max,
            "p99" => Statistic::P99,
            _ => return Err(form()),
        };
        Ok(Self { statistic, most: time(limit)? })
    }
}

impl From<Limit> for Bound {
    /// For every class.
    fn from(Limit { statistic, most }: Limit) -> Self {
        Self { class: None, statistic, limit: most }
    }
}

/// The wait with which a bound was first broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Which bound.
    pub limit: Limit,
    /// How long waits are.
    pub found: Time,
    /// The flow.
    pub flow: u32,
    /// The port whose link it waited for.
    pub link: PortIndex,
    /// When.
    pub at: Time,
}

/// Judges waits as they happen.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// With the first wait that is longer.
    limits: Vec<(Limit, Option<Wait>)>,
}

impl Judge {
    /// For these limits.
    pub fn new(limits: &[Limit]) -> Self {
        Self { limits: limits.iter().map(|&limit| (limit, None)).collect() }
    }

    /// A packet waited.
    pub fn waited(&mut self, wait: &Wait) {
        for (limit, first) in &mut self.limits {
            if first.is_none() && wait.altogether > limit.most {
                *first = Some(*wait);
            }
        }
    }

    /// The bounds that were broken: `max` by any packet, `p99` by more than one in a hundred.
    pub fn broken(&self, statistics: &Statistics) -> Vec<Broken> {
        let queueing = &statistics.queueing_ns;
        let broken = |&(limit, first): &(Limit, Option<Wait>)| {
            let found = Time(match limit.statistic {
                Statistic::Max => queueing.max(),
                Statistic::P99 => queueing.value_at_quantile(0.99).min(queueing.max()),
            });
            let Wait { flow, port: link, at, .. } = first.filter(|_| found > limit.most)?;
            Some(Broken { limit, found, flow, link, at })
        };
        self.limits.iter().filter_map(broken).collect()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.statistic {
            Statistic::Max => "max",
            Statistic::P99 => "p99",
        };
        write!(f, "{name}={}", self.most)
    }
}

impl Broken {
    /// With the names of flow and link.
    pub fn named<'a>(&'a self, topology: &'a Topology, flow: &'a str) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let Self { limit, found, link, at, .. } = self;
            let link = topology.port_name(*link);
            write!(
                f,
                "the bound {limit} is broken: {found}; first by flow {flow} at link {link}, {at} after the \
                 fabric was switched on"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_emulator::data::MessageId;

    #[test]
    fn limits_are_written_as_statistic_and_time() {
        let limit = |text: &str| text.parse::<Limit>();
        assert_eq!(limit("max=2us").unwrap().to_string(), "max=2us");
        let p99 = Limit { statistic: Statistic::P99, most: Time(500) };
        assert_eq!(limit("p99=500ns"), Ok(p99));
        for bad in ["max", "p98=1us", "max=2", "=2us"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_wait_that_is_too_long_is_kept() {
        let mut judge = Judge::new(&["max=100ns".parse().unwrap()]);
        for (flow, altogether) in [(1, 100), (2, 101), (3, 900)] {
            let (here, altogether) = (Time(1), Time(altogether));
            let (port, message) = (PortIndex(flow), MessageId(flow));
            judge.waited(&Wait { port, vl: 0, message, flow, here, altogether, at: Time(7) });
        }
        let first = judge.limits[0].1.unwrap();
        assert_eq!((first.flow, first.altogether), (2, Time(101)));
    }
}
