//! `#[serde(with = "snin_protocol::view_frames")]`: a view as its version and the frames in which a manager would
//! say it. The reader computes the tables again.

use std::sync::Arc;

use ::serde::de::Error as _;
use ::serde::ser::Error as _;
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};
use snin_fabric::TreeId;
use snin_fabric::routing::Placement;
use snin_fabric::view::View;

use crate::codec;
use crate::view::{Assembly, FromManager, frames};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Said(#[serde(with = "codec::serde")] FromManager);

/// The view's version and frames.
///
/// # Errors
/// When it is larger than a view may be.
pub fn serialize<S: Serializer>(view: &Arc<dyn View>, serializer: S) -> Result<S::Ok, S::Error> {
    let placement = placement(&**view).ok_or_else(|| S::Error::custom("a view without hosts"))?;
    let frames = frames(&**view, &placement).map_err(S::Error::custom)?;
    let frames: Vec<Said> = frames.into_iter().map(Said).collect();
    (view.version(), frames).serialize(serializer)
}

/// Where the trees' addresses are. By any host's addresses: all have their trees at the same places.
fn placement(view: &dyn View) -> Option<Placement> {
    let routing = view.routing();
    let (trees, plan) = (routing.forest.len(), &routing.plan);
    if plan.is_rotated() {
        return Some(Placement::planned_by(plan, trees));
    }
    let port = routing.hosts.iter().next().map(|(_, host)| host.port)?;
    let base = view.addresses().base(port)?.0;
    let place = |tree: usize| Some(view.dlid(port, TreeId(tree as u16))?.0.0.wrapping_sub(base));
    Some(Placement::new((0..trees).map(place).collect::<Option<_>>()?, plan))
}

/// The view that such frames say.
///
/// # Errors
/// When they say none, or other tables come out.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<dyn View>, D::Error> {
    let (version, frames) = <(u64, Vec<Said>)>::deserialize(deserializer)?;
    let mut frames = frames.into_iter().map(|Said(frame)| frame);
    let Some(FromManager::Begin(begin)) = frames.next() else {
        return Err(D::Error::custom("a view begins with another frame"));
    };
    let mut assembly = Assembly::new(begin);
    for frame in frames {
        let FromManager::Part(part) = frame else {
            return Err(D::Error::custom("a frame that is no part of a view"));
        };
        assembly.add(&part).map_err(D::Error::custom)?;
    }
    assembly.finish(version).map(|view| Arc::new(view) as _).map_err(D::Error::custom)
}
