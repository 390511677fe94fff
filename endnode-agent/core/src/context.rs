//! What every part of a mesh shares: its configuration, the time, what the controller's word is now, and where
//! deadlines, outputs and counts go.

use std::collections::VecDeque;

use snin_protocol::Time;
use snin_protocol::message::{Grant, Terms};

use super::clock::Clock;
use super::config::Config;
use super::counters::Counters;
use super::events::{Notice, Output, PortCall};
use super::time_slots::TimeSlots;
use super::timers::Timers;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) clock: Clock,
    /// What the controller said of its windows. The session with it writes this.
    pub(super) terms: Terms,
    /// Whether flows may send without a grant, for want of anybody who could give one. As `terms`.
    pub(super) is_best_effort: bool,
    /// The collective that its lease names. As `terms`.
    pub(super) time_slots: TimeSlots,
    pub(super) timers: Timers,
    outputs: VecDeque<Output>,
    pub(super) counters: Counters,
}

impl Context {
    /// `outputs`: the most that there are before they are taken.
    pub(super) fn new(config: Config, outputs: usize) -> Self {
        Self {
            config,
            clock: match config.clock_error {
                Some(error) => Clock::kept(error, config.drift),
                None => Clock::unknown(config.drift),
            },
            terms: Terms { window: Time::ZERO, guard: Time::ZERO, clock_error: Time::ZERO },
            is_best_effort: false,
            time_slots: TimeSlots::default(),
            timers: Timers::new(config.flows, config.pairs),
            outputs: VecDeque::with_capacity(outputs),
            counters: Counters::default(),
        }
    }

    /// When the last byte of a grant must have left, by the controller's clock.
    pub(super) fn end(&self, grant: &Grant) -> Time {
        grant.until - self.terms.guard
    }

    pub(super) fn put(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.put(Output::App(notice));
    }

    pub(super) fn ask_port(&mut self, call: PortCall) {
        self.put(Output::Port(call));
    }

    pub(super) fn take_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
