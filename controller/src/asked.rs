//! Answers to `snin controller`, to clients of the API and to scrapers of metrics. What may be asked, and what is
//! answered: [`snin_protocol::operator::controller`].

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use snin_controller_core::Core;
use snin_controller_core::events::{GrantStatus, WindowReport};
use snin_daemon::control;
use snin_daemon::describer::{self, Making};
use snin_daemon::http::{Asked, Client, Refusal, Server, Wanted};
use snin_daemon::session::Expiry;
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::names::{HostNames, is_called};
use snin_fabric::{Guid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};
use snin_protocol::message::Verdict;
use snin_protocol::operator::controller::{
    ConnectionStatus, GetEvents, GetFabric, GetOwner, GetPath, GetWhy, Grant, Hop, Owners, Path,
    PolicyInForce, Request, SetPolicy, Status, Why, Window, Windows,
};
use snin_protocol::operator::{Certificate, Event, Events, Operation};

use crate::config::Source;
use crate::daemon::Daemon;
use crate::describing;
use crate::leading::Leading;
use crate::metrics;
use crate::principal::{ApiError, NotKnown, Permission, Principal};
use crate::punctuality::Decided;
use crate::viewing::not_clos;

/// What one is answered.
enum Answer {
    /// This.
    Now(Value),
    /// What is made of this, beside the loop.
    Long(Making),
    /// Every event after this number, and later ones.
    Follow(u64),
}

impl Daemon {
    /// Answers what is asked at the control socket and by HTTP.
    pub(crate) fn serve(&mut self) {
        for request in self.outlets.control.work() {
            let client = request.user.map_or(Client::Unknown, Client::User);
            let answer = self.answer(&client, &request.command, request.body);
            self.respond_at_socket(request.client, answer);
        }
        self.outlets.describer.work(&mut self.outlets.control);
        let servers = [&mut self.outlets.server, &mut self.outlets.api];
        let asked = servers.into_iter().flatten().flat_map(Server::work).collect::<Vec<_>>();
        for asked in asked {
            self.respond(asked);
        }
    }

    fn respond_at_socket(&mut self, client: control::Client, answer: Result<Answer, ApiError>) {
        let control = &mut self.outlets.control;
        match answer {
            Ok(Answer::Now(value)) => control.answer(client, &value),
            Ok(Answer::Long(making)) => {
                self.outlets.describer.ask(describer::Client::Socket(client), making, control);
            }
            Ok(Answer::Follow(since)) => {
                let events =
                    Events { events: self.outlets.journal.since(since).map(Event::from).collect() };
                let asked = GetEvents { since, follow: true };
                match said(&asked, events) {
                    Ok(value) => control.answer(client, &value),
                    Err(refused) => control.refuse(client, &refused.why),
                }
                self.outlets.journal.follow(client);
            }
            Err(ApiError { refusal: Refusal::NoRoom, why }) => control.no_room(client, &why),
            Err(ApiError { why, .. }) => control.refuse(client, &why),
        }
    }

    fn respond(&mut self, mut asked: Asked) {
        let answer = match &mut asked.wanted {
            Wanted::Metrics => return asked.metrics(metrics::page(self)),
            Wanted::Health => {
                let (well, text) = self.health();
                return asked.health(well, &text);
            }
            Wanted::Command(command, body) => {
                let (command, body) = (std::mem::take(command), body.take());
                self.answer(&asked.client, &command, body)
            }
        };
        match answer {
            Ok(Answer::Now(value)) => asked.answer(value),
            Ok(Answer::Long(making)) => {
                let client = describer::Client::Http(asked);
                self.outlets.describer.ask(client, making, &mut self.outlets.control);
            }
            Ok(Answer::Follow(since)) => self.outlets.journal.answer(asked, since),
            Err(refused) => asked.refuse(refused.refusal, &refused.why),
        }
    }

    /// The certificate that has ended, or ends within a month.
    fn certificate(&self) -> Option<Expiry> {
        self.listen.credentials.as_ref()?.expiry(SystemTime::now())
    }

    fn health(&self) -> (bool, String) {
        let (well, word) = self.grants_well();
        match self.certificate() {
            Some(Expiry { is_over, line }) => (well && !is_over, format!("{word}; {line}")),
            None => (well, word),
        }
    }

