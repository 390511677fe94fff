//! What there is to say of a subnet: for `--once`, and for who asks the daemon.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use snin_daemon::session::Expiry;
use snin_fabric::routing::{Engine, Lanes, Routing};
use snin_mad::SmState;
use snin_protocol::operator::Certificate;
use snin_protocol::operator::manager::{
    HostRequests, LinkLoads, ManagerPort, MasterSm, Smps, State, Status, Subnet,
};

use crate::port::{Counters, LocalInfo};
use snin_sm_core::intake::Intake;
use snin_sm_core::{Core, Manager};

/// As many missing, gone and slow things `/healthz` names.
const NAMED: usize = 8;

/// What kind of a fault it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Something is not as it should be.
    Missing,
    /// A cable, and with it a host, that was there.
    Gone,
    /// A link below what both its ends can do.
    Slow,
    /// A file that was refused.
    Refused,
    /// Something is not stored.
    Storage,
    /// A certificate that has ended, or ends within a month.
    Certificate,
}

impl FaultKind {
    /// Every kind, and its name in metrics.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Missing, "missing"),
        (Self::Gone, "gone"),
        (Self::Slow, "slow"),
        (Self::Refused, "refused"),
        (Self::Storage, "storage"),
        (Self::Certificate, "certificate"),
    ];
}

/// Something that somebody has to see to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Fault {
    /// Which kind.
    pub kind: FaultKind,
    /// What, by name, in one line.
    pub what: String,
}

/// What a manager is, where the specification names it.
pub(super) const fn state_of(state: SmState) -> Option<State> {
    match state {
        SmState::NotActive => Some(State::NotActive),
        SmState::Discovering => Some(State::Discovering),
        SmState::Standby => Some(State::Standby),
        SmState::Master => Some(State::Master),
        SmState::Unknown(_) => None,
    }
}

/// What hosts asked until now.
pub fn host_requests(manager: &Manager, intake: &Intake) -> HostRequests {
    let answered = manager.administration().answers.values().sum();
    HostRequests { answered, waiting: intake.waiting(), refused: intake.refused() }
}

