//! The document that `snin lab --json` writes.

use serde::Serialize;
use snin_emulator::data::Statistics;
use snin_fabric::Topology;
use snin_fabric::clos::Clos;
use snin_fabric::routing::Routing;
use snin_lab::subnet::Cost;
use snin_lab::traffic::Tally;
use snin_lab::world::Totals;

use super::{Run, Unasked};

/// Rises when a key changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// The document.
#[derive(Serialize)]
pub struct Document {
    schema_version: u32,
    /// The fabric in numbers.
    pub topology: Shape,
    /// Routing trees.
    pub trees: usize,
    /// 2^lmc addresses a host port.
    pub lmc: u8,
    /// What bringing it up took.
    pub bring_up: BringUp,
    /// All windows, added up.
    pub windows: Counts,
    /// The same traffic, carried in three ways.
    pub traffic: Traffic,
}

/// The fabric in numbers.
#[derive(Serialize)]
pub struct Shape {
    /// Host ports.
    pub hosts: usize,
    /// Switches.
    pub switches: usize,
    /// Switches with hosts.
    pub leaves: usize,
    /// Roots of routing trees.
    pub spines: usize,
    /// The most parallel cables of a leaf and a spine.
    pub planes: usize,
}

/// What it took to bring it up.
#[derive(Serialize)]
pub struct BringUp {
    /// Management datagrams sent.
    pub smps: u64,
    /// Blocks of forwarding tables written.
    pub lft_blocks: u64,
    /// Nanoseconds of virtual time.
    pub virtual_ns: u64,
}

/// All windows.
#[derive(Serialize)]
pub struct Counts {
    /// How many windows.
    pub count: usize,
    /// Connections asked for.
    pub requested: usize,
    /// Connections granted.
    pub granted: usize,
    /// Connections that had to wait, once a window.
    pub deferred: u64,
    /// Connections refused.
    pub refused: usize,
    /// Connections that changed their tree while in service.
    pub moved: u64,
    /// Connections that paused for others to change theirs.
    pub paused: u64,
    /// The most owners of one directed link.
    pub max_link_load: u32,
}

/// The same traffic, three times.
#[derive(Serialize)]
pub struct Traffic {
    r#static: Measured,
    ecmp: Measured,
    snin: Measured,
    /// Beside snin, where hosts have no agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    unmanaged: Option<Unmanaged>,
    /// Beside snin, where hosts flood base addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinary: Option<OrdinaryTraffic>,
}

/// Granted traffic beside that of hosts that flood base addresses.
#[derive(Clone, Copy, Serialize)]
pub struct OrdinaryTraffic {
    /// How many flood.
    pub ports: usize,
    /// For how many windows.
    pub windows: u32,
    /// With one lane for both.
    pub one_lane: Beside,
    /// With a lane of what is granted's own.
    pub own_lane: Beside,
}

/// What came of both.
#[derive(Clone, Copy, Serialize)]
pub struct Beside {
    /// What arrived in time of what was granted, of what could have been sent.
    pub granted_goodput: f64,
    /// The longest wait of a granted packet inside the fabric.
    pub granted_wait_ns: u64,
    /// What arrived in time of what was sent to base addresses, of what could have been sent.
    pub ordinary_goodput: f64,
}

impl Beside {
    /// Of a run that was carried beside them.
    pub fn of(run: &Run, unasked: Unasked) -> Self {
        let measured = Measured::of(run);
        Self {
            granted_goodput: measured.goodput,
            granted_wait_ns: measured.queueing_ns.max,
            ordinary_goodput: unasked.goodput(),
        }
    }
}

/// Results of the hosts without an agent.
#[derive(Serialize)]
struct Unmanaged {
    /// What arrived in time, of what could have been sent.
    goodput: f64,
}

