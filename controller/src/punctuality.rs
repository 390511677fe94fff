//! How punctual windows are: how late they were decided, what that was due to, and how many were missed.

use std::collections::BTreeMap;

use snin_daemon::meter::{Cause, Lateness};
use snin_daemon::metrics::{Histogram, Page};
use snin_protocol::Time;
use snin_protocol::operator::controller::{Because, Missed};

/// Bounds of the histograms, in seconds.
const SECONDS: [f64; 12] =
    [0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// When a window was decided.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Decided {
    lateness: Lateness,
    took: Time,
    /// Windows before it that were over by then.
    missed: u64,
}

impl Decided {
    /// How long it took to decide, and how late that was, in microseconds.
    pub(crate) fn micros(&self) -> (u64, u64) {
        (micros(self.took), micros(self.lateness.late()))
    }

    /// Windows before it that were over by then, and why, where some were.
    pub(crate) fn missed_before(&self) -> (u64, Option<Because>) {
        (self.missed, (self.missed > 0).then(|| self.why()))
    }

    /// The cause of missed windows, and all that had a share.
    fn why(&self) -> Because {
        let shares = self.lateness.shares().filter(|&(_, share)| share > Time::ZERO);
        let cause = self.lateness.cause();
        Because {
            cause: cause.name().to_owned(),
            why: cause.to_string(),
            shares_us: shares
                .map(|(cause, share)| (cause.name().to_owned(), micros(share)))
                .collect(),
        }
    }

    /// What is said of windows that were missed, if some were.
    pub(crate) fn missed(&self) -> Option<Missed> {
        let (missed, because) = self.missed_before();
        Some(Missed { missed, late_us: micros(self.lateness.late()), because: because? })
    }
}

const fn micros(time: Time) -> u64 {
    time.nanos() / 1_000
}

/// See the module's documentation.
pub(crate) struct Punctuality {
    late: Histogram,
    took: Histogram,
    /// By cause: windows that were missed, and how late all windows were together.
    missed_by: [u64; Cause::ALL.len()],
    late_by: [Time; Cause::ALL.len()],
    last: Decided,
    /// The last before which windows were missed.
    last_missed: Option<Decided>,
}

impl Default for Punctuality {
    fn default() -> Self {
        let histogram = || Histogram::new(SECONDS);
        Self {
            late: histogram(),
            took: histogram(),
            missed_by: Default::default(),
            late_by: Default::default(),
            last: Decided::default(),
            last_missed: None,
        }
    }
}

impl Punctuality {
    /// A window was decided, so late and in such a time, after so many that were missed.
    pub(crate) fn decided(&mut self, lateness: Lateness, took: Time, missed: u64) -> Decided {
        self.late.observe(lateness.late().as_secs());
        self.took.observe(took.as_secs());
        for (cause, share) in lateness.shares() {
            self.late_by[cause as usize] += share;
        }
        self.last = Decided { lateness, took, missed };
        if missed > 0 {
            self.missed_by[lateness.cause() as usize] += missed;
            self.last_missed = Some(self.last);
        }
        self.last
    }

    /// The window that was decided last.
    pub(crate) const fn last(&self) -> Decided {
        self.last
    }

    /// For who asks how the controller is: how many windows were missed by cause, and the last of them.
    pub(crate) fn missed(&self) -> (BTreeMap<String, u64>, Option<Missed>) {
        let by = Cause::ALL.into_iter().zip(self.missed_by).filter(|&(_, missed)| missed > 0);
        let by = by.map(|(cause, missed)| (cause.name().to_owned(), missed)).collect();
        (by, self.last_missed.as_ref().and_then(Decided::missed))
    }

    /// Adds it to a page of metrics.
    pub(crate) fn export(&self, page: &mut Page) {
        let help = "How late windows were decided";
        page.histogram("snin_controller_window_late_seconds", help, &self.late);
        let help = "How long windows took to decide";
        page.histogram("snin_controller_window_seconds", help, &self.took);
        let labels = |cause: Cause| vec![("cause", cause.name().to_owned())];
        let missed = Cause::ALL.into_iter().zip(self.missed_by);
        page.counters(
            "snin_controller_windows_missed_by",
            "Windows that were over before they could be decided, by what took most of the time",
            missed.map(|(cause, missed)| (labels(cause), missed)),
        );
        let late = Cause::ALL.into_iter().zip(self.late_by);
        page.counters(
            "snin_controller_window_late_microseconds",
            "How late windows were decided, all together, by what took the time",
            late.map(|(cause, late)| (labels(cause), late.nanos() / 1_000)),
        );
    }
}

#[cfg(test)]
mod tests {
    use snin_daemon::clock::Clock;
    use snin_daemon::meter::Meter;

    use super::*;

    /// Two windows are missed since something took 30 of 35 ms.
    fn missed_by(cause: Cause, all: &mut Punctuality) -> Decided {
        let meter = Meter::new(Clock::system());
        meter.expect(Time::millis(100));
        meter.charge_until(cause, Time::millis(90), Time::millis(130));
        all.decided(meter.lateness(Time::millis(135)), Time::millis(1), 2)
    }

    #[test]
    fn missed_windows_are_told_with_their_cause_in_answers_events_and_metrics() {
        let mut all = Punctuality::default();
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            let decided = missed_by(cause, &mut all);
            let told = decided.missed().unwrap();
            assert_eq!(decided.micros(), (1_000, 35_000));
            assert_eq!(decided.missed_before(), (2, Some(told.because.clone())));
            assert_eq!((told.late_us, told.missed), (35_000, 2));
            assert_eq!(told.because.cause, cause.name());
            assert_eq!(told.because.why, cause.to_string());
            let most = if cause == Cause::Machine { 35_000 } else { 30_000 };
            assert_eq!(told.because.shares_us[cause.name()], most);
            let (by, last) = all.missed();
            assert_eq!(by.len(), number + 1);
            assert_eq!(last, Some(told));
        }
        let on_time = Meter::new(Clock::system());
        on_time.expect(Time::millis(100));
        let decided = all.decided(on_time.lateness(Time::millis(100)), Time::millis(1), 0);
        assert_eq!(decided.missed(), None);
        let mut page = Page::new();
        all.export(&mut page);
        let text = page.encode();
        for (cause, late) in Cause::ALL.into_iter().zip([65_000, 30_000, 30_000]) {
            let name = cause.name();
            for line in [
                format!("snin_controller_windows_missed_by_total{{cause=\"{name}\"}} 2\n"),
                format!(
                    "snin_controller_window_late_microseconds_total{{cause=\"{name}\"}} {late}\n"
                ),
            ] {
                assert!(text.contains(&line), "{line}{text}");
            }
        }
    }
}
