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

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use snin_controller_core::Core;
use snin_controller_core::events::{GrantStatus, WindowReport};
use snin_daemon::http::{Asked, Client, Server, Wanted};
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::names::{HostNames, is_called, node_name};
use snin_fabric::{Guid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};
use snin_protocol::view::Policy;

use crate::asker::{Asker, NotKnown, Rank, Refused};
use crate::config::Source;
use crate::daemon::{Daemon, not_clos};
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
            match self.answer(&client, &request.command, &request.body) {
                Ok(answer) => self.outlets.control.answer(request.client, &answer),
                Err(refused) => self.outlets.control.refuse(request.client, &refused.why),
            }
            if request.command == "events" && request.body["follow"] == true {
                self.outlets.journal.follow(request.client);
            }
        }
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
            Wanted::Command(command, body) => match self.answer(&asked.client, command, body) {
                Ok(answer) => asked.answer(answer),
                Err(refused) => asked.refuse(refused.refusal, &refused.why),
            },
        }
    }

    fn health(&self) -> (bool, String) {
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
            "grants" => {
                let core = self.core()?;
                Ok(core.grants().map(|grant| grant_json(core, &grant)).collect())
            }
            "fabric" => self.fabric(body),
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
        let (well, word) = self.health();
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

    /// Of the hosts, where `names` are given, only those so called, by their whole name or their host's: a
    /// launcher asks this for every job, and a large fabric's list of all takes long.
    fn fabric(&self, body: &Value) -> Result<Value, Refused> {
        let core = self.core()?;
        let wanted = body["names"].as_array();
        let wanted: Option<BTreeSet<&str>> =
            wanted.map(|names| names.iter().filter_map(Value::as_str).collect());
        let is_wanted = |name: &str| {
            let called = |wanted: &BTreeSet<&str>| {
                wanted.contains(name) || node_name(name).is_some_and(|node| wanted.contains(node))
            };
            wanted.as_ref().is_none_or(called)
        };
        let view = core.view();
        let (topology, routing) = (view.topology(), view.routing());
        let name = |switch: NodeIndex| topology.node(switch).name.to_string();
        let unusable = view.unusable().iter();
        let unusable =
            unusable.map(|&(switch, tree)| json!({ "switch": name(switch), "tree": tree.0 }));
        let trees = routing.forest.trees().iter();
        let trees = trees
            .map(|tree| json!({ "tree": tree.id.0, "root": name(tree.root), "plane": tree.plane }));
        let hosts = routing.hosts.iter().filter_map(|(id, host)| {
            let port = topology.port(host.port);
            let own = topology.node(port.node).name.to_string();
            is_wanted(&own).then(|| {
                let (node, switch) = (topology.node(port.node).guid, topology.node(host.switch).guid);
                json!({
                    "host": id.0, "name": own, "port": port.guid.to_string(), "switch": name(host.switch),
                    "node_guid": node.to_string(), "switch_guid": switch.to_string(),
                    "lid": view.addresses().base(host.port).map(|lid| lid.0),
                })
            })
        });
        let source = match &self.source {
            Source::Manager(address) => address.to_string(),
            Source::File(path, _) => path.display().to_string(),
        };
        Ok(json!({
            "source": source,
            "version": view.version(),
            "switches": topology.switch_count(),
            "lmc": routing.plan.lmc().bits(),
            "trees": trees.collect::<Vec<_>>(),
            "hosts": hosts.collect::<Vec<_>>(),
            "unusable": unusable.collect::<Vec<_>>(),
        }))
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
    json!({
        "from": host_name(core, grant.source), "from_port": grant.source.to_string(),
        "to": host_name(core, grant.destination), "to_port": grant.destination.to_string(),
        "connection": grant.connection.0, "class": grant.class, "tree": grant.tree.0, "dlid": grant.dlid.0.0,
        "from_ns": grant.from.nanos(), "until_ns": grant.until.nanos(), "pinned": grant.pinned,
    })
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
