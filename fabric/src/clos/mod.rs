//! Clos recognition: which switch is a leaf, which a spine, what is irregular - or why it is no Clos.
//!
//! Two stages are leaves and spines; three are pods of leaves and aggregation switches, and cores. A
//! *group* is a set of cores that hang on the same aggregation switch of every pod. *Roots* are the
//! spines of two stages and the cores of three: each grows one routing tree a plane.

mod irregular;
mod outside;
mod recognise;
mod shape;
mod stray;

pub use irregular::Irregularity;
pub use recognise::{NotClos, recognise};
pub(crate) use shape::parallel;
pub use shape::{Clos, Level};
