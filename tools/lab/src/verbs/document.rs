//! The results of the lab, in numbers and names.

use serde::Serialize;

/// The version of the JSON document.
pub(super) const SCHEMA_VERSION: u32 = 1;
/// A machine that is busier than this measures itself.
const MOST_BUSY: f64 = 0.5;
/// Of the messages that two flows are to send under SNIN, this share arrives while it is measured.
const IN_TIME: f64 = 0.9;

/// Everything.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Document {
    pub(super) schema_version: u32,
    /// The fabric as a recipe or file.
    pub fabric: String,
    /// Bit/s of every link.
    pub bandwidth: u64,
    /// Hosts, each a TAP and a device.
    pub hosts: usize,
    /// Routing trees, each an address of every host.
    pub trees: u16,
    /// SMPs that it took to bring the fabric up.
    pub smps: u64,
    /// What the hosts' agents did in all.
    pub agents: Agents,
    /// Every pair of hosts along every tree.
    pub crossings: Crossings,
    /// Permutations under SNIN, window by window.
    pub exclusive: Exclusive,
    /// A connection that the controller moved.
    pub rearrangement: Rearrangement,
    /// Two flows that want the same uplink.
    pub uplink: Uplink,
    /// How busy the machine was.
    pub busy: Vec<Busy>,
    /// What is not as it should be; empty when all is well.
    pub failures: Vec<String>,
}

/// What the hosts' agents did.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Default, Debug)]
pub struct Agents {
    /// Queue pairs that they exchanged among themselves.
    pub pairs: u64,
    /// Messages that arrived, by the word of the agents that sent them.
    pub messages: u64,
    /// Messages that applications took.
    pub taken: u64,
    /// Messages, or pieces of them, that came twice or never.
    pub irregular: u64,
    /// Changes of a flow from one tree to another.
    pub changes: u64,
    /// Leases of the controllers that were confirmed.
    pub leases: u64,
}

/// Flows between every pair of hosts along every tree.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Crossings {
    /// As many as there should be.
    pub flows: usize,
    /// As many crossed the root of their tree and no other spine.
    pub right: usize,
    /// Those that did not, in words.
    pub wrong: Vec<String>,
}

/// Windows under SNIN.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Exclusive {
    /// Permutations, one after the other.
    pub patterns: usize,
    /// Windows in which every connection of the permutation carried data.
    pub full: usize,
    /// The length of a window in nanoseconds.
    pub window_ns: u64,
    /// Every window.
    pub windows: Vec<Window>,
    /// Messages that were due.
    pub due: u64,
    /// Messages that arrived while it was measured.
    pub arrived: u64,
}

/// A window, as the links' counters saw it.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Window {
    /// Which permutation.
    pub pattern: usize,
    /// Connections that carried data.
    pub connections: usize,
    /// Links that carried more than one, in words.
    pub shared: Vec<String>,
    /// Flows that crossed a spine that is not their tree's root, in words.
    pub astray: Vec<String>,
}

/// A cable is taken out of service, and what used it goes elsewhere.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Rearrangement {
    /// The cable.
    pub cable: String,
    /// Connections whose spine changed.
    pub moved: Vec<Moved>,
    /// Windows after it.
    pub windows: usize,
}

/// A connection that was moved.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Moved {
    /// From which host.
    pub source: usize,
    /// To which.
    pub destination: usize,
    /// The spines that its frames crossed before.
    pub before: Vec<String>,
    /// And after.
    pub after: Vec<String>,
}

/// Two flows from one leaf, twice.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Uplink {
    /// What each offers, of a link.
    pub load: f64,
    /// Both on one tree.
    pub forced: Way,
    /// As the controller grants.
    pub snin: Way,
}

/// What became of the two flows.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Way {
    /// Links that both used, in words.
    pub shared: Vec<String>,
    /// Each flow.
    pub flows: Vec<Flow>,
    /// Payload that arrived, in bit/s, of both.
    pub goodput: f64,
    /// Messages that arrived while it was measured, of those that were due.
    pub in_time: f64,
    /// From when a message was due until its sender knew that it had arrived: half of them, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// All.
    pub max_ns: u64,
}

/// One flow.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Flow {
    /// From which host.
    pub source: usize,
    /// To which.
    pub destination: usize,
    /// Messages that were due.
    pub due: u64,
    /// Messages that arrived while it was measured.
    pub arrived: u64,
}

/// How busy the machine was.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Busy {
    /// During which part.
    pub during: &'static str,
    /// The share of all processors' time that was not idle.
    pub share: f64,
}

impl Document {
    /// Puts it together, and says what is not as it should be.
    pub(super) fn judged(mut self, broken: Vec<String>) -> Self {
        self.failures = broken;
        self.judge_agents();
        self.judge_paths();
        self.judge_uplink();
        for busy in self.busy.iter().filter(|busy| busy.share > MOST_BUSY) {
            self.failures.push(format!(
                "the machine was busy for {:.0} % of the time during {}, more than half: what was measured \
                 is the machine",
                busy.share * 100.0,
                busy.during
            ));
        }
        self
    }

    fn judge_agents(&mut self) {
        let Agents { messages, taken, irregular, .. } = self.agents;
        if taken != messages {
            self.failures.push(format!("of {messages} messages that arrived hosts took {taken}"));
        }
        if irregular > 0 {
            self.failures.push(format!("{irregular} messages came twice or never"));
        }
    }

