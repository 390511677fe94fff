//! What `/metrics` says. Labels are those of the exporters of InfiniBand counters: `local_guid`, `local_name`,
//! `local_port`, so that series can be joined.

use snin_daemon::metrics::{Labels, Page};
use snin_mad::{Class, Method, attribute};
use snin_protocol::operator::manager::{State, Status};

use super::demultiplexer::DropReason;
use super::run::Daemon;
use super::summary::{self, FaultKind};
use snin_sm_database::error::Dropped;
use snin_sm_database::records::{Groups, Members, Services, Subscriptions};

/// Everything, now.
pub(super) fn page(daemon: &Daemon, status: &Status) -> String {
    let mut page = Page::new();
    subnet(&mut page, daemon, status);
    traffic(&mut page, daemon);
    administration(&mut page, daemon);
    sweeps(&mut page, daemon, status);
    page.encode()
}

fn subnet(page: &mut Page, daemon: &Daemon, status: &Status) {
    let info = daemon.wire.port().info();
    let labels = vec![
        ("local_guid", info.guid.to_string()),
        ("local_name", info.name.clone()),
        ("local_port", info.port.to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    page.gauges("snin_sm_info", "The manager's port", [(labels, 1.0)]);
    let states = State::ALL
        .map(|state| (vec![("state", state.name().to_owned())], one(status.state == state)));
    page.gauges("snin_sm_state", "1 for what the manager is", states);
    page.gauge(
        "snin_sm_up",
        "Whether the subnet is up by this manager",
        one(status.subnet.is_some()),
    );
    page.gauge(
        "snin_sm_missing",
        "Things that are not as they should be",
        status.missing.len() as f64,
    );
    page.gauge("snin_sm_gone", "Cables that were there", status.gone.len() as f64);
    page.gauge(
        "snin_sm_rivals",
        "Masters with another sm_key, beside which nothing is written",
        status.rivals as f64,
    );
    page.gauge(
        "snin_sm_partitions_refused",
        "Whether the file of partitions was refused when it was last read",
        one(status.partitions_refused.is_some()),
    );
    page.gauge(
        "snin_sm_qos_policy_refused",
        "Whether the file of levels of service was refused when it was last read",
        one(status.qos_policy_refused.is_some()),
    );
    let faults = summary::faults(status);
    let faults = FaultKind::ALL.map(|(kind, name)| {
        let count = faults.iter().filter(|fault| fault.kind == kind).count();
        (vec![("kind", name.to_owned())], count as f64)
    });
    page.gauges("snin_sm_faults", "What somebody has to see to, by kind", faults);
    if let Some(control) = &daemon.outlets.control {
        control.export("snin_sm_control", page);
    }
    if let Some(credentials) = &daemon.outlets.credentials {
        credentials.export("snin_sm", page);
    }
    page.gauge("snin_sm_other_managers", "Other managers known", status.managers.len() as f64);
    if let Some(subnet) = &status.subnet {
        page.gauge(
            "snin_sm_view_version",
            "The version of the published view",
            subnet.version as f64,
        );
        page.gauge("snin_sm_nodes", "Nodes", subnet.nodes as f64);
        page.gauge("snin_sm_switches", "Switches", subnet.switches as f64);
        page.gauge("snin_sm_hosts", "Host ports", subnet.hosts as f64);
        page.gauge("snin_sm_trees", "Routing trees", subnet.trees as f64);
        page.gauge("snin_sm_lmc", "2^LMC addresses a host port", f64::from(subnet.lmc));
        let pairs = subnet.unusable_pairs as f64;
        page.gauge("snin_sm_unusable_pairs", "Pairs of leaf and tree that are not granted", pairs);
    }
}

fn traffic(page: &mut Page, daemon: &Daemon) {
    let metrics = daemon.core.metrics();
    let sent = metrics.sent.iter().map(|(&(id, method), &count)| {
        let named = attribute::name(Class::DirectedSubnet, id).unwrap_or("?");
        let method = Method::new(method).name().unwrap_or("?");
        (vec![("attribute", named.to_owned()), ("method", method.to_owned())], count)
    });
    page.counters("snin_sm_smps", "SMPs sent, repeated ones included", sent);
    page.counter("snin_sm_smp_retries", "SMPs sent again", metrics.retries);
    page.counter("snin_sm_smp_unanswered", "Questions given up", metrics.unanswered);
    page.counter("snin_sm_smp_answers", "Answers", metrics.answers);
    page.counter("snin_sm_smp_refused", "Answers that said no", metrics.refused);
    page.gauge("snin_sm_smps_in_flight", "SMPs in flight", daemon.core.in_flight() as f64);
    let dropped = Dropped::ALL.iter().map(|why| {
        let labels: Labels = vec![("reason", why.to_string())];
        (labels, metrics.dropped.get(why).copied().unwrap_or(0))
    });
    page.counters("snin_sm_dropped", "What came in and was dropped", dropped);
    let traps = metrics.traps.iter().map(|(number, &count)| {
        let number = number.map_or_else(|| "other".to_owned(), |number| number.to_string());
        (vec![("number", number)], count)
    });
    page.counters("snin_sm_traps", "Traps", traps);
    let port = daemon.wire.port().counters();
    page.counter("snin_sm_port_full", "How often the port had no room", port.full);
    page.counter("snin_sm_port_undelivered", "Requests that came back", port.undelivered);
    page.counter("snin_sm_port_dropped", "What came in and is no MAD", port.dropped);
}

/// What hosts ask, and what became of it.
fn administration(page: &mut Page, daemon: &Daemon) {
    let metrics = daemon.core.manager().administration();
    let requests = metrics.requests.iter().map(|(&(id, method), &count)| {
        let named = attribute::name(Class::Administration, id).unwrap_or("?");
        let method = Method::new(method).name().unwrap_or("?");
        (vec![("attribute", named.to_owned()), ("method", method.to_owned())], count)
    });
    page.counters("snin_sm_sa_requests", "Requests to subnet administration", requests);
    let answers = metrics.answers.iter();
    let answers = answers.map(|(status, &n)| (vec![("status", format!("{status:#06x}"))], n));
    page.counters("snin_sm_sa_answers", "Answers by status", answers);
    let unanswered = metrics.unanswered.iter();
    let unanswered = unanswered.map(|(why, &n)| (vec![("reason", why.to_string())], n));
    page.counters("snin_sm_sa_unanswered", "What was not answered", unanswered);
    let given_up = metrics.messages_given_up;
    page.counter("snin_sm_sa_messages_given_up", "Answers that nobody acknowledged", given_up);
    page.counter("snin_sm_sa_reports", "Reports sent to subscribers", metrics.reports);
    let given_up = metrics.reports_given_up;
    page.counter("snin_sm_sa_reports_given_up", "Reports that nobody acknowledged", given_up);
    let (waiting, refused) = (daemon.intake.waiting(), daemon.intake.refused());
    page.gauge("snin_sm_sa_waiting", "Requests that wait for their turn", waiting as f64);
    let help = "Requests for which there was no room";
    page.counter("snin_sm_sa_refused", help, refused);
    let dropped = daemon.wire.dropped();
    page.counter("snin_sm_sa_answers_dropped", "Answers for which there was no room", dropped);
    let reasons = DropReason::ALL
        .map(|(why, name)| (vec![("reason", name.to_owned())], daemon.demultiplexer.dropped(why)));
    page.counters("snin_sm_undeliverable", "Datagrams that are no core's", reasons);
    let database = daemon.core.manager().database();
    let rows = [
        ("groups", database.all::<Groups>().len()),
        ("members", database.all::<Members>().len()),
        ("services", database.all::<Services>().len()),
        ("subscriptions", database.all::<Subscriptions>().len()),
    ];
    let rows = rows.map(|(kind, count)| (vec![("kind", kind.to_owned())], count as f64));
    page.gauges("snin_sm_sa_records", "Records that hosts made", rows);
}

fn sweeps(page: &mut Page, daemon: &Daemon, status: &Status) {
    let metrics = daemon.core.metrics();
    let sweeps = [
        ("full", metrics.full_sweeps),
        ("light", metrics.light_sweeps),
        ("local", metrics.local_probes),
    ];
    let sweeps = sweeps.map(|(kind, count)| (vec![("kind", kind.to_owned())], count));
    page.counters("snin_sm_sweeps", "Sweeps", sweeps);
    let help = "Looks at the fabric of every kind";
    page.counter("snin_sm_surveys", help, metrics.surveys);
    let help = "Reports of the manager that keeps the subnet";
    page.counter("snin_sm_reports_heard", help, metrics.reports);
    page.histogram(
        "snin_sm_busy_seconds",
        "From when something happened until nothing was left to be done",
        &daemon.durations,
    );
    page.counter("snin_sm_lft_blocks_written", "Table blocks written", metrics.blocks_written);
    page.counter("snin_sm_views", "Views published", metrics.views);
    page.counter("snin_sm_events", "Events told", daemon.outlets.journal.seq());
    let (stored, failures) = (status.not_stored.is_none(), status.storage_failures);
    page.gauge(
        "snin_sm_stored",
        "Whether what has to survive a restart is on the disk",
        one(stored),
    );
    page.counter("snin_sm_storage_failures", "How often something could not be stored", failures);
    let left_out = daemon.outlets.journal.left_out();
    page.counter(
        "snin_sm_events_left_out",
        "Events so frequent that they were counted only",
        left_out,
    );
    page.counter(
        "snin_sm_events_lost",
        "Events not written to the file",
        daemon.outlets.journal.lost(),
    );
}

fn one(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}
