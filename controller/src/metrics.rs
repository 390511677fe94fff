//! The text of `/metrics`.

use snin_daemon::metrics::{Histogram, Page};
use snin_protocol::Time;

use crate::daemon::Daemon;
use crate::events::Late;

/// Bounds of the histograms, in seconds.
const SECONDS: [f64; 12] =
    [0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// What the daemon counts beside its core.
pub(crate) struct Counted {
    late: Histogram,
    took: Histogram,
    last_took: Time,
    /// How many windows were missed when some were last, how late the controller was, and why.
    pub(crate) missed: Option<(u64, Time, Late)>,
    /// What was asked for by one who may not.
    pub(crate) not_permitted: u64,
}

impl Default for Counted {
    fn default() -> Self {
        let histogram = || Histogram::new(SECONDS);
        Self {
            late: histogram(),
            took: histogram(),
            last_took: Time::ZERO,
            missed: None,
            not_permitted: 0,
        }
    }
}

impl Counted {
    /// A window was decided, so late and in such a time.
    pub(crate) fn decided(&mut self, late: Time, took: Time) {
        self.late.observe(late.as_secs());
        self.took.observe(took.as_secs());
        self.last_took = took;
    }

    /// How long the last window took to decide.
    pub(crate) const fn last_took(&self) -> Time {
        self.last_took
    }
}

/// Everything, now.
pub(crate) fn page(daemon: &Daemon) -> String {
    let mut page = Page::new();
    let labels = vec![
        ("name", daemon.identity.to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    page.gauges("snin_controller_info", "The controller", [(labels, 1.0)]);
    page.gauge("snin_controller_term", "Its term", daemon.config.term.0 as f64);
    let up = f64::from(u8::from(daemon.core.is_some()));
    page.gauge("snin_controller_up", "Whether it knows the fabric and lets agents in", up);
    if let Some(core) = &daemon.core {
        let counts = core.metrics();
        for (name, help, count) in counts.counters() {
            page.counter(&format!("snin_controller_{name}"), help, count);
        }
        for (name, help, count) in counts.gauges() {
            page.gauge(&format!("snin_controller_{name}"), help, count as f64);
        }
    }
    page.histogram(
        "snin_controller_window_late_seconds",
        "How late windows were decided",
        &daemon.counted.late,
    );
    page.histogram(
        "snin_controller_window_seconds",
        "How long windows took to decide",
        &daemon.counted.took,
    );
    page.counter(
        "snin_controller_not_permitted",
        "Commands refused since the user may not give them",
        daemon.counted.not_permitted,
    );
    if let Some(core) = &daemon.core {
        let slices = core.slices();
        page.gauge("snin_controller_slices", "Slices", slices.len() as f64);
        let broken = slices.iter().filter(|slice| !slice.whole).count();
        let help = "Slices that lack links which cables that are cut took away";
        page.gauge("snin_controller_slices_broken", help, broken as f64);
        let frames = core.frames().count() as f64;
        page.gauge("snin_controller_requests", "Requests with a time of their own", frames);
    }
    if let Some(api) = &daemon.outlets.api {
        api.tally().export("snin_controller_api", &mut page);
    }
    if let Some(agents) = &daemon.agents {
        agents.tally().export("snin_controller_agent", &mut page);
    }
    if let Some(manager) = &daemon.manager {
        manager.tally().export("snin_controller_manager", &mut page);
    }
    page.encode()
}
