//! The results of the lab: as JSON, as a table, and as one HTML page with pictures.

mod chart;
mod document;
mod page;
pub mod reconfiguration;
pub mod svg;
#[cfg(feature = "verbs")]
pub mod verbs;

use std::collections::BTreeMap;

use snin_controller_core::plan::Plan;
use snin_emulator::data::Statistics;
use snin_fabric::Topology;
use snin_fabric::routing::Routing;
use snin_fabric::traffic::Demand;
use snin_lab::carry::Carried;
use snin_lab::traffic::Served;
use snin_protocol::Time;

pub use document::{Beside, Document, OrdinaryTraffic};
pub use page::html;

/// One way to carry the traffic, over all sampled windows.
pub struct Run {
    /// What tables and charts call it.
    pub name: &'static str,
    in_time: u64,
    possible: u64,
    /// Of each window that it carried; `None` where nothing was to be sent.
    goodput: BTreeMap<u32, Option<f64>>,
    /// Flows of which nothing was sent, since a node or a cable was gone.
    unsent: u64,
    /// Of all packets and messages; `None` before the first window.
    pub statistics: Option<Statistics>,
}

impl Run {
    /// A run that has carried nothing yet.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            in_time: 0,
            possible: 0,
            goodput: BTreeMap::new(),
            unsent: 0,
            statistics: None,
        }
    }

    /// Adds how much came in time in a window.
    pub fn count(&mut self, window: u32, in_time: u64, possible: u64) {
        self.in_time += in_time;
        self.possible += possible;
        let goodput = (possible > 0).then(|| in_time as f64 / possible as f64);
        self.goodput.insert(window, goodput);
    }

    /// Adds what was carried in a window.
    pub fn add(&mut self, window: u32, carried: &Carried) {
        self.count(window, carried.in_time, carried.possible);
        self.unsent += carried.unsent;
        let Some(all) = &mut self.statistics else {
            self.statistics = Some(carried.statistics.clone());
            return;
        };
        let more = &carried.statistics;
        let pairs = [
            (&mut all.queueing_ns, &more.queueing_ns),
            (&mut all.latency_ns, &more.latency_ns),
            (&mut all.slowdown_thousandths, &more.slowdown_thousandths),
        ];
        for (all, more) in pairs {
            // All histograms of a network are made with the same bounds.
            all.add(more).expect("histograms of the same bounds");
        }
    }

    fn goodput(&self) -> f64 {
        self.in_time as f64 / self.possible.max(1) as f64
    }

    fn unsent(&self) -> Option<u64> {
        Some(self.unsent).filter(|&flows| flows > 0)
    }

    fn windows(&self) -> usize {
        self.goodput.len()
    }
}

/// Results of the hosts without an agent.
#[derive(Clone, Copy, Default)]
pub struct Unasked {
    in_time: u64,
    possible: u64,
}

impl Unasked {
    /// Another window is over.
    pub const fn add(&mut self, window: &snin_lab::world::Carried) {
        self.in_time += window.in_time;
        self.possible += window.possible;
    }

    /// What arrived in time, of what could have been sent.
    pub fn goodput(self) -> f64 {
        self.in_time as f64 / self.possible.max(1) as f64
    }
}

/// What the pictures show of single windows.
#[derive(Default)]
pub struct Last {
    /// The last window: who sent to whom along which trees.
    pub window: u32,
    /// What was asked for in it.
    pub demands: Vec<Demand>,
    /// What was granted in it.
    pub plan: Plan,
    /// The last window that was carried in all ways.
    pub sampled: u32,
    /// By run and port; empty where nothing was sent.
    pub loads: [Vec<f64>; 3],
    /// Of which window that is, where it came from elsewhere.
    pub carried: [Option<u32>; 3],
}

/// What is said besides the document.
pub struct Facts {
    /// What the policy means, where there is something to say.
    pub policy: Option<String>,
    /// Packets that were dropped.
    pub lost: u64,
    /// The guard of every grant, and what of it is the longest path.
    pub guard: (Time, Time),
    /// Data packets seen on links.
    pub transmissions: u64,
    /// How often a link had two owners.
    pub clashes: u64,
    /// Control messages sent, and lost.
    pub control: (u64, u64),
}

/// How a report came about, so that it can be had again.
pub struct Made {
    /// The program's version.
    pub version: &'static str,
    /// When, as RFC 3339 has it.
    pub date: String,
    /// The fabric, as it was named.
    pub fabric: String,
    /// The traffic, as it was named.
    pub traffic: String,
    /// The seed.
    pub seed: u64,
}

/// Everything that the page shows.
pub struct Report<'a> {
    /// The words of the command line.
    pub command: Vec<String>,
    /// What a reader needs besides to have it again.
    pub made: Made,
    /// Nodes and cables.
    pub topology: &'a Topology,
    /// Trees and tables.
    pub routing: &'a Routing,
    /// The figures.
    pub document: &'a Document,
    /// What is said besides.
    pub facts: &'a Facts,
    /// The traffic, pattern by pattern.
    pub patterns: &'a [Served],
    /// Management datagrams by name.
    pub smps: &'a [(String, u64)],
    /// The three ways to carry the traffic.
    pub runs: &'a [Run; 3],
    /// What the pictures show.
    pub last: &'a Last,
}