    fn judge_paths(&mut self) {
        let Self { crossings, exclusive, rearrangement, failures, .. } = self;
        if crossings.right != crossings.flows {
            failures.push(format!(
                "{} of {} flows did not cross the root of their tree alone",
                crossings.flows - crossings.right,
                crossings.flows
            ));
        }
        let shared = exclusive.windows.iter().filter(|window| !window.shared.is_empty()).count();
        if shared > 0 {
            failures.push(format!("in {shared} windows a link carried two flows"));
        }
        let astray = exclusive.windows.iter().filter(|window| !window.astray.is_empty()).count();
        if astray > 0 {
            failures.push(format!("in {astray} windows a flow crossed a wrong spine"));
        }
        if 2 * exclusive.full < exclusive.windows.len() {
            failures.push(format!(
                "only in {} of {} windows every connection of the permutation carried data",
                exclusive.full,
                exclusive.windows.len()
            ));
        }
        let changed = |moved: &Moved| {
            moved.before.len() == 1 && moved.after.len() == 1 && moved.before != moved.after
        };
        if rearrangement.moved.is_empty() || !rearrangement.moved.iter().all(changed) {
            failures.push("a connection was not moved from one spine to another".to_owned());
        }
    }

    fn judge_uplink(&mut self) {
        let Uplink { forced, snin, .. } = &self.uplink;
        let mut wrong = |is: bool, text: &str| {
            if is {
                self.failures.push(text.to_owned());
            }
        };
        wrong(
            forced.shared.is_empty(),
            "two flows that were forced onto one uplink shared no link",
        );
        wrong(!snin.shared.is_empty(), "two flows under SNIN shared a link");
        wrong(forced.in_time > IN_TIME, "two flows on one uplink lost no throughput");
        wrong(snin.in_time < IN_TIME, "two flows under SNIN lost throughput");
        wrong(forced.p99_ns < 2 * snin.p99_ns, "two flows on one uplink had no longer tail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(shared: bool, in_time: f64, p99_ns: u64) -> Way {
        let shared = if shared { vec!["leaf1/3".to_owned()] } else { Vec::new() };
        Way { shared, flows: Vec::new(), goodput: 1e6, in_time, p50_ns: 1, p99_ns, max_ns: p99_ns }
    }

    fn document() -> Document {
        let spine = |n: usize| vec![format!("spine{n}")];
        let moved = Moved { source: 0, destination: 5, before: spine(1), after: spine(2) };
        Document {
            schema_version: SCHEMA_VERSION,
            fabric: "clos:4,4,2".to_owned(),
            bandwidth: 10_000_000,
            hosts: 8,
            trees: 4,
            smps: 1,
            agents: Agents { messages: 9, taken: 9, ..Agents::default() },
            crossings: Crossings { flows: 224, right: 224, wrong: Vec::new() },
            exclusive: Exclusive {
                patterns: 1,
                full: 1,
                window_ns: 1,
                windows: vec![Window {
                    pattern: 0,
                    connections: 8,
                    shared: Vec::new(),
                    astray: Vec::new(),
                }],
                due: 100,
                arrived: 99,
            },
            rearrangement: Rearrangement { cable: String::new(), moved: vec![moved], windows: 3 },
            uplink: Uplink {
                load: 0.8,
                forced: way(true, 0.6, 1_000_000),
                snin: way(false, 0.99, 20_000),
            },
            busy: vec![Busy { during: "permutations", share: 0.3 }],
            failures: Vec::new(),
        }
    }

    #[test]
    fn every_sentence_of_the_story_can_fail() {
        type Spoil = fn(&mut Document);
        assert_eq!(document().judged(Vec::new()).failures, Vec::<String>::new());
        let spoilt: [(&str, Spoil); 13] = [
            ("hosts took 8", |d| d.agents.taken -= 1),
            ("1 messages came twice", |d| d.agents.irregular = 1),
            ("did not cross", |d| d.crossings.right -= 1),
            ("a link carried two", |d| d.exclusive.windows[0].shared.push(String::new())),
            ("a wrong spine", |d| d.exclusive.windows[0].astray.push(String::new())),
            ("only in 0 of 1 windows", |d| d.exclusive.full = 0),
            ("was not moved", |d| d.rearrangement.moved.clear()),
            ("was not moved", |d| {
                let moved = &mut d.rearrangement.moved[0];
                moved.after.clone_from(&moved.before);
            }),
            ("shared no link", |d| d.uplink.forced.shared.clear()),
            ("under SNIN shared", |d| d.uplink.snin.shared.push(String::new())),
            ("lost no throughput", |d| d.uplink.forced.in_time = 0.95),
            ("no longer tail", |d| d.uplink.forced.p99_ns = 30_000),
            ("busy for 51 %", |d| d.busy[0].share = 0.51),
        ];
        for (text, spoil) in spoilt {
            let mut document = document();
            spoil(&mut document);
            let failures = document.judged(Vec::new()).failures;
            assert_eq!(failures.len(), 1, "{text}: {failures:?}");
            assert!(failures[0].contains(text), "{failures:?}");
        }
    }
}
