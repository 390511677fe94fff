//! What there is to say of a subnet: for `--once`, and for who asks the daemon.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use snin_daemon::session::Expiry;
use snin_mad::SmState;

use super::loads::LinkLoads;
use crate::port::{Counters, LocalInfo};
use snin_sm_core::Manager;
use snin_sm_core::intake::Intake;

/// Rises when a field changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// As many missing, gone and slow things `/healthz` names.
const NAMED: usize = 8;

/// A subnet and its manager.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What the manager is: discovering, master, or standby where there is another.
    pub state: String,
    /// Whether the subnet is up, nothing is missing or gone, no link is slow, the partitions are those of the
    /// file, the state is stored, and the certificate, where there is one, has not ended.
    pub healthy: bool,
    /// The manager's port.
    pub port: PortSummary,
    /// The subnet, once it was up.
    pub subnet: Option<SubnetSummary>,
    /// Seconds from the start of the program until the subnet was up for the first time.
    pub up_after_seconds: Option<f64>,
    /// Masters with another key beside this one: nothing is written until they are gone.
    pub rivals: usize,
    /// What is not as it should be.
    pub missing: Vec<String>,
    /// Cables that were there, and with them hosts: the fabric does without them.
    pub gone: Vec<String>,
    /// Links whose width or speed is below what both ends can do.
    pub slow: Vec<String>,
    /// Why the file of partitions was not taken when it was last read.
    pub partitions_refused: Option<String>,
    /// Other managers, by `node/port`, and what they are.
    pub managers: BTreeMap<String, String>,
    /// Why there is no subnet, where the core said why.
    pub trouble: Option<String>,
    /// Why addresses, trees, groups or services are not stored, where they are not. It is tried again.
    pub not_stored: Option<String>,
    /// How often something could not be stored.
    pub storage_failures: u64,
    /// The certificate of sessions, or the CA's, where it has ended or ends within a month.
    pub certificate: Option<Expiry>,
    /// Connections of the control socket that were turned away: too many, or idle ones that made room.
    pub clients_turned_away: u64,
    /// What was sent.
    pub smps: SmpSummary,
    /// What hosts asked.
    pub requests: RequestSummary,
}

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

/// Which port.
#[derive(Clone, Debug, Serialize)]
pub struct PortSummary {
    /// As in messages.
    pub name: String,
    /// Its GUID.
    pub guid: String,
    /// Its first address, 0 while it has none.
    pub lid: u16,
}

/// What was found and made.
#[derive(Clone, Debug, Serialize)]
pub struct SubnetSummary {
    /// The version of the view.
    pub version: u64,
    /// All nodes.
    pub nodes: usize,
    /// Of those, switches.
    pub switches: usize,
    /// Host ports.
    pub hosts: usize,
    /// Routing trees.
    pub trees: usize,
    /// 2^lmc addresses a host port.
    pub lmc: u8,
    /// The highest address in use.
    pub highest_lid: u16,
    /// Pairs of a switch with hosts and a tree that must not be granted.
    pub unusable_pairs: usize,
    /// The service level of what is granted, which has a lane of its own; 0: it has none.
    pub granted_sl: u8,
    /// Ports at which granted traffic shares a lane with ordinary traffic, since they have one only.
    pub shared_lanes: usize,
    /// A line about them, where there are any.
    pub lanes: Option<String>,
    /// How evenly ordinary traffic loads the links; absent while it is counted.
    pub link_loads: Option<LinkLoads>,
}

/// SMPs of this run.
#[derive(Clone, Debug, Serialize)]
pub struct SmpSummary {
    /// All that were sent.
    pub sent: u64,
    /// Of those, by method and attribute.
    pub by_name: BTreeMap<String, u64>,
    /// Of those, the ones sent again.
    pub retries: u64,
    /// Answers that came.
    pub answers: u64,
    /// Questions given up.
    pub unanswered: u64,
    /// Blocks of forwarding tables written.
    pub lft_blocks: u64,
    /// How often the port had no room.
    pub port_full: u64,
}

/// Requests to subnet administration of this run.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct RequestSummary {
    /// Those that were answered.
    pub answered: u64,
    /// Those that wait for their turn now.
    pub waiting: usize,
    /// Those for which there was no room.
    pub refused: u64,
}

impl RequestSummary {
    /// As they are now.
    pub fn of(manager: &Manager, intake: &Intake) -> Self {
        let answered = manager.administration().answers.values().sum();
        Self { answered, waiting: intake.waiting(), refused: intake.refused() }
    }
}

