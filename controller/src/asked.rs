//! Answers to `snin controller`, to clients of the API and to scrapers of metrics.
//!
//! | command | answer |
//! |---|---|
//! | `status` | who it is, the fabric, counts |
//! | `windows` | the last windows, `count` of them |
//! | `grants` | every grant in force |
//! | `fabric` | hosts (those of `names`, if given), trees, unusable pairs, where that comes from |
//! | `policy` | the policy; with `set` another one, where no manager holds it |
//! | `path` | the way of what `from` sends to `to`: of its grant if it has one, else of ordinary traffic |
//! | `link_test` | messages of the agent at `port`, `messages` of them, to another: the test's number |
//! | `link_tested` | what came of the test with the number `id`: `arrived`, null where no agent is |
//! | `owner` | whose the directed link is that leaves `port`, as `leaf3/20` |
//! | `events` | the events after number `since`; with `follow` every later one, as a line |
//!
//! Slices and requests for later: `reserving`, `jobs`.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use snin_controller_core::Core;
use snin_controller_core::events::{GrantStatus, WindowReport};
use snin_daemon::http::{Asked, Client, Refusal, Server, Wanted};
use snin_daemon::session::Expiry;
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::names::{HostNames, is_called};
use snin_fabric::{Guid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};
use snin_protocol::view::Policy;

use crate::asker::{Asker, NotKnown, Rank, Refused};
use crate::config::Source;
use crate::daemon::{Daemon, not_clos};
use crate::describing::{self, Making};
use crate::metrics;
use crate::punctuality::Decided;

const COMMANDS: &str = "status, windows, grants, fabric, policy, path, owner, link_test, link_tested, events, \
                        slices, slice_create, \
                        slice_resize, slice_delete, slice_explain, slice_trees, request, release or requests";

impl Daemon {
    /// Answers what is asked at the control socket and by HTTP.
    pub(crate) fn serve(&mut self) {
        for request in self.outlets.control.work() {
            let client = request.user.map_or(Client::Unknown, Client::User);
            let answer = match self.long_answer(&request.command, &request.body) {
                Some(Ok(making)) => {
                    let client = describing::Client::Socket(request.client);
                    self.outlets.describer.ask(client, making, &mut self.outlets.control);
                    continue;
                }
                Some(Err(refused)) => Err(refused),
                None => self.answer(&client, &request.command, &request.body),
            };
            let control = &mut self.outlets.control;
            match answer {
                Ok(answer) => control.answer(request.client, &answer),
                Err(Refused { refusal: Refusal::NoRoom, why }) => {
                    control.no_room(request.client, &why);
                }
                Err(Refused { why, .. }) => control.refuse(request.client, &why),
            }
            if request.command == "events" && request.body["follow"] == true {
                self.outlets.journal.follow(request.client);
            }
        }
        self.outlets.describer.work(&mut self.outlets.control);
        let servers = [&mut self.outlets.server, &mut self.outlets.api];
        let asked = servers.into_iter().flatten().flat_map(Server::work).collect::<Vec<_>>();
        for asked in asked {
            self.respond(asked);
        }
    }

