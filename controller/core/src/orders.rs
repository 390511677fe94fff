//! What an operator, or who schedules jobs, wants of slices, their collectives, and frames.

mod collective;
mod frame;
mod slice;

use serde::{Deserialize, Serialize};

pub use collective::{CollectiveError, CollectiveWanted};
pub use frame::{Frame, FrameError, MAX_AHEAD, MAX_FRAMES, MAX_FRAMES_OF_OWNER};
pub use slice::{
    MAX_OWNER, MAX_SLICES, SliceError, SliceHosts, SliceRecord, SliceStatus, TreeName,
};

/// What is wanted. A controller that was superseded carries it out too: nothing is granted by it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// A slice for this owner, from the next window on: [`Answer::slice`] says whether it is new. The same owner
    /// may ask for the same again.
    CreateSlice(String, SliceHosts),
    /// The owner's slice has other hosts, or another number of them, from the next window on. It keeps hosts and
    /// links as far as it can.
    ResizeSlice(String, SliceHosts),
    /// Whether programs that are not the owner's run on the hosts of its slice. Then queries for paths, which name
    /// ports and no job, are not answered by its addresses. At first none do.
    ShareSlice(String, bool),
    /// Hosts and links of the owner's slice are given back: [`Answer::slice`] says whether there was one.
    DeleteSlice(String),
    /// The hosts of a slice take part in a collective from the next window on, or in none any more; the order of
    /// members is that of the slice's hosts. It lasts until it is ended, or the slice is given back. The same
    /// again changes nothing; another one takes the place of the first.
    SetCollective(String, Option<CollectiveWanted>),
    /// Slices that were kept are taken up again; before the first window.
    RestoreSlices(Vec<SliceRecord>),
    /// A frame is kept: [`Answer::frame`] has its number.
    AddFrame(Frame),
    /// A frame is given back: [`Answer::frame`] has its number if there was one.
    RemoveFrame(u64),
    /// Frames that were kept are taken up again, with their numbers; before the first window.
    RestoreFrames(Vec<(u64, Frame)>),
}

/// What came of an event, where somebody waits for it. Nothing changes where something was refused.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Answer {
    /// No caller waits for an answer.
    #[default]
    None,
    /// Whether there is something new of a slice, or why it is not made.
    Slice(Result<bool, SliceError>),
    /// That a collective is as it is wanted, or why not.
    Collective(Result<(), CollectiveError>),
    /// The number of a frame, if there is one, or why it is not kept.
    Frame(Result<Option<u64>, FrameError>),
}

impl Answer {
    /// What came of a slice; of anything else: nothing is new.
    ///
    /// # Errors
    /// Why it was not made.
    pub fn slice(self) -> Result<bool, SliceError> {
        if let Self::Slice(result) = self { result } else { Ok(false) }
    }

    /// What came of a collective.
    ///
    /// # Errors
    /// Why there is none.
    pub fn collective(self) -> Result<(), CollectiveError> {
        if let Self::Collective(result) = self { result } else { Ok(()) }
    }

    /// The number of a frame; of anything else: there is none.
    ///
    /// # Errors
    /// Why it was not kept.
    pub fn frame(self) -> Result<Option<u64>, FrameError> {
        if let Self::Frame(result) = self { result } else { Ok(None) }
    }
}
