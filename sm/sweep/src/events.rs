//! What happens to the cores that look at a fabric, and what they want done.

use std::sync::Arc;

use snin_fabric::{Guid, Lid};
use snin_mad::Mad;
use snin_sm_database::mad_address::{Destination, LocalPort, Origin};
use snin_sm_database::partitions::Partitions;
use snin_sm_database::saved::Saved;

use crate::multicast::Groups;
use crate::planning::{Computed, Job};
use crate::report::Report;
use crate::view::FabricView;

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Begin.
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
    /// Bytes came to queue pair 1 that are for this core: the counters of a port under test.
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
    /// These are the multicast groups from now on, with all of their members.
    Groups(Arc<Groups>),
    /// An [`Output::Compute`] is done.
    Computed(Box<Computed>),
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
    /// Send a read of counters from queue pair 1.
    Answer {
        /// By which port.
        port: LocalPort,
        /// Whereto.
        to: Origin,
        /// What.
        mad: Box<Mad>,
    },
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
    /// Tell the operator.
    Report(Report),
}