/// What is beside the core, and belongs to its status.
pub struct Beside<'a> {
    /// The manager's port.
    pub info: &'a LocalInfo,
    /// What the port counted.
    pub counters: Counters,
    /// What the loop remembers of the core's reports.
    pub told: &'a Told,
    /// Why each store is not on the disk, where it is not, and how often it was not.
    pub stores: [(Option<&'a str>, u64); 2],
    /// What hosts asked.
    pub requests: HostRequests,
    /// How evenly links are loaded, and in which version of the view.
    pub loads: Option<(u64, LinkLoads)>,
    /// The certificate that has ended, or ends soon.
    pub certificate: Option<Expiry>,
    /// Connections of the control socket that were turned away.
    pub turned_away: u64,
}

/// A subnet and its manager as they are now.
pub fn status(core: &Core, beside: Beside<'_>) -> Status {
    let manager = core.manager();
    let Beside { info, counters, told, stores, requests, loads, certificate, turned_away } = beside;
    let (metrics, state) = (core.metrics(), manager.state());
    let view = core.view().filter(|_| told.up);
    let subnet = view.map(|view| Subnet {
        version: view.version(),
        nodes: view.topology().node_count(),
        switches: view.topology().switch_count(),
        hosts: view.routing().hosts.len(),
        trees: view.routing().forest.len(),
        lmc: view.routing().plan.lmc().bits(),
        highest_lid: view.addresses().top().0,
        unusable_pairs: view.unusable().len(),
        granted_sl: view.lanes().level,
        shared_lanes: view.lanes().shared.len(),
        lanes: shared_lanes(&view.lanes().shared),
        routing: view.routing().engine.to_string(),
        path_lanes: view.routing().lanes.as_ref().map_or(1, Lanes::count),
        relevelled_pairs: manager.relevelled_pairs(),
        routing_instead: routing_instead(manager.routing(), view.routing()),
        link_loads: loads.filter(|(version, _)| *version == view.version()).map(|(_, of)| of),
    });
    let not_stored = stores.iter().find_map(|(why, _)| *why).map(str::to_owned);
    let (gone, rivals) = manager.noticed();
    let slow = manager.slow();
    let mut missing = told.missing.clone();
    for rival in rivals.iter().map(ToString::to_string) {
        if !missing.contains(&rival) {
            missing.push(rival);
        }
    }
    Status {
        // Its own state is one of those.
        state: match core.is_read_only() {
            true => State::ReadOnly,
            false => state_of(state).unwrap_or(State::NotActive),
        },
        healthy: (state == SmState::Master || core.is_read_only())
            && subnet.as_ref().is_some_and(|subnet| subnet.routing_instead.is_none())
            && missing.is_empty()
            && gone.is_empty()
            && slow.is_empty()
            && told.partitions_refused.is_none()
            && told.qos_policy_refused.is_none()
            && told.trouble.is_none()
            && not_stored.is_none()
            && !certificate.as_ref().is_some_and(|it| it.is_over),
        port: ManagerPort {
            name: info.name.clone(),
            guid: info.guid,
            lid: view.map_or(info.lid, |view| view.manager()).0,
        },
        subnet,
        up_after_seconds: told.up_after_seconds,
        rivals: rivals.len(),
        missing,
        gone: gone.iter().map(ToString::to_string).collect(),
        slow: slow.iter().map(ToString::to_string).collect(),
        partitions_refused: told.partitions_refused.clone(),
        qos_policy_refused: told.qos_policy_refused.clone(),
        master_sm: core.master_sm().map(|(lid, reports_changes)| MasterSm {
            lid: lid.0,
            reports_changes,
            reports: metrics.reports,
        }),
        managers: told.managers.clone(),
        trouble: told.trouble.clone(),
        not_stored,
        storage_failures: stores.iter().map(|(_, failures)| failures).sum(),
        certificate: certificate.map(|Expiry { is_over, line }| Certificate { is_over, line }),
        clients_turned_away: turned_away,
        smps: Smps {
            sent: metrics.smps(),
            by_name: metrics.by_name().into_iter().collect(),
            retries: metrics.retries,
            answers: metrics.answers,
            unanswered: metrics.unanswered,
            lft_blocks: metrics.blocks_written,
            port_full: counters.full,
        },
        requests,
    }
}

/// What is said of ports at which granted traffic has no lane of its own.
fn shared_lanes(ports: &[String]) -> Option<String> {
    let named = ports.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match ports.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (count, verb) = (ports.len(), if ports.len() == 1 { "port has" } else { "ports have" });
    let said = format!(
        "{count} {verb} one lane for granted and ordinary traffic ({named}{more}): policy = \"strict\" keeps \
         their trees apart"
    );
    (!ports.is_empty()).then_some(said)
}

/// What the core reported last.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Whether the subnet is up by this manager's work.
    pub up: bool,
    /// When the subnet was first up.
    pub up_after_seconds: Option<f64>,
    /// The missing nodes, ports and tables.
    pub missing: Vec<String>,
    /// Why the file of partitions was not taken.
    pub partitions_refused: Option<String>,
    /// Why the file of levels of service was not taken.
    pub qos_policy_refused: Option<String>,
    /// Other managers, and what they are.
    pub managers: BTreeMap<String, String>,
    /// Why there are no tables.
    pub trouble: Option<String>,
}

/// Whether the core said why there are no tables, or none that fit.
fn is_troubled(status: &Status) -> bool {
    matches!(status.state, State::Master | State::ReadOnly) && status.trouble.is_some()
}

/// Why tables are not made as they are to be.
fn routing_instead(asked: Engine, routing: &Routing) -> Option<String> {
    let given = routing.given.as_ref();
    if let Some(why) = given.and_then(|given| given.refused.as_ref()) {
        return Some(format!("routes are made by updown, not by the tables of lfts_file: {why}"));
    }
    if let Some(left_out) = given.map(|given| given.left_out).filter(|&left_out| left_out > 0) {
        return Some(format!(
            "the tables of lfts_file do not lead {left_out} addresses to their ports from every switch: those are \
             routed up*/down*"
        ));
    }
    let is_instead = asked != Engine::Trees && routing.engine != asked;
    let is_instead = is_instead && routing.engine != Engine::Found;
    is_instead.then(|| {
        format!(
            "routes are made by {}, not by {asked}: the lanes that all links between switches have do not \
             suffice, or the fabric is too large",
            routing.engine
        )
    })
}