    fn grants_well(&self) -> (bool, String) {
        let (well, word) = match (&self.core, &self.manager) {
            _ if let Some(leading) = self.standby() => {
                let (well, word) = leading.standing();
                return match &self.known {
                    Some(_) => (well, word),
                    // It could not go on at once.
                    None => (false, format!("{word}; {}", NotKnown::WHY)),
                };
            }
            _ if self.state.trouble().is_some() => (false, "the state is not stored"),
            (None, _) => (false, NotKnown::WHY),
            (Some(core), _) if core.is_deposed() => (false, "another controller is in charge"),
            (Some(core), _) if let Some(term) = core.least_term() => {
                let word = format!(
                    "most agents have heard of a later term and follow no grant: set least_term = {} in \
                     controller.toml and start it again",
                    term.0
                );
                return (false, word);
            }
            (Some(_), Some(manager)) if !manager.is_open() => {
                (false, "the subnet manager is not heard")
            }
            _ => (true, "grants connections"),
        };
        (well, word.to_owned())
    }

    /// What to answer to a command whose keys are `body`'s. An agent asks for a `user` of its host.
    fn answer(
        &mut self,
        client: &Client,
        command: &str,
        mut body: Value,
    ) -> Result<Answer, ApiError> {
        let keys = body.as_object_mut();
        let user = keys.and_then(|keys| {
            keys.remove("command");
            keys.remove("user")
        });
        let request = Request::parse(command, body)?;
        let asks_of_it = matches!(
            request,
            Request::GetStatus(_) | Request::GetWindows(_) | Request::GetEvents(_)
        );
        if let Some(leading) = self.standby().filter(|_| !asks_of_it) {
            return Err(ApiError::failed(format_args!("this controller {}", leading.standing().1)));
        }
        let principal = &self.principal(client, user.as_ref().and_then(Value::as_u64));
        let value = match &request {
            Request::GetStatus(asked) => said(asked, self.status()),
            Request::GetWindows(asked) => {
                let count = usize::try_from(asked.count).unwrap_or(usize::MAX);
                let windows = self.windows.iter().skip(self.windows.len().saturating_sub(count));
                let windows = windows.map(|(report, decided)| window(report, decided)).collect();
                said(asked, Windows { windows })
            }
            Request::GetGrants(_) => {
                let core = self.core()?;
                let grants = core.grants().collect();
                return Ok(Answer::Long(describing::grants(Arc::clone(core.view()), grants)));
            }
            Request::GetFabric(asked) => return self.fabric(asked.clone()).map(Answer::Long),
            Request::SetPolicy(asked) => said(asked, self.change_policy(principal, asked)?),
            Request::GetPath(asked) => said(asked, path(self.core()?, asked)?),
            Request::GetOwner(asked) => said(asked, owner(self.core()?, asked)?),
            Request::GetWhy(asked) => said(asked, why(self.core()?, asked)?),
            Request::TestLink(asked) => said(asked, self.test_link(principal, asked)?),
            Request::GetLinkTest(asked) => said(asked, self.link_tested(asked)?),
            Request::GetEvents(GetEvents { since, follow: true }) => {
                return Ok(Answer::Follow(*since));
            }
            Request::GetEvents(asked) => {
                let events = self.outlets.journal.since(asked.since).map(Event::from).collect();
                said(asked, Events { events })
            }
            Request::GetSlices(asked) => said(asked, self.slices()?),
            Request::CreateSlice(asked) => said(asked, self.create_slice(principal, asked)?),
            Request::ResizeSlice(asked) => said(asked, self.resize_slice(principal, asked)?),
            Request::DeleteSlice(asked) => said(asked, self.delete_slice(principal, asked)?),
            Request::ExplainSlice(asked) => said(asked, self.explain_slice(asked)?),
            Request::GetSliceTrees(asked) => said(asked, self.slice_trees(asked)?),
            Request::Reserve(asked) => said(asked, self.reserve(principal, asked)?),
            Request::SetCollective(asked) => said(asked, self.set_collective(principal, asked)?),
            Request::Release(asked) => said(asked, self.release(principal, asked)?),
            Request::GetReservations(asked) => said(asked, self.reservations(principal)?),
        };
        value.map(Answer::Now)
    }

    /// Where this controller stands by, what it knows of that.
    fn standby(&self) -> Option<&Leading> {
        self.leading.as_ref().filter(|_| !self.begun)
    }

    pub(crate) fn core(&self) -> Result<&Core, NotKnown> {
        self.core.as_deref().ok_or(NotKnown)
    }

