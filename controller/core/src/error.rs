//! Errors in the input of a controller.

use snin_protocol::Time;

/// A configuration that cannot work, with the value that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nothing could ever be granted.
    #[error("`{0}` is 0, and so nothing could ever be granted")]
    Zero(&'static str),
    /// Two neighbours in time could meet on a link.
    #[error("`guard` is {guard}, but `clock_error` and `drain` together are {needed}")]
    Guard {
        /// As configured.
        guard: Time,
        /// The least.
        needed: Time,
    },
    /// Decisions would be late, or guards would leave no time to send.
    #[error("`window` is {window}, but with this lead and guard at least {shortest} are needed")]
    Window {
        /// As configured.
        window: Time,
        /// The least.
        shortest: Time,
    },
}
