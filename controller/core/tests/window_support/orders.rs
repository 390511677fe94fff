//! Orders in few words: none but a frame's asks what time it is.

use snin_controller_core::Core;
use snin_controller_core::events::Event;
use snin_controller_core::orders::{Answer, Order};
use snin_controller_core::orders::{
    CollectiveError, CollectiveWanted, Frame, FrameError, SliceError, SliceHosts, SliceRecord,
};
use snin_protocol::Time;

pub trait Orders {
    fn order(&mut self, order: Order, now: Time) -> Answer;

    fn create_slice(&mut self, owner: &str, wanted: &SliceHosts) -> Result<bool, SliceError> {
        self.order(Order::CreateSlice(owner.to_owned(), wanted.clone()), Time::ZERO).slice()
    }

    fn resize_slice(&mut self, owner: &str, wanted: &SliceHosts) -> Result<(), SliceError> {
        let order = Order::ResizeSlice(owner.to_owned(), wanted.clone());
        self.order(order, Time::ZERO).slice().map(drop)
    }

    fn share_slice(&mut self, owner: &str, shared: bool) {
        self.order(Order::ShareSlice(owner.to_owned(), shared), Time::ZERO);
    }

    fn delete_slice(&mut self, owner: &str) -> bool {
        self.order(Order::DeleteSlice(owner.to_owned()), Time::ZERO).slice() == Ok(true)
    }

    fn restore_slices(&mut self, records: Vec<SliceRecord>) {
        self.order(Order::RestoreSlices(records), Time::ZERO);
    }

    fn set_collective(
        &mut self,
        owner: &str,
        wanted: Option<CollectiveWanted>,
    ) -> Result<(), CollectiveError> {
        self.order(Order::SetCollective(owner.to_owned(), wanted), Time::ZERO).collective()
    }

    fn add_frame(&mut self, frame: Frame, now: Time) -> Result<u64, FrameError> {
        self.order(Order::AddFrame(frame), now).frame().map(|id| id.expect("it has a number"))
    }

    fn remove_frame(&mut self, id: u64) -> Option<u64> {
        self.order(Order::RemoveFrame(id), Time::ZERO).frame().expect("it is not refused")
    }
}

impl Orders for Core {
    fn order(&mut self, order: Order, now: Time) -> Answer {
        self.handle(Event::Order(order), now)
    }
}
