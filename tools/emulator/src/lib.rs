//! A software fabric: switches and adapters whose management agents answer as hardware would, in virtual
//! time.
//!
//! Any [`Topology`](snin_fabric::Topology) can be emulated. A client [attaches](Emulator::attach) at a port,
//! [sends](Emulator::send) MADs, [lets time pass](Emulator::advance) and [polls](Emulator::poll) what comes
//! back:
//!
//! ```
//! use snin_emulator::{Config, Emulator};
//! use snin_fabric::{Lid, PortNum, generate::Recipe};
//! use snin_mad::{Attribute, DrPath, NodeInfo, NodeType, Route, Smp};
//!
//! let topology = "clos:2,2,2".parse::<Recipe>()?.build()?;
//! let mut emulator = Emulator::new(&topology, Config::default());
//! let host = topology.nodes().last().expect("hosts come last");
//! let client = emulator.attach(topology.port_of(host, PortNum(1)).expect("one port"))?;
//!
//! // Who is at the other end of my cable?
//! let route = Route::directed(DrPath::new(&[1]).expect("one hop"));
//! emulator.send(client, &Smp::get(NodeInfo::ID, 0, route).mad(), Lid::NONE, emulator.now());
//! while let Some(time) = emulator.next_event_time() {
//!     emulator.advance(time);
//! }
//! let answer = emulator.poll(client).expect("an answer");
//! assert_eq!(answer.mad.attribute::<NodeInfo>()?.node_type, NodeType::Switch);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is emulated
//!
//! - Directed routes, both ways, and those that begin or end by LID (IBA 14.2.2); LID routing by the tables
//!   that the switches hold, from a switch's own LID to LinearFDBTop (IBA 18.2.4.3).
//! - Links: training, the states Down, Initialize, Armed and Active, by whom they can be changed, and which
//!   packets pass in each (IBA 7.2.7, 14.2.5.6).
//! - Agents: every attribute of subnet management that a manager needs, by blocks where it comes in blocks,
//!   with the status of each refusal (IBA 13.4.7, 14.2.5); M_Keys (14.2.4); counters (16.1).
//! - Traps 128, 144 and 256, LID-routed to MasterSMLID, repeated until repressed (IBA 13.4.9, 14.3).
//! - Time: links have a latency and, if wanted, a rate; an agent does one MAD after the other.
//! - [Faults](Fault): cables, power, agents, noise.
//!
//! Everything is bounded, nothing that comes in a MAD makes it panic, and the same seed and the same calls
//! give the same bytes. Data packets are forwarded by the same tables in a plane of their own: [`data`];
//! messages of real agents, in real time, by [`messages`].

mod agent;
mod carry;
mod config;
mod counters;
pub mod data;
mod emulator;
mod fabric;
pub mod frames;
mod hardware;
mod link;
pub mod messages;
mod notice_queue;
mod notices;
mod packet;
pub mod place;
mod port_tables;
mod queue;
mod routes;
mod transport;

pub use config::{AdapterModel, Config, Noise, SwitchModel};
pub use counters::Counters;
pub use emulator::{AttachError, ClientId, Emulator, Fault, Received, Stats};
pub use fabric::{Fabric, Write};
pub use hardware::Health;
