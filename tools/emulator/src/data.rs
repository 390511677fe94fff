//! The data plane: packets through cut-through switches, in virtual time.
//!
//! A [`Network`] is made of a topology, forwards by the tables it is given, and carries [`Message`]s from
//! end ports to LIDs:
//!
//! ```
//! use snin_emulator::data::{Config, Message, Network, Outcome};
//! use snin_fabric::generate::Recipe;
//! use snin_fabric::hosts::{HostId, Hosts};
//! use snin_fabric::routing::{Engine, Routing};
//! use snin_protocol::Time;
//!
//! let topology = "clos:2,2,2".parse::<Recipe>()?.build()?;
//! let routing = Routing::compute(&topology, Engine::Trees, None)?;
//! let hosts = Hosts::of(&topology);
//! let port = |host| hosts.get(HostId(host)).expect("four hosts").port;
//!
//! let mut network = Network::new(&topology, Config::default())?;
//! network.set_addresses(routing.plan.addresses());
//! network.set_tables(&routing.tables);
//! let to = routing.plan.addresses().base(port(3)).expect("every host has an address");
//! let message = network.send(Message::new(port(0), to, 1 << 20))?;
//! assert_eq!(network.run_until(Time::millis(1)), Outcome::Finished);
//! assert_eq!(network.progress(message).slowdown, Some(1.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is emulated
//!
//! - **Cut-through.** A switch knows where a packet goes as soon as its local route header (8 bytes) is in;
//!   the switch delay later the packet can leave, if the output is free. To a faster link it waits until
//!   the slower one cannot starve it. Alone, a packet takes its cables' propagation, and for each switch the
//!   delay and the header's time, and its own transmission once.
//! - **Credits.** Each input port has a buffer for every VL, counted in blocks of 64 bytes (IBA 7.9); a
//!   packet is sent only when the other end has room for all of it. Blocks are free again when the packet's
//!   tail has left the buffer; the sender knows one propagation later. Flow control packets take no
//!   bandwidth. End ports take what comes in at once.
//! - **Queues.** A packet waits in its input's queue for its output ([`Queues::PerOutput`]), or behind all
//!   that came before it ([`Queues::PerInput`]). Of a VL an input gives packets to several outputs at once,
//!   each at its own rate, until it gives as fast as it takes: one to an output that is as fast. Outputs ask
//!   inputs in turn, VLs are arbitrated by tables with a limit of high priority (IBA 7.6.9).
//! - **Lanes.** A packet has a service level. Every port makes a VL of it by its own table for the port that the
//!   packet came in by ([`Network::set_lanes`]); without tables level n is VL n. What has no lane is discarded.
//! - **Adapters** send messages as SEND packets of at most an MTU: LRH 8, BTH 12, payload to a multiple of 4,
//!   ICRC 4, VCRC 2 bytes; no RETH, no DETH, no GRH. Messages of one port take turns, packet by packet.
//! - **Transports.** [`Transport::Uc`] has no acknowledgements. [`Transport::Rc`] has one (LRH 8, BTH 12,
//!   AETH 4, ICRC 4, VCRC 2) for every [`Config::ack_every`] packets and for a message's last, at a
//!   service level of its own, back to the source's address of the same offset. What is lost is not sent again.
//! - **Multicast.** A switch copies a packet to every port of its mask for the DLID but the one by which it
//!   came; an
//!   end port takes it if it is a member. Copies share a place in the buffer and leave one after the other.
//! - **Cables** are cut and restored between two calls of [`Network::run_until`]. What is on the wire is
//!   lost, what waits for it is discarded; credits are not.
//!
//! - **Ports** that are not Active are closed, one way or both ([`Network::set_passage`]): what should pass is
//!   discarded.
//!
//! Every drop is counted where it happens. The lifetime limits of IBA 18.2.5.4 (HOQLife, switch lifetime) are
//! not emulated: a credit loop is there for ever, and [`Outcome::Stuck`] says so.
//!
//! # Time
//!
//! Inside, time is counted in picoseconds, since a byte at 400 Gbit/s takes 20 of them; outside, in
//! nanoseconds: what is measured is rounded up, so that a wait of 0 is none. At one instant first everything
//! happens that is due, then every port that can send decides what. There is no chance anywhere: the same
//! calls give the same run.

mod adapter;
mod agenda;
mod ahead;
mod arbiter;
mod audit;
mod bits;
mod clock;
mod config;
mod counters;
mod crossbar;
mod fault;
mod idle;
mod lanes;
mod link;
mod message;
mod multicast;
mod network;
mod observer;
mod packet;
mod port;
mod statistics;
mod switch;
mod transmit;
mod wheel;

pub use agenda::{Agenda, Event, Heap};
pub use arbiter::{VlArbitration, VlWeight};
pub use audit::Imbalance;
pub use config::{Config, ConfigError, Queues};
pub use counters::Counters;
pub use lanes::{PortLanes, SlToVl};
pub use message::{Message, MessageId, Progress, SendError, Transport};
pub use network::{Network, Outcome};
pub use observer::{DropReason, Dropped, Observer, Transmission, Wait};
pub use port::Passage;
pub use statistics::Statistics;
pub use wheel::Wheel;
