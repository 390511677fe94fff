//! What a job's nodes need to know of its slice.
//!
//! | command | answer |
//! |---|---|
//! | `slice_trees` | the trees of `owner`'s slice as a text (`snin_fabric::job`), for user `uid` if given |
//!
//! With `pairs`, a list of `[FROM, TO]` by port GUID, each of them has a tree of its own in the slice.

use serde_json::{Value, json};
use snin_fabric::Guid;

use crate::asker::Refused;
use crate::daemon::Daemon;

impl Daemon {
    /// The trees of a slice, and whether they are its own already.
    pub(crate) fn slice_trees(&self, body: &Value) -> Result<Value, Refused> {
        let core = self.core()?;
        let owner = body["owner"].as_str().ok_or("`owner` is a name")?;
        let user = match &body["uid"] {
            Value::Null => None,
            user => {
                let read = user.as_u64().and_then(|user| u32::try_from(user).ok());
                Some(read.ok_or("`uid` is a user's number")?)
            }
        };
        let pairs = match &body["pairs"] {
            Value::Null => Vec::new(),
            pairs => read_pairs(pairs).ok_or("`pairs` are pairs of port GUIDs")?,
        };
        let none = || Refused::absent(format!("{owner:.128} has no slice"));
        let slice = core.slice(owner).ok_or_else(none)?;
        let trees = core.job_trees(owner, user, &pairs).ok_or_else(none)?;
        Ok(json!({
            "owner": owner, "text": trees.to_string(), "whole": slice.whole,
            "ready": slice.whole && slice.foreign == 0,
        }))
    }
}

fn read_pairs(pairs: &Value) -> Option<Vec<(Guid, Guid)>> {
    let port = |end: &Value| end.as_str()?.parse().ok();
    let pair = |pair: &Value| match pair.as_array()?.as_slice() {
        [from, to] => Some((port(from)?, port(to)?)),
        _ => None,
    };
    pairs.as_array()?.iter().map(pair).collect()
}
