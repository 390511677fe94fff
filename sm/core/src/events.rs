//! Events for the manager, and its outputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, Lid};
use snin_mad::Mad;

use crate::report::Report;
use snin_configuration::Instruction;
use snin_mastership::cluster::{Ask, ClusterEvent};
use snin_mastership::control::Control;
use snin_mastership::mirror::{MirrorEvent, MirrorOutput};
use snin_sm_database::mad_address::{Destination, LocalPort, Origin};
use snin_sm_database::partitions::Partitions;
use snin_sm_database::qos_policy::QosPolicy;
use snin_sm_database::records::{KeptRecord, Slice};
use snin_sm_database::saved::Saved;
use snin_sweep::{Computed, FabricView, Groups, Job};

/// Something happened. serde skips computations and groups, which a core that is run again makes itself. They come
/// last: serde does not count them, and the others keep their numbers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Event<'a> {
    /// Begin: this manager is the master of its subnet now.
    Start,
    /// Look at the whole fabric again, as on SIGHUP.
    Resweep,
    /// Bytes came in: an answer, a trap, or anything else.
    Mad {
        /// By which port.
        port: LocalPort,
        /// From which address; [`Lid`] 0xFFFF on directed routes.
        source: Lid,
        /// The received bytes, of any length.
        bytes: &'a [u8],
    },
    /// Bytes came to queue pair 1: a request to subnet administration, what belongs to one, or the counters of a
    /// port under test.
    General {
        /// By which port.
        port: LocalPort,
        /// From where.
        from: Origin,
        /// The received bytes, of any length.
        bytes: &'a [u8],
    },
    /// The controller says that nothing is sent any more along what the view with this version, and all
    /// before it, called unusable.
    Clear {
        /// The view's version.
        version: u64,
    },
    /// The addresses with which the controller wants paths answered first, and no others than these any more.
    Prefer(Box<Preferences>),
    /// A health monitor says that the node with this GUID has joined or left.
    Health(Guid),
    /// What came of an [`Output::TestLink`].
    LinkTested {
        /// Its number.
        number: u32,
        /// How many messages arrived; none: no agent is at that port.
        arrived: Option<u32>,
    },
    /// Where M_Keys are generated: every port gets another one.
    RotateKeys,
    /// The operator has other partitions from now on.
    Partitions(Box<Partitions>),
    /// Paths are answered by another policy from now on.
    QosPolicy(Box<QosPolicy>),
    /// Whether there is no room for answers of administration: then they wait, and where too many do, requests
    /// are not answered.
    Crowded(bool),
    /// The operator has another manager told something.
    Instruct {
        /// Its port's GUID.
        to: Guid,
        /// What.
        control: Control,
    },
    /// The operator gives this manager another priority, 0 to 15.
    Priority(u8),
    /// Something happened in a session with another manager.
    Mirror(Box<MirrorEvent>),
    /// What is expected of the fabric, or who may enforce it, has changed, or an operator wants something of a
    /// port.
    Configuration(Box<Instruction>),
    /// An adapter says that one of this machine's ports is not what it was: they are asked now, and not only when
    /// it is time.
    PortChanged,
    /// Something happened between this manager and the cluster's service.
    Cluster(Box<ClusterEvent>),
    /// An [`Output::Compute`] is done.
    #[serde(skip)]
    Computed(Box<Computed>),
    /// These are the multicast groups from now on, with all of their members.
    #[serde(skip)]
    Groups(Arc<Groups>),
}

/// Addresses with which paths are answered first.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Preferences {
    /// By the GUIDs of the port that sends and of the one that is sent to: an address of the latter.
    pub pins: BTreeMap<(Guid, Guid), Lid>,
    /// By a port's GUID: its place in a job's slice.
    pub slices: BTreeMap<Guid, Slice>,
}

/// Something is to be done.
#[derive(Debug)]
pub enum Output {
    /// Send an SMP.
    Send {
        /// By which port.
        port: LocalPort,
        /// Whereto.
        to: Destination,
        /// What.
        mad: Box<Mad>,
    },
    /// Send a MAD of subnet administration, or a read of counters, from queue pair 1.
    Answer {
        /// By which port.
        port: LocalPort,
        /// Whereto.
        to: Origin,
        /// What.
        mad: Box<Mad>,
    },
    /// Append these changes to what was stored before any answer that follows is sent: they have to survive a
    /// restart.
    Keep(Vec<KeptRecord>),
    /// This is the port at which the manager sits from now on: it says IsSM, and no other one does.
    Sit(LocalPort),
    /// Run the job, here or on another thread, and come back with [`Event::Computed`].
    Compute(Box<Job>),
    /// The fabric as it is from now on.
    View(Arc<FabricView>),
    /// The switches forward what these groups, which [`Event::Groups`] told, send to each other.
    Served(Arc<Groups>),
    /// Store this in place of what was stored before: it has to survive a restart.
    Save(Arc<Saved>),
    /// Have the agent at a host's port send messages, and come back with [`Event::LinkTested`].
    TestLink {
        /// Its number.
        number: u32,
        /// The host's port.
        port: Guid,
        /// How many.
        messages: u32,
    },
    /// Say this to another manager.
    Mirror(MirrorOutput),
    /// Ask the cluster's service this, and come back with [`Event::Cluster`].
    Cluster(Ask),
    /// Tell the operator.
    Report(Report),
}

impl<'a> Event<'a> {
    /// The same for the sweep, or for a reader; none: it is another core's.
    pub(crate) fn for_sweep(self) -> Option<snin_sweep::Event<'a>> {
        use snin_sweep::Event as Swept;
        Some(match self {
            Self::Start => Swept::Start,
            Self::Resweep => Swept::Resweep,
            Self::Mad { port, source, bytes } => Swept::Mad { port, source, bytes },
            Self::General { port, from, bytes } => Swept::General { port, from, bytes },
            Self::Clear { version } => Swept::Clear { version },
            Self::Health(node) => Swept::Health(node),
            Self::LinkTested { number, arrived } => Swept::LinkTested { number, arrived },
            Self::RotateKeys => Swept::RotateKeys,
            Self::Partitions(partitions) => Swept::Partitions(partitions),
            Self::Groups(groups) => Swept::Groups(groups),
            Self::Computed(computed) => Swept::Computed(computed),
            Self::Prefer(_)
            | Self::QosPolicy(_)
            | Self::Crowded(_)
            | Self::Instruct { .. }
            | Self::Priority(_)
            | Self::Mirror(_)
            | Self::Configuration(_)
            | Self::PortChanged
            | Self::Cluster(_) => return None,
        })
    }
}

impl From<snin_sweep::Output> for Output {
    fn from(output: snin_sweep::Output) -> Self {
        use snin_sweep::Output as Swept;
        match output {
            Swept::Send { port, to, mad } => Self::Send { port, to, mad },
            Swept::Answer { port, to, mad } => Self::Answer { port, to, mad },
            Swept::Compute(job) => Self::Compute(job),
            Swept::View(view) => Self::View(view),
            Swept::Served(groups) => Self::Served(groups),
            Swept::Save(saved) => Self::Save(saved),
            Swept::TestLink { number, port, messages } => Self::TestLink { number, port, messages },
            Swept::Report(report) => Self::Report(Report::Sweep(report)),
        }
    }
}
