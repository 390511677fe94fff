//! What is asked on the control socket: what `snin agent` asks of an agent, and more.
//!
//! | command | answer |
//! |---|---|
//! | `status` | as an agent's; of several hosts the first is named, and counts are of all |
//! | `flows`, `mesh`, `events` | as an agent's, of all hosts; each row says of which |
//! | `histogram` | how long messages took that were sent from here, of all flows |
//! | `send` | messages to `peer`, `count` of `size` bytes, or `moves` |
//! | `jobs` | of what was to be sent, how much is |
//!
//! `moves` are a list of `from`, `to`, `bytes`, `messages`, `windows`. Where a host is not named, the first one is
//! meant.

use serde_json::{Map, Value, json};
use snin_agent_core::ControllerState;
use snin_daemon::control::Request;
use snin_fabric::Guid;
use snin_protocol::Time;

use crate::host::{Host, Job};
use crate::process::Process;

const COMMANDS: &str = "status, flows, mesh, histogram, events, send and jobs";

impl Process {
    pub(crate) fn answer(&mut self, request: &Request) {
        let answer = match request.command.as_str() {
            "status" => Ok(self.status()),
            "jobs" => Ok(self.jobs()),
            "flows" => Ok(self.rows(flows)),
            "mesh" => Ok(self.rows(mesh)),
            "histogram" => self.histogram(),
            "events" => {
                let since = request.body["since"].as_u64().unwrap_or(0);
                Ok(self.journal.since(since).collect())
            }
            "send" => self.send(&request.body),
            other => Err(format!("no command {other:.40}: there are {COMMANDS}")),
        };
        match answer {
            Ok(value) => self.control.answer(request.client, &value),
            Err(why) => self.control.refuse(request.client, &why),
        }
    }

    fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values().map(|(host, _)| host)
    }

    fn rows(&self, of: impl Fn(&Host) -> Vec<Value>) -> Value {
        self.hosts().flat_map(of).collect()
    }

    fn jobs(&self) -> Value {
        let open: usize = self.hosts().map(Host::open).sum();
        json!({ "open": open, "done": self.done, "refused": self.refused, "declined": self.declined })
    }

    fn status(&self) -> Value {
        let state = |state| self.hosts().filter(|host| host.controller() == state).count();
        let heard = state(ControllerState::Received);
        let controller = match heard == self.hosts.len() {
            true => ControllerState::Received,
            false if state(ControllerState::Lost) > 0 => ControllerState::Lost,
            false => ControllerState::None,
        };
        let mut counters = Map::new();
        for host in self.hosts() {
            for (name, _, count) in host.counters().all() {
                let sum = counters.get(name).and_then(Value::as_u64).unwrap_or(0);
                counters.insert(name.to_owned(), (sum + count).into());
            }
        }
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = |share: f64| place(&took, share).map(Time::nanos);
        json!({
            "guid": self.hosts.keys().next().map(Guid::to_string),
            "listen": format!("the software port of {}", self.fabric),
            "controller": controller.name(),
            "flows": self.hosts().map(|host| host.mesh().flows().count()).sum::<usize>(),
            "pairs": self.hosts().map(|host| host.mesh().pairs().count()).sum::<usize>(),
            "agents": self.hosts.len(),
            "controller_heard": heard,
            "open": self.hosts().map(Host::open).sum::<usize>(),
            "done": self.done,
            "refused": self.refused,
            "declined": self.declined,
            "received": self.hosts().map(Host::received).sum::<u64>(),
            "malformed": self.hosts().map(Host::malformed).sum::<u64>(),
            "took_ns": { "median": at(0.5), "p99": at(0.99), "max": at(1.0) },
            "counters": counters,
        })
    }

    fn histogram(&self) -> Result<Value, String> {
        let mut took: Vec<Time> = self.hosts().flat_map(Host::latencies).copied().collect();
        if took.is_empty() {
            return Err(
                "no message was sent from here yet: `snin agent send` sends some".to_owned()
            );
        }
        took.sort_unstable();
        let at = |share: f64| place(&took, share).map(Time::nanos);
        Ok(json!({
            "messages": took.len(), "min_ns": at(0.0), "median_ns": at(0.5), "p99_ns": at(0.99),
            "p999_ns": at(0.999), "p9999_ns": at(0.9999), "max_ns": at(1.0),
        }))
    }

    fn send(&mut self, body: &Value) -> Result<Value, String> {
        let alone = [body.clone()];
        let moves = body["moves"].as_array().map_or(&alone[..], Vec::as_slice);
        let (mut accepted, mut last) = (0_u64, Value::Null);
        let now = self.clock.now();
        for wanted in moves {
            let (from, job) = self.job(wanted)?;
            let (host, _) =
                self.hosts.get_mut(&from).ok_or_else(|| format!("no agent of {from} here"))?;
            match host.send(job, now) {
                Some(flow) => {
                    accepted += 1;
                    last = json!({ "flow": flow.0, "left": job.messages });
                }
                None => self.declined += 1,
            }
        }
        if accepted == 0 && body["moves"].is_null() {
            return Err("nothing to send, or as many flows as there may be".to_owned());
        }
        Ok(json!({ "accepted": accepted, "flow": last["flow"], "left": last["left"] }))
    }

    fn job(&self, wanted: &Value) -> Result<(Guid, Job), String> {
        // An agent's word for it, or the one of moves.
        let either = |one: &str, other: &str| match &wanted[one] {
            Value::Null => wanted[other].clone(),
            value => value.clone(),
        };
        let guid = |value: &Value, name: &str| -> Result<Option<Guid>, String> {
            let text = value.as_str();
            text.map(str::parse).transpose().map_err(|error| format!("`{name}`: {error}"))
        };
        let number = |value: Value, usual: u64| value.as_u64().unwrap_or(usual);
        let small = |value, name: &str, usual| {
            u32::try_from(number(value, usual)).map_err(|_| format!("`{name}` is too large"))
        };
        if !wanted["rate"].is_null() {
            return Err("`rate`: agents in software send as much as is granted".to_owned());
        }
        let first = self.hosts.keys().next().copied();
        let from = guid(&wanted["from"], "from")?.or(first).ok_or("`from` is a port's GUID")?;
        let peer = guid(&either("peer", "to"), "peer")?.ok_or("`peer` is a port's GUID")?;
        let messages = small(either("count", "messages"), "count", 1)?;
        let windows = small(wanted["windows"].clone(), "windows", 0)?;
        let bytes = number(either("size", "bytes"), 64);
        Ok((from, Job { peer, bytes, messages, windows, test: None }))
    }
}

/// The value below which this share of the others is.
fn place(sorted: &[Time], share: f64) -> Option<Time> {
    let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied()
}

fn flows(host: &Host) -> Vec<Value> {
    let guid = host.guid().to_string();
    let flows = host.mesh().flows().map(|flow| {
        let (peer, tree) = (flow.peer.to_string(), flow.current.map(|grant| grant.tree.0));
        json!({
            "from": guid, "flow": flow.flow.0, "peer": peer, "to": peer, "tree": tree,
            "grant": tree.map(|tree| json!({ "tree": tree })),
            "wait": flow.wait.map(|wait| wait.to_string()),
            "waiting": flow.waiting, "outstanding": flow.outstanding,
        })
    });
    flows.collect()
}

fn mesh(host: &Host) -> Vec<Value> {
    let guid = host.guid().to_string();
    let pairs = host.mesh().pairs().map(|pair| {
        json!({
            "from": guid, "peer": pair.peer.to_string(), "tree": pair.tree.0,
            "state": format!("{:?}", pair.state).to_lowercase(), "outstanding": pair.outstanding,
        })
    });
    pairs.collect()
}
