//! Requests that no packing can grant on this fabric.

use snin_fabric::TreeId;

use super::request::{Refusal, Request};
use super::shape::{SetId, Shape};

/// Why a request can get no tree, even if all others go.
pub(super) fn refusal(shape: &Shape, request: &Request) -> Option<Refusal> {
    let &Request { source, destination, allowed, pinned, tree, .. } = request;
    let empty = |words: &[u64]| words.iter().all(|&word| word == 0);
    let none = |set| shape.effective(source, destination, set).all(|word| word == 0);
    if source == destination {
        Some(Refusal::SameLeaf)
    } else if empty(shape.usable(source)) {
        Some(Refusal::SourceCut)
    } else if empty(shape.usable(destination)) {
        Some(Refusal::DestinationCut)
    } else if none(SetId::ALL) {
        Some(Refusal::NoCommonTree)
    } else if none(allowed) {
        Some(Refusal::NotAddressed)
    } else {
        let allows = |tree: TreeId| shape.allows(source, destination, allowed, tree);
        (pinned && !tree.is_none_or(allows)).then_some(Refusal::TreeNotAllowed)
    }
}
