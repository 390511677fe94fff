//! What an agent is asked, and what it answers. A process that stands for the hosts of a software fabric has the
//! same interface for all of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use snin_fabric::Guid;

use super::{Certificate, Events, Operation, operations};

operations! {
    /// Every request to an agent.
    Request of "snin-agent" {
        GetStatus "status" -> Status,
        GetFlows "flows" -> Flows,
        GetMesh "mesh" -> Mesh,
        GetHistogram "histogram" -> Histogram,
        GetEvents "events" -> Events,
        Send "send" -> Started,
        SendAll "send_all" -> SentAll,
        GetTransfers "transfers" -> Transfers,
        GetJobs "jobs" -> Jobs,
        BeginJob "job_begin" -> JobBegun,
    }
}

/// Which ports it serves, whether it hears its controller, counters.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetStatus {}

/// The answer to [`GetStatus`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The port; of several hosts the first one's.
    #[schemars(with = "Option<String>")]
    pub guid: Option<Guid>,
    /// Where other agents call.
    pub listen: String,
    /// What is known of the controller: `none`, `heard` or `lost`.
    pub controller: String,
    /// Open flows.
    pub flows: usize,
    /// Queue pairs to send on.
    pub pairs: usize,
    /// What came, by peer.
    pub received: Vec<Received>,
    /// Connections to the sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Clients>,
    /// A certificate that has ended, or ends within a month.
    pub certificate: Option<Certificate>,
    /// What the mesh has counted, by name.
    pub counters: BTreeMap<String, u64>,
    /// What was counted elsewhere, by name.
    #[serde(default)]
    pub io_counters: BTreeMap<String, u64>,
    /// Of a process that stands for several hosts of a software fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
}

/// What came from a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Received {
    /// The peer's port; none: peers that were not heard for long.
    #[schemars(with = "Option<String>")]
    pub peer: Option<Guid>,
    /// Messages.
    pub messages: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Pieces that did not come.
    pub lost: u64,
}

/// Connections at an agent's sockets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Clients {
    /// At the control socket.
    pub control: usize,
    /// Refused there, or ended to make room.
    pub control_turned_away: u64,
    /// At the programs' socket.
    pub programs: usize,
    /// Refused there, or ended to make room.
    pub programs_turned_away: u64,
}

/// A process that stands for several hosts of a software fabric.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Software {
    /// Hosts.
    pub agents: usize,
    /// Hosts that hear a controller.
    pub controller_heard: usize,
    /// Messages that came.
    pub messages: u64,
    /// Frames that were none.
    pub malformed: u64,
    /// What was to be sent.
    #[serde(flatten)]
    pub transfers: Transfers,
    /// How long transfers took, in nanoseconds.
    pub took_ns: Took,
}

/// Percentiles, in nanoseconds; none where nothing was measured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Took {
    /// Half took no longer.
    pub median: Option<u64>,
    /// 99 of 100 took no longer.
    pub p99: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
}

/// Open flows.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetFlows {}

/// The answer to [`GetFlows`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// By number.
    pub flows: Vec<Flow>,
}

/// A flow to a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// The sender's port, where a process has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub from: Option<Guid>,
    /// Its number.
    pub flow: u32,
    /// The peer's port.
    #[schemars(with = "String")]
    pub peer: Guid,
    /// The grant in force.
    pub grant: Option<FlowGrant>,
    /// The next one.
    pub next: Option<FlowGrant>,
    /// Why it waits.
    pub wait: Option<String>,
    /// Messages that wait.
    pub waiting: usize,
    /// Messages under way.
    pub outstanding: u32,
}

/// A flow's grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowGrant {
    /// The tree that it has.
    pub tree: u16,
    /// The address that leads along it.
    pub dlid: u16,
    /// From when on, by the controller's clock in nanoseconds.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// Whether it lasts until it is given back.
    pub pinned: bool,
}

/// Queue pairs to send on.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetMesh {}