/// All that somebody has to see to.
pub fn faults(status: &Status) -> Vec<Fault> {
    let trouble = status.trouble.iter().filter(|_| is_troubled(status));
    let routing = status.subnet.iter().filter_map(|subnet| subnet.routing_instead.as_ref());
    let missing = trouble
        .chain(&status.missing)
        .chain(routing)
        .map(|what| (FaultKind::Missing, what.clone()));
    let gone = status.gone.iter().map(|what| (FaultKind::Gone, what.clone()));
    let slow = status.slow.iter().map(|what| (FaultKind::Slow, what.clone()));
    let refused = status.partitions_refused.iter();
    let refused = refused.map(|why| (FaultKind::Refused, format!("partitions as before: {why}")));
    let policy = status.qos_policy_refused.iter();
    let policy = policy.map(|why| (FaultKind::Refused, format!("QoS policy as before: {why}")));
    let refused = refused.chain(policy);
    let storage = status.not_stored.iter();
    let storage =
        storage.map(|why| (FaultKind::Storage, format!("the state is not stored: {why}")));
    let certificate = status.certificate.iter();
    let certificate = certificate.map(|it| (FaultKind::Certificate, it.line.clone()));
    let all = missing.chain(gone).chain(slow).chain(refused).chain(storage).chain(certificate);
    all.map(|(kind, what)| Fault { kind, what }).collect()
}

/// For `/healthz`: whether this manager does its work, and one line with all that somebody has to see to. A
/// cable that is cut is repaired and named; a master beside this one keeps it from every repair.
pub fn health(status: &Status) -> (bool, String) {
    let writes = status.state != State::Master || status.rivals == 0;
    let stores = status.not_stored.is_none();
    let certified = !status.certificate.as_ref().is_some_and(|it| it.is_over);
    let serves = status.subnet.is_some() || status.state == State::Standby;
    let works = writes && stores && certified && serves;
    let mut words = vec![status.state.to_string()];
    if status.subnet.is_none() && !is_troubled(status) {
        words.push(why_none(status).to_owned());
    }
    let is_of_fabric = |fault: &Fault| {
        matches!(fault.kind, FaultKind::Missing | FaultKind::Gone | FaultKind::Slow)
    };
    let (of_fabric, others): (Vec<_>, Vec<_>) = faults(status).into_iter().partition(is_of_fabric);
    let named = of_fabric.len();
    words.extend(of_fabric.into_iter().take(NAMED).map(|fault| fault.what));
    if named > NAMED {
        words.push(format!("and {} more", named - NAMED));
    }
    words.extend(others.into_iter().map(|fault| fault.what));
    (works, words.join("; "))
}

/// Why there is no subnet by this manager's work.
fn why_none(status: &Status) -> &str {
    match &status.trouble {
        Some(trouble) => trouble,
        None if status.state == State::Standby => "another subnet manager is master",
        None if status.smps.answers == 0 && status.smps.unanswered > 0 => {
            "nobody answers: where ports hide an M_Key that they had from here, name it in former_m_keys"
        }
        None => "not all of it was looked at yet",
    }
}

/// What `--once` says.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    let ManagerPort { name, guid, lid } = &status.port;
    line(format!("port {name} ({guid}), LID {lid}"));
    match &status.subnet {
        None => line(format!("no subnet: {}", why_none(status))),
        Some(Subnet {
            nodes,
            switches,
            hosts,
            trees,
            lmc,
            link_loads,
            path_lanes,
            relevelled_pairs,
            ..
        }) => {
            line(format!(
                "found {nodes} nodes: {switches} switches, {hosts} host ports; {trees} trees, LMC {lmc}"
            ));
            if status.state == State::ReadOnly {
                line("tables of another manager: they are read, and nothing is written".to_owned());
            }
            if *path_lanes > 1 {
                line(format!(
                    "paths take {path_lanes} virtual lanes: programs have to send with the service level of \
                     their path record"
                ));
            }
            if *relevelled_pairs > 0 {
                line(format!(
                    "since the last change {relevelled_pairs} pairs of switches have another service level: \
                     programs on their hosts have to ask for their paths again"
                ));
            }
            if let Some(LinkLoads { most, mean, .. }) = link_loads {
                line(format!(
                    "ordinary traffic, all hosts to all: {most} pairs on the most loaded link, {mean:.1} \
                     on average"
                ));
            }
        }
    }
    if let Some(lanes) = status.subnet.as_ref().and_then(|subnet| subnet.lanes.as_ref()) {
        line(lanes.clone());
    }
    if let Some(why) = status.subnet.as_ref().and_then(|subnet| subnet.routing_instead.as_ref()) {
        line(why.clone());
    }
    for (at, state) in &status.managers {
        line(format!("another subnet manager at {at}: {state}"));
    }
    for missing in &status.missing {
        line(format!("missing: {missing}"));
    }
    for gone in &status.gone {
        line(format!("gone: {gone}"));
    }
    for slow in &status.slow {
        line(format!("slow: {slow}"));
    }
    if let Some(why) = &status.partitions_refused {
        line(format!("partitions are as they were before: {why}"));
    }
    if let Some(why) = &status.qos_policy_refused {
        line(format!("the QoS policy is as it was before: {why}"));
    }
    if let Some(why) = &status.not_stored {
        line(format!("the state is not stored: {why}"));
    }
    if let Some(certificate) = &status.certificate {
        line(certificate.line.clone());
    }
    let Smps { sent, retries, lft_blocks, .. } = &status.smps;
    line(format!("{sent} SMPs, {retries} of them repeated; {lft_blocks} table blocks written"));
    if status.requests.refused > 0 {
        let refused = status.requests.refused;
        line(format!("{refused} requests of hosts were refused: too many came"));
    }
    line(match status.up_after_seconds {
        Some(seconds) => format!("up after {:.1} ms", seconds * 1e3),
        None => "NOT up".to_owned(),
    });
    text
}