    fn status(&self) -> Status {
        let ((healthy, _), (_, state)) = (self.health(), self.grants_well());
        let core = self.core.as_deref();
        let counters = core.map(|core| {
            let counts = core.metrics();
            let all = counts.counters().into_iter().chain(counts.gauges());
            all.map(|(name, _, count)| (name.to_owned(), count)).collect()
        });
        let listen = self.agents.as_ref().map(|agents| agents.addresses());
        let (missed_by, last_missed) = self.counted.punctuality.missed();
        Status {
            name: self.identity.to_string(),
            healthy,
            state,
            standby: self.standby().is_some(),
            leader: self.standby().and_then(Leading::leader).map(str::to_owned),
            term: self.config.term.0,
            least_term: core.and_then(|core| core.least_term()).map(|term| term.0),
            policy: self.policy(),
            window_us: self.config.window.nanos() / 1_000,
            now_ns: self.clock.now().nanos(),
            listen: listen.into_iter().flatten().map(|at| at.to_string()).collect(),
            sessions: self.agents.as_ref().map_or(0, |agents| agents.peers().count()),
            certificate: self
                .certificate()
                .map(|Expiry { is_over, line }| Certificate { is_over, line }),
            clients_turned_away: self.outlets.control.turned_away(),
            not_stored: self.state.trouble(),
            storage_failures: self.state.failures(),
            view: core.map(|core| core.view().version()),
            not_clos: core.and_then(|core| not_clos(&**core.view())),
            found_tables: core.is_some_and(|core| core.view().choices().is_some()),
            counters: counters.unwrap_or_default(),
            missed_by,
            last_missed,
            last_window: self.windows.back().map(|(report, decided)| window(report, decided)),
        }
    }

