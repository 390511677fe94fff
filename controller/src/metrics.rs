//! The text of `/metrics`.

use snin_controller_core::Core;
use snin_controller_core::metrics::Metrics;
use snin_daemon::control::Control;
use snin_daemon::journal::Journal;
use snin_daemon::metrics::Page;
use snin_daemon::session::{Credentials, Tally};

use crate::daemon::Daemon;
use crate::punctuality::Punctuality;

/// What the daemon counts beside its core.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) punctuality: Punctuality,
    /// What was asked for by one who may not.
    pub(crate) not_permitted: u64,
}

/// All that is exported, at one moment.
struct Seen<'a> {
    name: String,
    term: u64,
    least_term: u64,
    is_up: bool,
    leads: bool,
    is_stored: bool,
    storage_failures: u64,
    core: Metrics,
    counted: &'a Counted,
    journal: &'a Journal,
    slices: usize,
    broken: usize,
    requests: usize,
    found_tables: bool,
    control: Option<&'a Control>,
    credentials: Option<&'a Credentials>,
    /// By the beginning of their names.
    tallies: Vec<(&'static str, &'a Tally)>,
}

/// Everything, now.
pub(crate) fn page(daemon: &Daemon) -> String {
    let core = daemon.core.as_deref();
    let slices = core.map(Core::slices).unwrap_or_default();
    let tallies = [
        (API, daemon.outlets.api.as_ref().map(|api| api.tally())),
        (AGENT, daemon.agents.as_ref().map(|agents| agents.tally())),
        (MANAGER, daemon.manager.as_ref().map(|manager| manager.tally())),
    ];
    let seen = Seen {
        name: daemon.identity.to_string(),
        term: daemon.config.term.0,
        least_term: core.and_then(Core::least_term).map_or(0, |term| term.0),
        is_up: core.is_some(),
        leads: daemon.begun,
        is_stored: daemon.state.trouble().is_none(),
        storage_failures: daemon.state.failures(),
        core: core.map(Core::metrics).unwrap_or_default(),
        counted: &daemon.counted,
        journal: &daemon.outlets.journal,
        slices: slices.len(),
        broken: slices.iter().filter(|slice| !slice.whole).count(),
        requests: core.map_or(0, |core| core.frames().count()),
        found_tables: core.is_some_and(|core| core.view().choices().is_some()),
        control: Some(&daemon.outlets.control),
        credentials: daemon.listen.credentials.as_deref(),
        tallies: tallies.into_iter().filter_map(|(of, tally)| Some((of, &**tally?))).collect(),
    };
    seen.page().encode()
}

/// Every name with its kind, and what it means: for the man page.
pub fn names() -> Vec<(String, String)> {
    let (counted, journal, tally) = (Counted::default(), Journal::new(), Tally::default());
    let seen = Seen {
        name: String::new(),
        term: 0,
        least_term: 0,
        is_up: false,
        leads: false,
        is_stored: true,
        storage_failures: 0,
        core: Metrics::default(),
        counted: &counted,
        journal: &journal,
        slices: 0,
        broken: 0,
        requests: 0,
        found_tables: false,
        control: None,
        credentials: None,
        tallies: [API, AGENT, MANAGER].map(|of| (of, &tally)).into(),
    };
    seen.page().names()
}

const API: &str = "snin_controller_api";
const AGENT: &str = "snin_controller_agent";
const MANAGER: &str = "snin_controller_manager";

impl Seen<'_> {
    fn page(&self) -> Page {
        let mut page = Page::new();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let labels = vec![("name", self.name.clone()), ("version", version)];
        page.gauges("snin_controller_info", "The controller", [(labels, 1.0)]);
        page.gauge("snin_controller_term", "Its term", self.term as f64);
        let help = "The term it would need for most agents to follow its grants; 0: they do";
        page.gauge("snin_controller_least_term", help, self.least_term as f64);
        let up = f64::from(u8::from(self.is_up));
        page.gauge("snin_controller_up", "Whether it knows the fabric and lets agents in", up);
        let leads = f64::from(u8::from(self.leads));
        let help = "Whether it has begun a term; where several share a store, one has";
        page.gauge("snin_controller_leads", help, leads);
        let stored = f64::from(u8::from(self.is_stored));
        page.gauge("snin_controller_stored", "Whether the state is stored", stored);
        let help = "How often the state could not be stored";
        page.counter("snin_controller_storage_failures", help, self.storage_failures);
        for (name, help, count) in self.core.counters() {
            page.counter(&format!("snin_controller_{name}"), help, count);
        }
        for (name, help, count) in self.core.gauges() {
            page.gauge(&format!("snin_controller_{name}"), help, count as f64);
        }
        self.counted.punctuality.export(&mut page);
        let help = "Commands refused since the user may not give them";
        page.counter("snin_controller_not_permitted", help, self.counted.not_permitted);
        let help = "Clients of the API that follow events";
        page.gauge("snin_controller_followers", help, self.journal.followers() as f64);
        let help = "Clients that followed events and were cut off: they did not read, or made room";
        page.counter("snin_controller_followers_cut_off", help, self.journal.cut_off());
        let help =
            "Whether the tables are those of another manager, which changes them as it likes";
        page.gauge("snin_controller_found_tables", help, f64::from(u8::from(self.found_tables)));
        page.gauge("snin_controller_slices", "Slices", self.slices as f64);
        let help = "Slices that lack links which cables that are cut took away";
        page.gauge("snin_controller_slices_broken", help, self.broken as f64);
        let help = "Requests with a time of their own";
        page.gauge("snin_controller_requests", help, self.requests as f64);
        if let Some(control) = self.control {
            control.export("snin_controller_control", &mut page);
        }
        if let Some(credentials) = self.credentials {
            credentials.export("snin_controller", &mut page);
        }
        for (of, tally) in &self.tallies {
            tally.export(of, &mut page);
        }
        page
    }
}