#[cfg(test)]
mod tests {
    use snin_fabric::Guid;

    use super::*;

    /// A manager without a subnet.
    fn without(state: State, answers: u64, unanswered: u64) -> Status {
        Status {
            state,
            healthy: false,
            port: ManagerPort { name: "mlx5_0/1".to_owned(), guid: Guid(0), lid: 0 },
            subnet: None,
            master_sm: None,
            up_after_seconds: None,
            rivals: 0,
            missing: Vec::new(),
            gone: Vec::new(),
            slow: Vec::new(),
            partitions_refused: None,
            qos_policy_refused: None,
            managers: BTreeMap::new(),
            trouble: None,
            not_stored: None,
            storage_failures: 0,
            certificate: None,
            clients_turned_away: 0,
            smps: Smps { sent: 9, answers, unanswered, ..Smps::default() },
            requests: HostRequests::default(),
        }
    }

    /// Who watches `/healthz` sees a manager that can write nothing, and reads what else is to be seen to.
    #[test]
    fn health_names_what_somebody_has_to_see_to() {
        let subnet = Subnet {
            version: 1,
            nodes: 2,
            switches: 1,
            hosts: 1,
            trees: 1,
            lmc: 0,
            highest_lid: 2,
            unusable_pairs: 0,
            granted_sl: 1,
            shared_lanes: 0,
            lanes: None,
            routing: "trees".to_owned(),
            path_lanes: 1,
            relevelled_pairs: 0,
            routing_instead: None,
            link_loads: None,
        };
        let up = Status { subnet: Some(subnet), ..without(State::Master, 9, 0) };
        assert_eq!(health(&up), (true, "master".to_owned()));
        let cut = Status { gone: vec!["no link".to_owned()], ..up.clone() };
        assert_eq!(health(&cut), (true, "master; no link".to_owned()));
        let rival = Status { rivals: 1, missing: vec!["x is master too".to_owned()], ..up.clone() };
        assert_eq!(health(&rival), (false, "master; x is master too".to_owned()));
        let many = health(&Status { missing: vec!["a".to_owned(); 10], ..up.clone() }).1;
        assert!(many.ends_with("a; and 2 more"), "{many}");
        let ends = |is_over| Some(Certificate { is_over, line: "it ends".to_owned() });
        let soon = Status { certificate: ends(false), ..up.clone() };
        assert_eq!(health(&soon), (true, "master; it ends".to_owned()));
        let over = Status { certificate: ends(true), ..up.clone() };
        assert_eq!(health(&over), (false, "master; it ends".to_owned()));
        let file = Status { partitions_refused: Some("f:1: no".to_owned()), ..up };
        assert_eq!(health(&file), (true, "master; partitions as before: f:1: no".to_owned()));
        assert!(health(&without(State::Standby, 1, 0)).0);
        assert!(!health(&without(State::Master, 0, 1)).0);
    }

    #[test]
    fn ports_with_one_lane_are_said_in_a_line() {
        assert_eq!(shared_lanes(&[]), None);
        let one = shared_lanes(&["host0/1".to_owned()]).unwrap();
        assert!(one.starts_with("1 port has one lane"), "{one}");
        assert!(one.contains("(host0/1): policy = \"strict\""), "{one}");
        let many = shared_lanes(&vec!["a/1".to_owned(); 10]).unwrap();
        assert!(many.starts_with("10 ports have") && many.contains("and 2 more)"), "{many}");
    }

    #[test]
    fn nobody_answers_is_said_only_where_it_is_so() {
        let told = |status: &Status| text(status).contains("nobody answers");
        assert!(told(&without(State::Master, 0, 1)));
        assert!(!told(&without(State::Master, 5, 1)), "somebody did");
        assert!(!told(&without(State::Master, 0, 0)), "nobody was waited for in vain yet");
        let standby = without(State::Standby, 5, 0);
        assert!(text(&standby).contains("no subnet: another subnet manager is master"));
        assert!(!told(&standby));
    }
}