    fn fabric(&self, asked: GetFabric) -> Result<Making, ApiError> {
        let source = match &self.source {
            Source::Manager(first, others) => {
                let all = std::iter::once(first).chain(others);
                all.map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            Source::File(path, _) | Source::Found(path, _) => path.display().to_string(),
        };
        Ok(describing::fabric(Arc::clone(self.core()?.view()), source, asked))
    }

    fn change_policy(
        &mut self,
        principal: &Principal,
        asked: &SetPolicy,
    ) -> Result<PolicyInForce, ApiError> {
        if let Some(policy) = asked.set {
            self.permit(principal, Permission::Operator, "set the policy")?;
            if self.manager.is_some() {
                let why = "the subnet manager holds the policy: `policy` in its configuration";
                return Err(ApiError::conflict(why));
            }
            self.take_policy(policy);
        }
        Ok(PolicyInForce { policy: self.policy() })
    }
}

/// An answer as it is sent.
pub(crate) fn said<O: Operation>(asked: &O, answer: O::Answer) -> Result<Value, ApiError> {
    asked.said(answer).map_err(ApiError::failed)
}

fn window(report: &WindowReport, decided: &Decided) -> Window {
    let deferred = report.deferred.iter();
    let (took_us, late_us) = decided.micros();
    let (missed, because) = decided.missed_before();
    Window {
        epoch: report.epoch.0,
        requested: report.requested,
        granted: report.granted,
        draining: report.draining,
        deferred: deferred.map(|(why, &count)| (why.to_string(), count)).collect(),
        refused: report.refused,
        moved: report.moved,
        paused: report.paused,
        links: report.links,
        max_link_load: report.max_link_load,
        took_us,
        late_us,
        missed,
        because,
    }
}

pub(crate) fn host_name(core: &Core, port: Guid) -> String {
    let topology = core.view().topology();
    let name = |host: &Host| topology.node(topology.port(host.port).node).name.to_string();
    core.host(port).map_or_else(|| port.to_string(), name)
}

fn grant(core: &Core, status: &GrantStatus) -> Grant {
    describing::grant(status, |port| host_name(core, port))
}

/// The way from one host to another.
/// Two hosts by name, port GUID or number.
fn ends(core: &Core, from: &str, to: &str) -> Result<(HostId, HostId), ApiError> {
    let view = core.view();
    let names = HostNames::of(view.topology(), &view.routing().hosts);
    let host = |name: &str| -> Result<HostId, ApiError> {
        Ok(names.find(name).map_err(|error| error.to_string())?)
    };
    Ok((host(from)?, host(to)?))
}

fn port_of(core: &Core, host: HostId) -> Option<Guid> {
    let view = core.view();
    view.routing().hosts.get(host).map(|host| view.topology().port(host.port).guid)
}

fn why(core: &Core, asked: &GetWhy) -> Result<Why, ApiError> {
    let ends = ends(core, &asked.from, &asked.to)?;
    let name =
        |host: HostId| port_of(core, host).map_or_else(String::new, |port| host_name(core, port));
    let pair = |&(from, to): &(Guid, Guid)| {
        format!("{} to {}", host_name(core, from), host_name(core, to))
    };
    let status = |status: snin_controller_core::window::ConnectionStatus| ConnectionStatus {
        connection: status.connection.0,
        tree: status.tree.map(|tree| tree.0),
        why: match status.verdict {
            None | Some(Verdict::Served) => None,
            Some(Verdict::Deferred(wait)) => Some(wait.to_string()),
            Some(Verdict::Refused(refusal)) => Some(refusal.to_string()),
        },
        windows_waited: status.waits,
        behind: status.behind.iter().map(pair).collect(),
    };
    let connections: Vec<ConnectionStatus> =
        core.connections_between(ends).into_iter().map(status).collect();
    let collective = core.collective_between(ends).map(|(owner, _)| owner.to_owned());
    let all = connections.iter().all(|status| status.why.is_none() && status.tree.is_some());
    let granted = collective.is_some() || all && !connections.is_empty();
    let found_trees = core.found_trees(ends);
    Ok(Why { from: name(ends.0), to: name(ends.1), granted, collective, connections, found_trees })
}

fn path(core: &Core, asked: &GetPath) -> Result<Path, ApiError> {
    let view = core.view();
    let ends = ends(core, &asked.from, &asked.to)?;
    let held = core.grants().filter(|grant| grant.hosts == Some(ends));
    let held = held.min_by_key(|grant| grant.from);
    let collective = core.collective_between(ends).filter(|_| held.is_none());
    let dlid = held.as_ref().map(|grant| grant.dlid).or_else(|| collective.map(|(_, dlid)| dlid));
    let Some((lid, hops)) = core.way(ends, dlid) else {
        return Err(ApiError::conflict(
            "the tables have no route from the source to the destination",
        ));
    };
    let hop = |&(switch, out): &(NodeIndex, PortNum)| Hop {
        switch: view.topology().node(switch).name.to_string(),
        port: out.0,
    };
    let name = |host: HostId| port_of(core, host).map(|port| host_name(core, port));
    Ok(Path {
        from: name(ends.0),
        to: name(ends.1),
        dlid: lid.0,
        grant: held.map(|held| grant(core, &held)),
        collective: collective.map(|(owner, _)| owner.to_owned()),
        hops: hops.iter().map(hop).collect(),
        found_tables: core.view().choices().is_some(),
    })
}

/// Whose a directed link is.
fn owner(core: &Core, asked: &GetOwner) -> Result<Owners, ApiError> {
    let topology = core.view().topology();
    let port = find_port(topology, &asked.port)?;
    let node = topology.node(topology.port(port).node);
    let owners = core.owners_of(node.guid, topology.num(port));
    Ok(Owners {
        link: topology.port_name(port),
        to: topology.peer(port).map(|peer| topology.port_name(peer)),
        owners: owners.iter().map(|held| grant(core, held)).collect(),
        found_tables: core.view().choices().is_some(),
    })
}

/// The port that `node/number` names.
fn find_port(topology: &Topology, text: &str) -> Result<PortIndex, String> {
    let parts =
        text.rsplit_once('/').and_then(|(node, port)| Some((node, port.parse::<u8>().ok()?)));
    let (name, number) =
        parts.ok_or_else(|| format!("`{text:.80}`: NODE/PORT is meant, such as leaf3/20"))?;
    let is_named = |&node: &NodeIndex| {
        let node = topology.node(node);
        let is_host = node.kind == NodeKind::Adapter && is_called(&node.name, name);
        *node.name == *name || name.parse() == Ok(node.guid) || is_host
    };
    let mut named = topology.nodes().filter(is_named);
    let node = named.next().ok_or_else(|| format!("no node is called {name:.80}"))?;
    if named.next().is_some() {
        return Err(format!("several nodes are called {name:.80}: use a GUID"));
    }
    topology
        .port_of(node, PortNum(number))
        .ok_or_else(|| format!("{name:.80} has no port {number}"))
}