impl Summary {
    /// As it is now. `told`: what the loop remembers of the core's reports. `stores`: why each is not on the disk,
    /// where it is not, and how often it was not. `loads`: of which version of the view, and how they were.
    pub fn of(
        manager: &Manager,
        info: &LocalInfo,
        counters: Counters,
        told: &Told,
        stores: &[(Option<&str>, u64)],
        requests: RequestSummary,
        loads: Option<(u64, LinkLoads)>,
    ) -> Self {
        let (metrics, state) = (manager.metrics(), manager.state());
        let view = manager.view().filter(|_| told.up);
        let subnet = view.map(|view| SubnetSummary {
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
        Self {
            schema_version: SCHEMA_VERSION,
            state: state.name().unwrap_or_default().to_lowercase(),
            healthy: state == SmState::Master
                && subnet.is_some()
                && missing.is_empty()
                && gone.is_empty()
                && slow.is_empty()
                && told.partitions_refused.is_none()
                && told.trouble.is_none()
                && not_stored.is_none(),
            port: PortSummary {
                name: info.name.clone(),
                guid: info.guid.to_string(),
                lid: view.map_or(info.lid, |view| view.manager()).0,
            },
            subnet,
            up_after_seconds: told.up_after_seconds,
            rivals: rivals.len(),
            missing,
            gone: gone.iter().map(ToString::to_string).collect(),
            slow: slow.iter().map(ToString::to_string).collect(),
            partitions_refused: told.partitions_refused.clone(),
            managers: told.managers.clone(),
            trouble: told.trouble.clone(),
            not_stored,
            storage_failures: stores.iter().map(|(_, failures)| failures).sum(),
            certificate: None,
            clients_turned_away: 0,
            smps: SmpSummary {
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
    /// Other managers, and what they are.
    pub managers: BTreeMap<String, String>,
    /// Why there are no tables.
    pub trouble: Option<String>,
}

impl Summary {
    /// Whether the core said why there are no tables, or none that fit.
    fn is_troubled(&self) -> bool {
        self.state == "master" && self.trouble.is_some()
    }

    /// All that somebody has to see to.
    pub fn faults(&self) -> Vec<Fault> {
        let trouble = self.trouble.iter().filter(|_| self.is_troubled());
        let missing = trouble.chain(&self.missing).map(|what| (FaultKind::Missing, what.clone()));
        let gone = self.gone.iter().map(|what| (FaultKind::Gone, what.clone()));
        let slow = self.slow.iter().map(|what| (FaultKind::Slow, what.clone()));
        let refused = self.partitions_refused.iter();
        let refused =
            refused.map(|why| (FaultKind::Refused, format!("partitions as before: {why}")));
        let storage = self.not_stored.iter();
        let storage =
            storage.map(|why| (FaultKind::Storage, format!("the state is not stored: {why}")));
        let certificate = self.certificate.iter();
        let certificate = certificate.map(|it| (FaultKind::Certificate, it.line.clone()));
        let all = missing.chain(gone).chain(slow).chain(refused).chain(storage).chain(certificate);
        all.map(|(kind, what)| Fault { kind, what }).collect()
    }

    /// For `/healthz`: whether this manager does its work, and one line with all that somebody has to see to. A
    /// cable that is cut is repaired and named; a master beside this one keeps it from every repair.
    pub fn health(&self) -> (bool, String) {
        let standby = self.state == "standby";
        let writes = self.state != "master" || self.rivals == 0;
        let stores = self.not_stored.is_none();
        let certified = !self.certificate.as_ref().is_some_and(|it| it.is_over);
        let works = writes && stores && certified && (self.subnet.is_some() || standby);
        let mut words = vec![self.state.clone()];
        if self.subnet.is_none() && !self.is_troubled() {
            words.push(self.why_none().to_owned());
        }
        let is_of_fabric = |fault: &Fault| {
            matches!(fault.kind, FaultKind::Missing | FaultKind::Gone | FaultKind::Slow)
        };
        let (of_fabric, others): (Vec<_>, Vec<_>) =
            self.faults().into_iter().partition(is_of_fabric);
        let named = of_fabric.len();
        words.extend(of_fabric.into_iter().take(NAMED).map(|fault| fault.what));
        if named > NAMED {
            words.push(format!("and {} more", named - NAMED));
        }
        words.extend(others.into_iter().map(|fault| fault.what));
        (works, words.join("; "))
    }

    /// Why there is no subnet by this manager's work.
    fn why_none(&self) -> &str {
        match &self.trouble {
            Some(trouble) => trouble,
            None if self.state == "standby" => "another subnet manager is master",
            None if self.smps.answers == 0 && self.smps.unanswered > 0 => {
                "nobody answers: where ports hide an M_Key that they had from here, name it in former_m_keys"
            }
            None => "not all of it was looked at yet",
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortSummary { name, guid, lid } = &self.port;
        writeln!(f, "port {name} ({guid}), LID {lid}")?;
        match &self.subnet {
            None => {
                writeln!(f, "no subnet: {}", self.why_none())?;
            }
            Some(SubnetSummary { nodes, switches, hosts, trees, lmc, link_loads, .. }) => {
                writeln!(
                    f,
                    "found {nodes} nodes: {switches} switches, {hosts} host ports; {trees} trees, LMC {lmc}"
                )?;
                if let Some(LinkLoads { most, mean, .. }) = link_loads {
                    writeln!(
                        f,
                        "ordinary traffic, all hosts to all: {most} pairs on the most loaded link, {mean:.1} on \
                         average"
                    )?;
                }
            }
        }
        if let Some(lanes) = self.subnet.as_ref().and_then(|subnet| subnet.lanes.as_ref()) {
            writeln!(f, "{lanes}")?;
        }
        for (at, state) in &self.managers {
            writeln!(f, "another subnet manager at {at}: {state}")?;
        }
        for missing in &self.missing {
            writeln!(f, "missing: {missing}")?;
        }
        for gone in &self.gone {
            writeln!(f, "gone: {gone}")?;
        }
        for slow in &self.slow {
            writeln!(f, "slow: {slow}")?;
        }
        if let Some(why) = &self.partitions_refused {
            writeln!(f, "partitions are as they were before: {why}")?;
        }
        if let Some(why) = &self.not_stored {
            writeln!(f, "the state is not stored: {why}")?;
        }
        if let Some(certificate) = &self.certificate {
            writeln!(f, "{}", certificate.line)?;
        }
        let SmpSummary { sent, retries, lft_blocks, .. } = &self.smps;
        writeln!(f, "{sent} SMPs, {retries} of them repeated; {lft_blocks} table blocks written")?;
        if self.requests.refused > 0 {
            writeln!(f, "{} requests of hosts were refused: too many came", self.requests.refused)?;
        }
        match self.up_after_seconds {
            Some(seconds) => writeln!(f, "up after {:.1} ms", seconds * 1e3),
            None => writeln!(f, "NOT up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manager without a subnet.
    fn without(state: &str, answers: u64, unanswered: u64) -> Summary {
        let smps = SmpSummary {
            sent: 9,
            by_name: BTreeMap::new(),
            retries: 0,
            answers,
            unanswered,
            lft_blocks: 0,
            port_full: 0,
        };
        Summary {
            schema_version: SCHEMA_VERSION,
            state: state.to_owned(),
            healthy: false,
            port: PortSummary { name: "mlx5_0/1".to_owned(), guid: String::new(), lid: 0 },
            subnet: None,
            up_after_seconds: None,
            rivals: 0,
            missing: Vec::new(),
            gone: Vec::new(),
            slow: Vec::new(),
            partitions_refused: None,
            managers: BTreeMap::new(),
            trouble: None,
            not_stored: None,
            storage_failures: 0,
            certificate: None,
            clients_turned_away: 0,
            smps,
            requests: RequestSummary::default(),
        }
    }

    /// Who watches `/healthz` sees a manager that can write nothing, and reads what else is to be seen to.
    #[test]
    fn health_names_what_somebody_has_to_see_to() {
        let subnet = SubnetSummary {
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
            link_loads: None,
        };
        let up = Summary { subnet: Some(subnet), ..without("master", 9, 0) };
        assert_eq!(up.health(), (true, "master".to_owned()));
        let cut = Summary { gone: vec!["no link".to_owned()], ..up.clone() };
        assert_eq!(cut.health(), (true, "master; no link".to_owned()));
        let rival =
            Summary { rivals: 1, missing: vec!["x is master too".to_owned()], ..up.clone() };
        assert_eq!(rival.health(), (false, "master; x is master too".to_owned()));
        let many = Summary { missing: vec!["a".to_owned(); 10], ..up.clone() };
        assert!(many.health().1.ends_with("a; and 2 more"), "{}", many.health().1);
        let ends = |is_over| Some(Expiry { is_over, line: "it ends".to_owned() });
        let soon = Summary { certificate: ends(false), ..up.clone() };
        assert_eq!(soon.health(), (true, "master; it ends".to_owned()));
        let over = Summary { certificate: ends(true), ..up.clone() };
        assert_eq!(over.health(), (false, "master; it ends".to_owned()));
        let file = Summary { partitions_refused: Some("f:1: no".to_owned()), ..up };
        assert_eq!(file.health(), (true, "master; partitions as before: f:1: no".to_owned()));
        assert!(without("standby", 1, 0).health().0);
        assert!(!without("master", 0, 1).health().0);
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
        let told = |summary: Summary| summary.to_string().contains("nobody answers");
        assert!(told(without("master", 0, 1)));
        assert!(!told(without("master", 5, 1)), "somebody did");
        assert!(!told(without("master", 0, 0)), "nobody was waited for in vain yet");
        let standby = without("standby", 5, 0);
        assert!(standby.to_string().contains("no subnet: another subnet manager is master"));
        assert!(!told(standby));
    }
}
