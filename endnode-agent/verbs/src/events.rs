//! Unsolicited events of a device: links that come and go, queue pairs that fail.

use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rdma_sys::{ibv_ack_async_event, ibv_async_event, ibv_event_type, ibv_get_async_event};

use super::device::{Device, Opened};
use super::error::VerbsError;
use super::fd;

/// The events of a device, for one reader.
pub struct AsyncEvents {
    device: Arc<Opened>,
}

/// Something that a device said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncEvent {
    /// A port has become active.
    PortActive(u8),
    /// A port has lost its link.
    PortDown(u8),
    /// A port's LID, GIDs, keys or subnet manager are not what they were.
    PortChanged(u8),
    /// A queue pair failed.
    QueuePairFailed(u32),
    /// A queue pair in error takes no more receives from those that it shares.
    LastReceive(u32),
    /// The device failed; everything of it has to be closed.
    DeviceFailed,
    /// Something else, by its code.
    Other(u32),
}

const fn code(event: ibv_event_type) -> u32 {
    event as u32
}

const QP_FATAL: u32 = code(ibv_event_type::IBV_EVENT_QP_FATAL);
const QP_REQ_ERR: u32 = code(ibv_event_type::IBV_EVENT_QP_REQ_ERR);
const QP_ACCESS_ERR: u32 = code(ibv_event_type::IBV_EVENT_QP_ACCESS_ERR);
const QP_LAST_WQE_REACHED: u32 = code(ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED);
const DEVICE_FATAL: u32 = code(ibv_event_type::IBV_EVENT_DEVICE_FATAL);
const PORT_ACTIVE: u32 = code(ibv_event_type::IBV_EVENT_PORT_ACTIVE);
const PORT_ERR: u32 = code(ibv_event_type::IBV_EVENT_PORT_ERR);
const LID_CHANGE: u32 = code(ibv_event_type::IBV_EVENT_LID_CHANGE);
const PKEY_CHANGE: u32 = code(ibv_event_type::IBV_EVENT_PKEY_CHANGE);
const SM_CHANGE: u32 = code(ibv_event_type::IBV_EVENT_SM_CHANGE);
const CLIENT_REREGISTER: u32 = code(ibv_event_type::IBV_EVENT_CLIENT_REREGISTER);
const GID_CHANGE: u32 = code(ibv_event_type::IBV_EVENT_GID_CHANGE);

impl AsyncEvents {
    /// The events of `device`; a second reader would take them from the first.
    ///
    /// # Errors
    /// When the device's descriptor is of no use.
    pub fn new(device: &Device) -> Result<Self, VerbsError> {
        let events = Self { device: Arc::clone(&device.inner) };
        // SAFETY: the context is open, and its descriptor never changes.
        fd::set_nonblocking(unsafe { (*events.device.context.as_ptr()).async_fd })?;
        Ok(events)
    }

    /// The next event, if there is one.
    pub fn take(&mut self) -> Option<AsyncEvent> {
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        // SAFETY: the context is open, and the call writes one event or fails.
        let failed =
            unsafe { ibv_get_async_event(self.device.context.as_ptr(), event.as_mut_ptr()) };
        if failed != 0 {
            return None;
        }
        let event = event.as_mut_ptr();
        // The type is read as a number: the bindings' enum does not know what later libraries may say.
        // SAFETY: the event is there, and its type is as large as an u32 and aligned like one.
        let kind = unsafe { (&raw const (*event).event_type).cast::<u32>().read() };
        let taken = match kind {
            QP_FATAL | QP_REQ_ERR | QP_ACCESS_ERR | QP_LAST_WQE_REACHED => {
                // SAFETY: of these types the element is a queue pair, which lives at least until the event is
                // acknowledged: ibv_destroy_qp waits for that.
                let number = unsafe { (*(*event).element.qp).qp_num };
                match kind {
                    QP_LAST_WQE_REACHED => AsyncEvent::LastReceive(number),
                    _ => AsyncEvent::QueuePairFailed(number),
                }
            }
            DEVICE_FATAL => AsyncEvent::DeviceFailed,
            PORT_ACTIVE | PORT_ERR | LID_CHANGE | PKEY_CHANGE | SM_CHANGE | CLIENT_REREGISTER
            | GID_CHANGE => {
                // SAFETY: of these types the element is a port's number.
                let port = unsafe { (*event).element.port_num } as u8;
                match kind {
                    PORT_ACTIVE => AsyncEvent::PortActive(port),
                    PORT_ERR => AsyncEvent::PortDown(port),
                    _ => AsyncEvent::PortChanged(port),
                }
            }
            other => AsyncEvent::Other(other),
        };
        // SAFETY: the event was taken just now and is acknowledged once.
        unsafe { ibv_ack_async_event(event) };
        Some(taken)
    }
}

impl fmt::Debug for AsyncEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncEvents").finish_non_exhaustive()
    }
}

impl AsFd for AsyncEvents {
    /// Readable when there is an event.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device, and so its descriptor, is open as long as this is there.
        unsafe { BorrowedFd::borrow_raw((*self.device.context.as_ptr()).async_fd) }
    }
}
