//! Answers to `snin sm` and to scrapers of metrics.
//!
//! | command | answer |
//! |---|---|
//! | `status` | a [`Summary`](super::summary::Summary) |
//! | `sweep` | reads partitions again, looks at all; an [`Activity`](super::activity::Activity) when it is done |
//! | `rotate-keys` | gives every port another M_Key, where they are generated; answers as `sweep` does |
//! | `managers` | every subnet manager that is known, this one first: what it is, and why |
//! | `disable`, `standby`, `discover` | tells the manager with GUID `to` so; what became of it |
//! | `cluster` | what the cluster's service holds for managers, and whether this one may enforce |
//! | `priority` | this manager has the priority `value` from now on, until it is started again |
//! | `health` | the node with GUID `node` has joined or left: it is looked at |
//! | `dump` | the fabric as ibnetdiscover prints it, and who has which addresses as guid2lid has it |
//! | `database` | the subnet database as a file, its subnet called `name`; with `secrets`, for root, M_Keys too |
//! | `lfts` | the switches: GUID, name, LID; with `switch` its table as OpenSM dumps it, and its ports by LID |
//! | `config-...`, `port-...` | what is expected, and how ports are: see [`configured`](super::configured) |
//! | `events` | the events after number `since`; with `follow` every later one, as a line |
//!
//! What is long is made by [`describer`], beside the loop: `dump`, `database`, `lfts`, and versions of what is
//! expected.

use std::sync::Arc;

use serde_json::{Value, json};
use snin_daemon::control::{Client, Request};
use snin_daemon::describer::{self, Making};
use snin_daemon::http::Wanted;
use snin_fabric::{Guid, NodeIndex, dump, ibnet};
use snin_mad::SmState;
use snin_protocol::Time;

use super::exported::page;
use super::failure::Failure;
use super::reading::is_trusted;
use super::run::Daemon;
use snin_sm_core::control::Control;
use snin_sm_core::events::Event;
use snin_sm_core::mastership::Standing;
use snin_sm_core::{FabricView, merge};

const COMMANDS: &str = "status, sweep, rotate-keys, managers, disable, standby, discover, cluster, priority, \
                        health, dump, database, lfts, events, config-... or port-...";
/// Instructions to other managers that are under way at one time.
const MOST_INSTRUCTIONS: usize = 64;