impl Traffic {
    /// The runs with their names, as tables and charts show them.
    pub fn runs(&self) -> [(&'static str, &Measured); 3] {
        [("static", &self.r#static), ("ecmp", &self.ecmp), ("snin", &self.snin)]
    }
}

/// One way to carry it.
#[derive(Serialize)]
pub struct Measured {
    /// How many windows it carried.
    pub windows: usize,
    /// What arrived in time, of what could have been sent.
    pub goodput: f64,
    /// Flows of which nothing was sent, since a node or a cable was gone: they count as not arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// Waits of packets inside the fabric.
    pub queueing_ns: Tail,
    /// From the first byte sent to the last one received.
    pub latency_ns: Tail,
    /// Times of messages, of those on an idle fabric.
    pub slowdown: Slowdown,
}

/// Of packets, in nanoseconds.
#[derive(Serialize)]
pub struct Tail {
    /// The median.
    pub p50: u64,
    /// 99 in 100 are at most this.
    pub p99: u64,
    /// 999 in 1000 are at most this.
    pub p999: u64,
    /// The greatest.
    pub max: u64,
}

/// Of messages, against an idle fabric.
#[derive(Serialize)]
pub struct Slowdown {
    /// The median.
    pub p50: f64,
    /// 99 in 100 are at most this.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

/// Quantiles of a histogram; the type's own name is that of another crate.
macro_rules! tail {
    ($histogram:expr) => {{
        let max = $histogram.max();
        // A quantile is the end of its bucket, which may lie beyond the greatest value.
        let at = |quantile| $histogram.value_at_quantile(quantile).min(max);
        Tail { p50: at(0.5), p99: at(0.99), p999: at(0.999), max }
    }};
}

impl Measured {
    fn of(run: &Run) -> Self {
        let Some(Statistics { queueing_ns, latency_ns, slowdown_thousandths, .. }) =
            &run.statistics
        else {
            return Self::nothing(run);
        };
        let slowdown = tail!(slowdown_thousandths);
        let times = |thousandths| thousandths as f64 / 1e3;
        Self {
            windows: run.windows(),
            goodput: run.goodput(),
            unsent: run.unsent(),
            queueing_ns: tail!(queueing_ns),
            latency_ns: tail!(latency_ns),
            slowdown: Slowdown {
                p50: times(slowdown.p50),
                p99: times(slowdown.p99),
                max: times(slowdown.max),
            },
        }
    }

    /// Where nothing was granted, nothing was sent.
    fn nothing(run: &Run) -> Self {
        Self {
            windows: run.windows(),
            goodput: 0.0,
            unsent: run.unsent(),
            queueing_ns: Tail { p50: 0, p99: 0, p999: 0, max: 0 },
            latency_ns: Tail { p50: 0, p99: 0, p999: 0, max: 0 },
            slowdown: Slowdown { p50: 0.0, p99: 0.0, max: 0.0 },
        }
    }
}

impl Document {
    /// The results in numbers.
    pub fn new(
        topology: &Topology,
        clos: Option<&Clos>,
        routing: &Routing,
        bring_up: Cost,
        (count, tally, totals): (usize, Tally, Totals),
        ([by_static, ecmp, snin], unasked, ordinary): (
            &[Run; 3],
            Option<Unasked>,
            Option<OrdinaryTraffic>,
        ),
    ) -> Self {
        let Tally { requested, granted, refused } = tally;
        let Totals { deferred, moved, paused, max_link_load, .. } = totals;
        Self {
            schema_version: SCHEMA_VERSION,
            topology: Shape {
                hosts: routing.hosts.len(),
                switches: topology.switch_count(),
                leaves: clos.map_or(0, |clos| clos.leaves.len()),
                spines: clos.map_or(0, |clos| clos.roots.len()),
                planes: clos.map_or(0, |clos| clos.leaf_planes),
            },
            trees: routing.forest.len(),
            lmc: routing.plan.lmc().bits(),
            bring_up: BringUp {
                smps: bring_up.smps,
                lft_blocks: bring_up.blocks,
                virtual_ns: bring_up.time.nanos(),
            },
            windows: Counts {
                count,
                requested,
                granted,
                deferred,
                refused,
                moved,
                paused,
                max_link_load,
            },
            traffic: Traffic {
                r#static: Measured::of(by_static),
                ecmp: Measured::of(ecmp),
                snin: Measured::of(snin),
                unmanaged: unasked.map(|unasked| Unmanaged { goodput: unasked.goodput() }),
                ordinary,
            },
        }
    }
}