/// Bring-up and windows, a line each.
pub fn facts(
    document: &Document,
    facts: &Facts,
    patterns: &[Served],
) -> Vec<(&'static str, String)> {
    let Document { topology, trees, lmc, bring_up, windows, .. } = document;
    let fabric = format!(
        "{} hosts, {} leaves x {} spines, {trees} trees, LMC {lmc}",
        topology.hosts, topology.leaves, topology.spines
    );
    let milliseconds = bring_up.virtual_ns as f64 / 1e6;
    let bring_up = format!(
        "{} SMPs, {} table blocks, {milliseconds:.3} ms virtual",
        bring_up.smps, bring_up.lft_blocks
    );
    let counts = format!(
        "{}: {} connections requested, {} granted, {} deferred, {} refused, {} moved, {} paused; at most \
         {} on a link",
        windows.count,
        windows.requested,
        windows.granted,
        windows.deferred,
        windows.refused,
        windows.moved,
        windows.paused,
        windows.max_link_load
    );
    let (guard, path) = facts.guard;
    let guard = format!("{guard}: {path} for the longest path, the rest for clocks");
    let (control, lost) = facts.control;
    let watched = match facts.clashes {
        0 => format!("{} transmissions, no link ever had two owners", facts.transmissions),
        clashes => {
            format!("{} transmissions, {clashes} times a link had TWO OWNERS", facts.transmissions)
        }
    };
    let dropped = match facts.lost {
        0 => None,
        packets => Some(("lost", format!("{packets} packets, on cables that were cut"))),
    };
    let unsent = document.traffic.runs().map(|(name, run)| (name, run.unsent.unwrap_or_default()));
    let unsent = unsent.iter().filter(|(_, flows)| *flows > 0);
    let unsent: Vec<String> = unsent.map(|(name, flows)| format!("{flows} of {name}")).collect();
    let unsent = (!unsent.is_empty()).then(|| {
        ("not sent", format!("{}: flows from or to a node that was gone", unsent.join(", ")))
    });
    let policy = facts.policy.clone().map(|policy| ("policy", policy));
    let ordinary = document.traffic.ordinary.iter().flat_map(|ordinary| {
        let told = |name: &str, beside: &Beside| {
            let Beside { granted_goodput, granted_wait_ns, ordinary_goodput } = *beside;
            format!(
                "{name}: granted goodput {granted_goodput:.3}, no packet of it waits longer than \
                 {granted_wait_ns} ns; ordinary goodput {ordinary_goodput:.3}"
            )
        };
        let OrdinaryTraffic { ports, windows, .. } = ordinary;
        let ports =
            format!("{ports} ports flood base addresses beside snin, for {windows} windows");
        let one = told("on one lane", &ordinary.one_lane);
        let own = told("with a lane of its own for what is granted", &ordinary.own_lane);
        [("ordinary", ports), ("", one), ("", own)]
    });
    let always = [
        ("fabric", fabric),
        ("bring-up", bring_up),
        ("windows", counts),
        (
            "patterns",
            if windows.granted == 0 { "none was served".to_owned() } else { served(patterns) },
        ),
        ("guard", guard),
        ("control", format!("{control} messages, {lost} of them lost")),
        ("watched", watched),
    ];
    always.into_iter().chain(dropped).chain(unsent).chain(policy).chain(ordinary).collect()
}

/// The words of a command line as it was given, quoted where a shell wants that.
pub fn command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    let quoted = |argument: String| match argument.chars().all(is_plain) && !argument.is_empty() {
        true => argument,
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    };
    std::iter::once("snin".to_owned()).chain(arguments.skip(1).map(quoted)).collect()
}

/// Whether patterns took as many windows as their degree.
fn served(patterns: &[Served]) -> String {
    let (done, open): (Vec<&Served>, Vec<&Served>) = patterns.iter().partition(|p| p.waiting == 0);
    let degree = patterns.iter().map(|pattern| pattern.degree).max().unwrap_or(0);
    let mut text = format!("{} of degree {degree}", patterns.len());
    let late = done.iter().filter(|pattern| !pattern.in_time()).count();
    let most = done.iter().map(|pattern| pattern.windows).max().unwrap_or(0);
    match (done.len(), late) {
        (0, _) => {}
        (done, 0) => text += &format!(", {done} done in as many windows"),
        (done, late) => text += &format!(", {done} done, {late} of them late: in {most} windows"),
    }
    if let Some(open) = open.first() {
        text += &format!("; {} connections wait after {} windows", open.waiting, open.windows);
    }
    text
}

/// The three runs side by side, a heading first.
pub fn table(document: &Document) -> Vec<[String; 4]> {
    let runs = document.traffic.runs();
    let row = |name: &str, cell: &dyn Fn(&document::Measured) -> String| {
        let [first, second, third] = runs.map(|(_, run)| cell(run));
        [name.to_owned(), first, second, third]
    };
    let [first, second, third] = runs.map(|(name, _)| name.to_owned());
    vec![
        [String::new(), first, second, third],
        row("windows", &|run| run.windows.to_string()),
        row("goodput", &|run| format!("{:.3}", run.goodput)),
        row("queueing p50", &|run| time(run.queueing_ns.p50)),
        row("queueing p99", &|run| time(run.queueing_ns.p99)),
        row("queueing max", &|run| time(run.queueing_ns.max)),
        row("latency p50", &|run| time(run.latency_ns.p50)),
        row("latency p99", &|run| time(run.latency_ns.p99)),
        row("latency max", &|run| time(run.latency_ns.max)),
        row("slowdown p50", &|run| format!("{:.2}", run.slowdown.p50)),
        row("slowdown p99", &|run| format!("{:.2}", run.slowdown.p99)),
        row("slowdown max", &|run| format!("{:.2}", run.slowdown.max)),
    ]
}

/// Nanoseconds in a unit that a person reads.
fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.2} us", nanoseconds as f64 / 1e3),
        _ => format!("{:.2} ms", nanoseconds as f64 / 1e6),
    }
}
