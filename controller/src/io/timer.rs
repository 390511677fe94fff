//! A timer by the controller's own clock, to the microsecond: a runtime's own timers count milliseconds.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use snin_protocol::Time;
use tokio::io::unix::AsyncFd;

/// See the module's documentation.
#[derive(Debug)]
pub struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    due: Option<Time>,
}

impl Timer {
    /// A timer that never rings.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // What is deprecated is to give it descriptors that others may close: this one is owned.
        #[expect(deprecated)]
        let descriptor = AsyncFd::new(descriptor)?;
        Ok(Self { descriptor, due: None })
    }

    /// Rings at a moment of the [system's clock](snin_daemon::clock::Clock::system), or never.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set(&mut self, due: Option<Time>) -> io::Result<()> {
        if self.due == due {
            return Ok(());
        }
        self.due = due;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would be never, and what is past rings at once.
        let nanos = due.map_or(0, |due| due.nanos().max(1));
        let it_value = Timespec {
            tv_sec: (nanos / 1_000_000_000).min(i64::MAX as u64) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        };
        let spec = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }

    /// Until it rings.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn rings(&mut self) -> io::Result<()> {
        let mut ready = self.descriptor.readable().await?;
        ready.clear_ready();
        // It may have been set anew since.
        let _ = rustix::io::read(self.descriptor.get_ref(), &mut [0; 8]);
        self.due = None;
        Ok(())
    }
}
