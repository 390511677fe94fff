//! Orders, carried out by the part that each is for.

use snin_protocol::Time;

use super::Core;
use crate::orders::{Answer, Order};

impl Core {
    pub(super) fn carry_out(&mut self, order: Order, now: Time) -> Answer {
        match order {
            Order::CreateSlice(owner, wanted) => Answer::Slice(self.make_slice(owner, wanted)),
            Order::ResizeSlice(owner, wanted) => {
                Answer::Slice(self.change_slice(&owner, wanted).map(|()| true))
            }
            Order::ShareSlice(owner, shared) => Answer::Slice(Ok(self.set_shared(&owner, shared))),
            Order::DeleteSlice(owner) => Answer::Slice(Ok(self.end_slice(&owner))),
            Order::SetCollective(owner, wanted) => {
                Answer::Collective(self.take_collective(&owner, wanted))
            }
            Order::RestoreSlices(records) => {
                self.recall_slices(records);
                Answer::None
            }
            Order::AddFrame(frame) => Answer::Frame(self.keep_frame(frame, now).map(Some)),
            Order::RemoveFrame(id) => Answer::Frame(Ok(self.end_frame(id).then_some(id))),
            Order::RestoreFrames(frames) => {
                self.recall_frames(frames);
                Answer::None
            }
        }
    }
}