/// The answer to [`GetMesh`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Mesh {
    /// By peer and tree.
    pub pairs: Vec<QueuePair>,
}

/// A queue pair to a peer along a tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueuePair {
    /// The sender's port, where a process has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub from: Option<Guid>,
    /// The peer's port.
    #[schemars(with = "String")]
    pub peer: Guid,
    /// The tree.
    pub tree: u16,
    /// Its state.
    pub state: String,
    /// Messages under way.
    pub outstanding: usize,
}

/// How long messages of a flow took.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetHistogram {
    /// The flow's number.
    #[serde(default)]
    pub flow: u32,
}

/// The answer to [`GetHistogram`].
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Histogram {
    /// The flow's number; none: of all flows.
    pub flow: Option<u32>,
    /// Messages that were measured.
    pub messages: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// Half took no longer.
    pub median_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p999_ns: u64,
    /// 9,999 of 10,000.
    pub p9999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Times, and which share took no longer.
    #[serde(default)]
    pub quantiles: Vec<Quantile>,
}

/// A step of a distribution.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// The time, in nanoseconds.
    pub ns: u64,
    /// The share that took no longer.
    pub quantile: f64,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetEvents {
    /// Only after the event with this number.
    #[serde(default)]
    pub since: u64,
}

/// Messages to a peer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The sender's port, where a process has several; else the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub from: Option<Guid>,
    /// The peer's port.
    #[schemars(with = "String")]
    pub peer: Guid,
    /// How many.
    #[serde(default = "one")]
    pub count: u64,
    /// Bytes of each.
    #[serde(default = "small")]
    pub size: u64,
    /// Messages a second; none: as fast as they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Windows that are asked for; none: as many as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<u32>,
}

const fn one() -> u64 {
    1
}

const fn small() -> u64 {
    64
}

/// The answer to [`Send`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The flow's number.
    pub flow: u32,
    /// Messages that are to be sent still.
    pub left: u64,
}

/// Messages of several hosts of a software fabric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendAll {
    /// Each from a host to another.
    pub sends: Vec<Send>,
}

/// The answer to [`SendAll`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SentAll {
    /// Those that are begun; the others are declined.
    pub accepted: u64,
}

/// Of what was to be sent on a software fabric, how much is.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTransfers {}

/// The answer to [`GetTransfers`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Transfers {
    /// Under way.
    pub open: usize,
    /// Done.
    pub done: u64,
    /// Never granted.
    pub refused: u64,
    /// Not begun: there were as many flows as may be.
    pub declined: u64,
}

/// Pairs that programs asked for.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetJobs {
    /// Only of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The answer to [`GetJobs`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// By job and addresses.
    pub pairs: Vec<JobPair>,
    /// Pairs that were answered and not counted: there were too many.
    pub uncounted: u64,
    /// What the port counted since the job began, by counter.
    pub port: Option<BTreeMap<String, u64>>,
    /// The most that the port waited between two looks.
    pub worst_wait: Option<WorstWait>,
}

/// A pair of a job's hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobPair {
    /// The job.
    pub job: String,
    /// The host that asked.
    pub from: String,
    /// Its peer.
    pub to: String,
    /// The first address of the host that asked.
    pub from_lid: u16,
    /// The first address of its peer.
    pub to_lid: u16,
    /// The tree there.
    pub tree: Option<u16>,
    /// The tree back.
    pub back_tree: Option<u16>,
    /// Packets that came back.
    pub came_packets: u64,
    /// How often it was asked for.
    pub times: u64,
}

/// Ticks that a port waited for credits, within a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorstWait {
    /// Ticks.
    pub ticks: u64,
    /// The time, in milliseconds.
    pub of_ms: u64,
}

/// A job begins: the port's counters are its own from here on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginJob {
    /// The job.
    pub job: String,
}

/// The answer to [`BeginJob`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobBegun {
    /// The job.
    pub job: String,
}
