//! What `snin lab --json` writes.

use serde::Serialize;
use snin::lab::subnet::Cost;
use snin::lab::traffic::Tally;
use snin::lab::world::Totals;
use snin_emulator::data::Statistics;
use snin_fabric::Topology;
use snin_fabric::clos::Clos;
use snin_fabric::routing::Routing;

use super::{Run, Unasked};
use crate::document::SCHEMA_VERSION;

/// The document.
#[derive(Serialize)]
pub(crate) struct Document {
    schema_version: u32,
    pub(crate) topology: Shape,
    pub(crate) trees: usize,
    pub(crate) lmc: u8,
    pub(crate) bring_up: BringUp,
    pub(crate) windows: Counts,
    pub(crate) traffic: Traffic,
}

/// The fabric in numbers.
#[derive(Serialize)]
pub(crate) struct Shape {
    pub(crate) hosts: usize,
    pub(crate) switches: usize,
    pub(crate) leaves: usize,
    pub(crate) spines: usize,
    pub(crate) planes: usize,
}

/// What it took to bring it up.
#[derive(Serialize)]
pub(crate) struct BringUp {
    pub(crate) smps: u64,
    pub(crate) lft_blocks: u64,
    pub(crate) virtual_ns: u64,
}

/// All windows.
#[derive(Serialize)]
pub(crate) struct Counts {
    pub(crate) count: usize,
    pub(crate) requested: usize,
    pub(crate) granted: usize,
    pub(crate) deferred: u64,
    pub(crate) refused: usize,
    pub(crate) moved: u64,
    pub(crate) paused: u64,
    pub(crate) max_link_load: u32,
}

/// The same traffic, three times.
#[derive(Serialize)]
pub(crate) struct Traffic {
    r#static: Measured,
    ecmp: Measured,
    snin: Measured,
    /// Beside snin, where hosts have no agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    unmanaged: Option<Unmanaged>,
}

/// What came of those who asked nobody.
#[derive(Serialize)]
pub(crate) struct Unmanaged {
    pub(crate) goodput: f64,
}

impl Traffic {
    /// The runs with their names, as tables and charts show them.
    pub(crate) fn runs(&self) -> [(&'static str, &Measured); 3] {
        [("static", &self.r#static), ("ecmp", &self.ecmp), ("snin", &self.snin)]
    }
}

/// One way to carry it.
#[derive(Serialize)]
pub(crate) struct Measured {
    /// How many windows it carried.
    pub(crate) windows: usize,
    pub(crate) goodput: f64,
    pub(crate) queueing_ns: Tail,
    pub(crate) latency_ns: Tail,
    pub(crate) slowdown: Slowdown,
}

/// Of packets, in nanoseconds.
#[derive(Serialize)]
pub(crate) struct Tail {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

/// Of messages, against an idle fabric.
#[derive(Serialize)]
pub(crate) struct Slowdown {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
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
            queueing_ns: Tail { p50: 0, p99: 0, p999: 0, max: 0 },
            latency_ns: Tail { p50: 0, p99: 0, p999: 0, max: 0 },
            slowdown: Slowdown { p50: 0.0, p99: 0.0, max: 0.0 },
        }
    }
}

impl Document {
    /// The results in numbers.
    pub(crate) fn new(
        topology: &Topology,
        clos: Option<&Clos>,
        routing: &Routing,
        bring_up: Cost,
        (count, tally, totals): (usize, Tally, Totals),
        ([by_static, ecmp, snin], unasked): (&[Run; 3], Option<Unasked>),
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
            },
        }
    }
}