impl Daemon {
    pub(super) fn serve(&mut self) -> Result<(), Failure> {
        let control = self.outlets.control.as_mut();
        for request in control.map_or_else(Vec::new, |control| control.work()) {
            let long = self.long_answer(&request);
            let Some(control) = &mut self.outlets.control else { continue };
            match long {
                Some(Ok(making)) => {
                    self.outlets.describer.ask(
                        describer::Client::Socket(request.client),
                        making,
                        control,
                    );
                }
                Some(Err(why)) => control.refuse(request.client, &why),
                None => self.answer(&request)?,
            }
        }
        if let Some(control) = &mut self.outlets.control {
            self.outlets.describer.work(control);
        }
        let server = self.outlets.server.as_mut();
        for asked in server.map_or_else(Vec::new, |server| server.work()) {
            let summary = self.summary();
            if asked.wanted == Wanted::Metrics {
                asked.metrics(page(self, &summary));
            } else {
                let (works, line) = summary.health();
                asked.health(works, &line);
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<(), Failure> {
        let client = request.client;
        let answer = match request.command.as_str() {
            "sweep" | "rotate-keys" if !self.manages() => Err(self.not_master()),
            "sweep" | "rotate-keys" if !self.manager.noticed().1.is_empty() => {
                let rival = &self.manager.noticed().1[0];
                Err(format!(
                    "{rival}, with another sm_key: nothing is written until one of the two ends"
                ))
            }
            "sweep" => {
                self.waiting.push(client);
                self.look_again()?;
                let Some(why) = self.told.partitions_refused.clone() else { return Ok(()) };
                // The sweep runs; who asked for it learns what it was not done for.
                self.waiting.retain(|waits| *waits != client);
                Err(format!("partitions are as they were before: {why}"))
            }
            "rotate-keys" if self.manager.generates_keys() => {
                self.waiting.push(client);
                return self.feed(Event::RotateKeys);
            }
            "rotate-keys" => Err("M_Keys are not generated: m_key_policy is given".to_owned()),
            "managers" => Ok(self.managers()),
            "cluster" => self.cluster(),
            "priority" => match request.body["value"].as_u64().and_then(|n| u8::try_from(n).ok()) {
                Some(priority @ 0..=15) => {
                    self.feed(Event::Priority(priority))?;
                    Ok(self.managers())
                }
                _ => Err("priority: value is a number from 0 to 15".to_owned()),
            },
            "health" => match body_guid(&request.body, "node") {
                Ok(node) => {
                    self.feed(Event::Health(node))?;
                    Ok(json!({ "node": node.to_string() }))
                }
                Err(why) => Err(why),
            },
            "disable" => return self.tell_manager(client, Control::Disable, &request.body),
            "standby" => return self.tell_manager(client, Control::Standby, &request.body),
            "discover" => return self.tell_manager(client, Control::Discover, &request.body),
            "status" => serde_json::to_value(self.summary()).map_err(|error| error.to_string()),
            "events" => {
                let since = request.body["since"].as_u64().unwrap_or(0);
                let events: Vec<Value> = self.outlets.journal.since(since).collect();
                Ok(json!({ "events": events }))
            }
            other if other.starts_with("config-") || other.starts_with("port-") => {
                match self.answer_configuration(request).transpose() {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            other => Err(format!("no command {other:.40}: {COMMANDS}")),
        };
        let Some(control) = &mut self.outlets.control else { return Ok(()) };
        match answer {
            Ok(answer) => control.answer(client, &answer),
            Err(why) => control.refuse(client, &why),
        }
        if request.command == "events" && request.body["follow"] == true {
            self.outlets.journal.follow(client);
        }
        Ok(())
    }

    /// What makes a long answer, where the command has one.
    fn long_answer(&self, request: &Request) -> Option<Result<Making, String>> {
        let body = request.body.clone();
        match request.command.as_str() {
            "dump" => {
                Some(self.view().map(|view| -> Making { Box::new(move || Ok(dumped(&view))) }))
            }
            "lfts" => {
                Some(self.view().map(|view| -> Making { Box::new(move || tables(&view, &body)) }))
            }
            "database" => Some(self.database(request)),
            "config-show" => self.show_kept(&body),
            "config-learn" => Some(self.learn(&body)),
            _ => None,
        }
    }

    fn database(&self, request: &Request) -> Result<Making, String> {
        let (body, secrets) = (&request.body, request.body["secrets"] == true);
        if secrets && !is_trusted(request.user) {
            let why =
                "M_Keys are shown to root and the manager's own user only: ask without --secrets";
            return Err(why.to_owned());
        }
        let name = body["name"].as_str().unwrap_or_default();
        let snapshot = self.manager.snapshot(name, self.clock.now());
        let snapshot = snapshot.ok_or("the manager does not know yet at which port it is")?;
        Ok(Box::new(move || Ok(json!({ "database": merge::write(&snapshot, secrets) }))))
    }

    fn manages(&self) -> bool {
        matches!(self.manager.state(), SmState::Master | SmState::Discovering)
    }

    fn not_master(&self) -> String {
        let state = self.manager.state().name().unwrap_or("unknown").to_lowercase();
        format!("this subnet manager is {state}: {}", self.manager.why())
    }

    fn managers(&self) -> Value {
        let seconds = |time: Time| time.nanos() as f64 / 1e9;
        let described = |manager: &Standing| {
            let state = manager.state.and_then(|state| state.name()).map(str::to_lowercase);
            json!({
                "guid": manager.guid.to_string(), "at": manager.at, "own": manager.own, "state": state,
                "priority": manager.priority, "heard_seconds_ago": manager.heard.map(seconds),
                "why": manager.why, "mirror": self.mirror_of(manager.guid),
            })
        };
        let all = self.manager.managers(self.clock.now());
        json!({ "managers": all.iter().map(described).collect::<Vec<_>>() })
    }

    /// Has another manager told something; the client hears when it has answered.
    fn tell_manager(
        &mut self,
        client: Client,
        control: Control,
        body: &Value,
    ) -> Result<(), Failure> {
        let to = body["to"].as_str().unwrap_or_default().parse::<Guid>();
        let refused = match to {
            Err(error) => format!("to: {error}"),
            Ok(_) if self.instructions.len() >= MOST_INSTRUCTIONS => {
                format!("{MOST_INSTRUCTIONS} instructions are under way: ask again")
            }
            Ok(to) => {
                self.instructions.push((to, control, client));
                return self.feed(Event::Instruct { to, control });
            }
        };
        if let Some(socket) = &mut self.outlets.control {
            socket.refuse(client, &refused);
        }
        Ok(())
    }

    fn view(&self) -> Result<Arc<FabricView>, String> {
        let view = self.manager.view().filter(|_| self.told.up);
        view.cloned().ok_or_else(|| "the subnet is not up".to_owned())
    }
}

fn body_guid(body: &Value, key: &str) -> Result<Guid, String> {
    let text = body[key].as_str().unwrap_or_default();
    text.parse().map_err(|error| format!("{key}: {error}"))
}

fn dumped(view: &FabricView) -> Value {
    json!({
        "version": view.version(),
        "topology": ibnet::write(&view.topology().with_addresses(view.addresses())),
        "guid2lid": dump::guid2lid::write(view.topology(), view.addresses()),
    })
}

/// One table, or which there are.
fn tables(view: &FabricView, body: &Value) -> Result<Value, String> {
    let (topology, addresses) = (view.topology(), view.addresses());
    let described = |switch: NodeIndex| {
        let node = topology.node(switch);
        let lid = addresses.base(topology.port0(switch)).unwrap_or_default();
        json!({ "guid": node.guid.to_string(), "name": node.name.to_string(), "lid": lid.0 })
    };
    let Some(wanted) = body.get("switch") else {
        return Ok(json!({ "switches": topology.switches().map(described).collect::<Vec<_>>() }));
    };
    let wanted = wanted.as_str().unwrap_or_default();
    let guid: Guid = wanted.parse().map_err(|error| format!("switch: {error}"))?;
    let mut switches = topology.switches().enumerate();
    let found = switches.find(|&(_, switch)| topology.node(switch).guid == guid);
    let (place, switch) = found.ok_or_else(|| format!("no switch has GUID {guid}"))?;
    let tables = &view.routing().tables;
    let table = tables.get(place).ok_or("it has no table")?;
    let mut answer = described(switch);
    answer["text"] = dump::lfts::opensm(topology, addresses, tables).nth(place).into();
    answer["ports"] = table.iter().map(|(lid, port)| (lid.0.to_string(), json!(port.0))).collect();
    Ok(answer)
}
