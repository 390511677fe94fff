//! What `snin sm` and scrapers ask.
//!
//! | command | answer |
//! |---|---|
//! | `status` | a [`Summary`](super::summary::Summary) |
//! | `sweep` | looks at the whole fabric; an [`Activity`](super::activity::Activity) when that is done |
//! | `rotate-keys` | gives every port another M_Key, where they are generated; answers as `sweep` does |
//! | `dump` | the fabric as ibnetdiscover prints it, and who has which addresses as guid2lid has it |
//! | `database` | the subnet database as a file, its subnet called `name`; with `secrets` M_Keys too |
//! | `lfts` | the switches: GUID, name, LID; with `switch` its table as OpenSM dumps it, and its ports by LID |
//! | `config-...`, `port-...` | what is expected, and how ports are: see [`configured`](super::configured) |
//! | `events` | the events after number `since`; with `follow` every later one, as a line |

use serde_json::{Value, json};
use snin_daemon::control::Request;
use snin_daemon::page::Wanted;
use snin_fabric::{Guid, NodeIndex, dump, ibnet};
use snin_mad::SmState;

use super::exported::page;
use super::failure::Failure;
use super::run::Daemon;
use snin_sm_core::events::Event;
use snin_sm_core::{FabricView, merge};

const COMMANDS: &str =
    "status, sweep, rotate-keys, dump, database, lfts, events, config-... or port-...";

impl Daemon {
    pub(super) fn serve(&mut self) -> Result<(), Failure> {
        let control = self.outlets.control.as_mut();
        for request in control.map_or_else(Vec::new, |control| control.work()) {
            self.answer(&request)?;
        }
        let server = self.outlets.server.as_mut();
        for wanted in server.map_or_else(Vec::new, |server| server.work()) {
            let summary = self.summary();
            let text = match wanted {
                Wanted::Metrics(_) => page(self, &summary),
                Wanted::Health(_) => {
                    summary.to_string().lines().next().unwrap_or_default().to_owned()
                }
            };
            let Some(server) = &mut self.outlets.server else { break };
            match wanted {
                Wanted::Metrics(client) => server.metrics(client, &text),
                Wanted::Health(client) => {
                    let well = summary.subnet.is_some() || self.manager.state() == SmState::Standby;
                    server.health(client, well, &text);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<(), Failure> {
        let client = request.client;
        let answer = match request.command.as_str() {
            "sweep" => {
                self.waiting.push(client);
                return self.feed(Event::Resweep);
            }
            "rotate-keys" if self.manager.generates_keys() => {
                self.waiting.push(client);
                return self.feed(Event::RotateKeys);
            }
            "rotate-keys" => Err("M_Keys are not generated: m_key_policy is given".to_owned()),
            "status" => serde_json::to_value(self.summary()).map_err(|error| error.to_string()),
            "dump" => self.view().map(dumped),
            "database" => self.database(&request.body),
            "lfts" => self.view().and_then(|view| tables(view, &request.body)),
            "events" => {
                let since = request.body["since"].as_u64().unwrap_or(0);
                let events: Vec<Value> = self.outlets.journal.since(since).collect();
                Ok(json!({ "events": events }))
            }
            other if other.starts_with("config-") || other.starts_with("port-") => {
                self.answer_configuration(other, &request.body)
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

    fn database(&self, body: &Value) -> Result<Value, String> {
        let name = body["name"].as_str().unwrap_or_default();
        let snapshot = self.manager.snapshot(name, self.clock.now());
        let snapshot = snapshot.ok_or("the manager does not know yet at which port it is")?;
        Ok(json!({ "database": merge::write(&snapshot, body["secrets"] == true) }))
    }

    fn view(&self) -> Result<&FabricView, String> {
        let view = self.manager.view().filter(|_| self.told.up);
        view.map(|view| &**view).ok_or_else(|| "the subnet is not up".to_owned())
    }
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
