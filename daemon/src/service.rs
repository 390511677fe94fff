//! Messages to systemd; none where systemd is not there.

use sd_notify::NotifyState;

/// The daemon does its work now.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// What `systemctl status` shows.
pub fn status(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// The daemon is still alive, for the watchdog.
pub fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// The daemon ends.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// How often the watchdog wants to hear [`alive`]: half of its patience. `None` where there is none.
pub fn watchdog() -> Option<std::time::Duration> {
    sd_notify::watchdog_enabled().map(|patience| patience / 2)
}

fn notify(states: &[NotifyState<'_>]) {
    // Without systemd there is no supervisor to tell; a systemd that cannot be reached is no reason to end.
    let _ = sd_notify::notify(states);
}