    fn respond(&mut self, asked: Asked) {
        match &asked.wanted {
            Wanted::Metrics => asked.metrics(metrics::page(self)),
            Wanted::Health => {
                let (well, text) = self.health();
                asked.health(well, &text);
            }
            Wanted::Command(command, body) if command == "events" && body["follow"] == true => {
                let since = body["since"].as_u64().unwrap_or(0);
                self.outlets.journal.answer(asked, since);
            }
            Wanted::Command(command, body) => {
                let answer = match self.long_answer(command, body) {
                    Some(Ok(making)) => {
                        let client = describing::Client::Http(asked);
                        let control = &mut self.outlets.control;
                        return self.outlets.describer.ask(client, making, control);
                    }
                    Some(Err(refused)) => Err(refused),
                    None => self.answer(&asked.client, command, body),
                };
                match answer {
                    Ok(answer) => asked.answer(answer),
                    Err(refused) => asked.refuse(refused.refusal, &refused.why),
                }
            }
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

    fn answer(&mut self, client: &Client, command: &str, body: &Value) -> Result<Value, Refused> {
        let asker = &self.asker(client, body);
        if let Some(answer) = self.reserve(asker, command, body) {
            return answer;
        }
        match command {
            "status" => Ok(self.status()),
            "windows" => {
                let count = body["count"].as_u64().unwrap_or(10) as usize;
                let skip = self.windows.len().saturating_sub(count);
                let windows = self.windows.iter().skip(skip);
                Ok(windows.map(|(report, decided)| window_json(report, decided)).collect())
            }
            "policy" => self.change_policy(asker, body),
            "path" => path(self.core()?, body),
            "owner" => owner(self.core()?, body),
            "link_test" => self.test_link(asker, body),
            "link_tested" => self.link_tested(body),
            "events" => {
                let since = body["since"].as_u64().unwrap_or(0);
                let events: Vec<Value> = self.outlets.journal.since(since).collect();
                Ok(json!({ "events": events }))
            }
            other => Err(format!("no command {other:.40}: {COMMANDS}").into()),
        }
    }

    pub(crate) fn core(&self) -> Result<&Core, NotKnown> {
        self.core.as_deref().ok_or(NotKnown)
    }

    fn status(&self) -> Value {
        let ((well, _), (_, word)) = (self.health(), self.grants_well());
        let mut counters = Map::new();
        if let Some(core) = &self.core {
            let counts = core.metrics();
            let all = counts.counters().into_iter().chain(counts.gauges());
            counters.extend(all.map(|(name, _, count)| (name.to_owned(), count.into())));
        }
        let listen: Vec<String> = match &self.agents {
            Some(agents) => agents.addresses().iter().map(ToString::to_string).collect(),
            None => Vec::new(),
        };
        let (missed_by, last_missed) = self.counted.punctuality.missed();
        json!({
            "name": self.identity.to_string(),
            "healthy": well,
            "state": word,
            "term": self.config.term.0,
            "least_term": self.core.as_ref().and_then(|core| core.least_term()).map(|term| term.0),
            "policy": self.policy().name(),
            "window_us": self.config.window.nanos() / 1_000,
            "now_ns": self.clock.now().nanos(),
            "listen": listen,
            "sessions": self.agents.as_ref().map_or(0, |agents| agents.peers().count()),
            "certificate": self.certificate(),
            "clients_turned_away": self.outlets.control.turned_away(),
            "not_stored": self.state.trouble(),
            "storage_failures": self.state.failures(),
            "view": self.core.as_ref().map(|core| core.view().version()),
            "not_clos": self.core.as_ref().and_then(|core| not_clos(&**core.view())),
            "counters": counters,
            "missed_by": missed_by,
            "last_missed": last_missed,
            "last_window": self.windows.back().map(|(report, decided)| window_json(report, decided)),
        })
    }

    /// What a long answer is made of, where the command has one.
    fn long_answer(&self, command: &str, body: &Value) -> Option<Result<Making, Refused>> {
        match command {
            "grants" => {
                Some(self.core().map_err(Refused::from).map(|core| {
                    describing::grants(Arc::clone(core.view()), core.grants().collect())
                }))
            }
            "fabric" => Some(self.core().map_err(Refused::from).map(|core| {
                let names = body["names"].as_array().map(|names| {
                    names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                });
                let source = match &self.source {
                    Source::Manager(address) => address.to_string(),
                    Source::File(path, _) => path.display().to_string(),
                };
                describing::fabric(Arc::clone(core.view()), source, names)
            })),
            _ => None,
        }
    }

    fn change_policy(&mut self, asker: &Asker, body: &Value) -> Result<Value, Refused> {
        if let Some(wanted) = body.get("set").and_then(Value::as_str) {
            let policy: Policy = wanted.parse()?;
            self.permit(asker, Rank::Operator, "set the policy")?;
            if self.manager.is_some() {
                let why = "the subnet manager holds the policy: `policy` in its configuration";
                return Err(Refused::conflict(why));
            }
            self.take_policy(policy);
        }
        Ok(json!({ "policy": self.policy().name() }))
    }
}

fn window_json(report: &WindowReport, decided: &Decided) -> Value {
    let deferred = report.deferred.iter();
    let deferred: Map<String, Value> =
        deferred.map(|(why, &count)| (why.to_string(), count.into())).collect();
    let mut window = json!({
        "epoch": report.epoch.0, "requested": report.requested, "granted": report.granted,
        "draining": report.draining, "deferred": deferred, "refused": report.refused, "moved": report.moved,
        "paused": report.paused, "links": report.links, "max_link_load": report.max_link_load,
    });
    window.as_object_mut().into_iter().for_each(|window| decided.describe(window));
    window
}

pub(crate) fn host_name(core: &Core, port: Guid) -> String {
    let topology = core.view().topology();
    let name = |host: &Host| topology.node(topology.port(host.port).node).name.to_string();
    core.host(port).map_or_else(|| port.to_string(), name)
}

fn grant_json(core: &Core, grant: &GrantStatus) -> Value {
    describing::grant_json(grant, |port| host_name(core, port))
}

/// The way from one host to another.
fn path(core: &Core, body: &Value) -> Result<Value, Refused> {
    let view = core.view();
    let names = HostNames::of(view.topology(), &view.routing().hosts);
    let host = |key: &str| -> Result<HostId, Refused> {
        let text = body[key].as_str().ok_or_else(|| format!("`{key}` is a host"))?;
        Ok(names.find(text).map_err(|error| error.to_string())?)
    };
    let ends = (host("from")?, host("to")?);
    let port = |host: HostId| {
        view.routing().hosts.get(host).map(|host| view.topology().port(host.port).guid)
    };
    let held = core.grants().filter(|grant| grant.hosts == Some(ends));
    let grant = held.min_by_key(|grant| grant.from);
    let Some((lid, hops)) = core.way(ends, grant.map(|grant| grant.dlid)) else {
        return Err(Refused::conflict(
            "the tables have no route from the source to the destination",
        ));
    };
    let hops: Vec<Value> = hops
        .iter()
        .map(|&(switch, out)| {
            json!({ "switch": view.topology().node(switch).name.to_string(), "port": out.0 })
        })
        .collect();
    Ok(json!({
        "from": port(ends.0).map(|port| host_name(core, port)),
        "to": port(ends.1).map(|port| host_name(core, port)),
        "dlid": lid.0,
        "grant": grant.map(|grant| grant_json(core, &grant)),
        "hops": hops,
    }))
}

/// Whose a directed link is.
fn owner(core: &Core, body: &Value) -> Result<Value, Refused> {
    let topology = core.view().topology();
    let text = body["port"].as_str().ok_or("`port` is NODE/PORT")?;
    let port = find_port(topology, text)?;
    let node = topology.node(topology.port(port).node);
    let owners = core.owners_of(node.guid, topology.num(port));
    Ok(json!({
        "link": topology.port_name(port),
        "to": topology.peer(port).map(|peer| topology.port_name(peer)),
        "owners": owners.iter().map(|grant| grant_json(core, grant)).collect::<Vec<_>>(),
    }))
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
