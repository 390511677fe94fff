//! The bytes of InfiniBand management.
//!
//! # Two layers
//!
//! A [`View`] looks at bytes and judges nothing: it has a getter for every field, prints everything and
//! turns it into JSON, however malformed. An [`Edit`] sets single fields in place. A [`Table`] (every
//! structure here is one) is a value: `parse` takes bytes apart and refuses what breaks the specification's
//! rules, naming structure, field and value; `emit` writes every byte. So: log a view, act on a value.
//!
//! # One table each
//!
//! Every structure is one table of name, place, width and type, transcribed from the specification
//! ("IBA": InfiniBand Architecture Specification, Volume 1, releases 1.3 to 1.7; section numbers are those of
//! release 1.3). Getters, setters, `Display`, JSON, tests and fuzz targets follow from it. [`bits`] says how
//! bits are counted.
//!
//! # MADs
//!
//! ```
//! use snin_fabric::Guid;
//! use snin_mad::{Attribute, DrPath, NodeInfo, NodeType, Route, Smp, Status, TransactionId};
//!
//! // A manager asks ...
//! let route = Route::directed(DrPath::new(&[1, 8]).expect("two hops"));
//! let mut mad = Smp::get(NodeInfo::ID, 0, route).transaction(TransactionId(7)).mad();
//!
//! // ... an agent answers in the same buffer ...
//! let info = NodeInfo {
//!     node_type: NodeType::Switch,
//!     num_ports: 36,
//!     node_guid: Guid(0x2c9),
//!     port_guid: Guid(0x2c9),
//!     ..NodeInfo::default()
//! };
//! mad.put(&info);
//! mad.answer(Status::OK);
//!
//! // ... and the manager reads the answer.
//! let smp = Smp::parse(&mad.0)?;
//! assert_eq!((smp.transaction_id, smp.status), (TransactionId(7), Status::OK));
//! assert_eq!(mad.attribute::<NodeInfo>()?, info);
//! # Ok::<(), snin_mad::Error>(())
//! ```
//!
//! Nothing here allocates on the way in or out (only JSON does), knows a clock or a socket, or panics on
//! bytes from the wire.

pub mod attribute;
pub mod bits;
pub mod capture;
pub mod header;
pub mod hop;
pub mod notice;
pub mod path;
pub mod performance;
pub mod port;
pub mod rmpp;
pub mod sa;
pub mod tables;

mod error;
mod mad;
mod node;
mod rate;
mod smp;
mod table;
mod wire;

pub use attribute::{Attribute, Payload};
pub use error::{BadField, Error};
pub use header::{
    AttributeId, Class, Directed, Header, LidRouted, Method, Status, StatusCode, TransactionId,
};
pub use mad::Mad;
pub use node::{
    GuidInfo, LedInfo, NodeDescription, NodeInfo, NodeType, SmInfo, SmState, SwitchInfo, VendorDiag,
};
pub use notice::{Notice, Trap};
pub use path::{DrPath, PERMISSIVE, Route};
pub use performance::{ClassPortInfo, PortCounters, PortCountersExtended};
pub use port::{
    Mtu, PhysicalState, PortInfo, PortInfoExtended, PortState, VendorPortInfo, VlCount,
};
pub use smp::Smp;
pub use table::{Edit, Field, Format, Layout, Table, View, Wire};
pub use tables::{
    LinearForwarding, LinkSpeedWidthPairs, MulticastForwarding, PKeyTable, RandomForwarding,
    SlToVl, VlArbitration,
};
pub use wire::{
    Gid, GidPrefix, Hex8, Hex16, Hex32, Inner, MKey, NodeString, Octets, PKey, QKey, SmKey,
};
