//! What is asked on the control socket: as of an agent, for all hosts of this process, and transfers between them
//! ([`snin_protocol::operator::agent`]). Where a host is not named, the first one is meant.

use std::collections::BTreeMap;

use serde_json::Value;
use snin_agent_core::ControllerState;
use snin_daemon::control;
use snin_protocol::Time;
use snin_protocol::operator::agent::{
    Flow, Flows, Histogram, Mesh, QueuePair, Request, Send, SentAll, Software, Started, Status,
    Took, Transfers,
};
use snin_protocol::operator::{Events, Operation as _};

use crate::host::{Host, Job};
use crate::process::Process;

impl Process {
    pub(crate) fn answer(&mut self, request: &control::Request) {
        let asked = Request::parse(&request.command, request.keys());
        match asked.and_then(|asked| self.perform(&asked)) {
            Ok(value) => self.control.answer(request.client, &value),
            Err(why) => self.control.refuse(request.client, &why),
        }
    }

    fn perform(&mut self, asked: &Request) -> Result<Value, String> {
        match asked {
            Request::GetStatus(asked) => asked.said(self.status()),
            Request::GetTransfers(asked) => asked.said(self.transfers()),
            Request::GetFlows(asked) => {
                asked.said(Flows { flows: self.hosts().flat_map(flows).collect() })
            }
            Request::GetMesh(asked) => {
                asked.said(Mesh { pairs: self.hosts().flat_map(pairs).collect() })
            }
            Request::GetHistogram(asked) => asked.said(self.histogram()?),
            Request::GetEvents(asked) => {
                let events = self.journal.since(asked.since).map(Into::into).collect();
                asked.said(Events { events })
            }
            Request::Send(asked) => {
                let begun = self.send(asked)?;
                asked.said(begun.ok_or("nothing to send, or as many flows as there may be")?)
            }
            Request::SendAll(asked) => {
                let mut accepted = 0;
                for send in &asked.sends {
                    accepted += u64::from(self.send(send)?.is_some());
                }
                asked.said(SentAll { accepted })
            }
            Request::GetJobs(_) | Request::BeginJob(_) => {
                Err("agents in software have no jobs".to_owned())
            }
        }
    }

    fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.values().map(|(host, _)| host)
    }

    fn transfers(&self) -> Transfers {
        Transfers {
            open: self.hosts().map(Host::open).sum(),
            done: self.done,
            refused: self.refused,
            declined: self.declined,
        }
    }

    fn status(&self) -> Status {
        let state = |state| self.hosts().filter(|host| host.controller() == state).count();
        let heard = state(ControllerState::Received);
        let controller = match heard == self.hosts.len() {
            true => ControllerState::Received,
            false if state(ControllerState::Lost) > 0 => ControllerState::Lost,
            false => ControllerState::None,
        };
        let mut counters = BTreeMap::new();
        for host in self.hosts() {
            for (name, _, count) in host.counters().all() {
                *counters.entry(name.to_owned()).or_insert(0) += count;
            }
        }
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = |share: f64| place(&took, share).map(Time::nanos);
        Status {
            guid: self.hosts.keys().next().copied(),
            listen: format!("the software port of {}", self.fabric),
            controller: controller.name().to_owned(),
            flows: self.hosts().map(|host| host.mesh().flows().count()).sum(),
            pairs: self.hosts().map(|host| host.mesh().pairs().count()).sum(),
            received: Vec::new(),
            clients: None,
            certificate: None,
            counters,
            io_counters: BTreeMap::new(),
            software: Some(Software {
                agents: self.hosts.len(),
                controller_heard: heard,
                messages: self.hosts().map(Host::received).sum(),
                malformed: self.hosts().map(Host::malformed).sum(),
                transfers: self.transfers(),
                took_ns: Took { median: at(0.5), p99: at(0.99), max: at(1.0) },
            }),
        }
    }

    fn histogram(&self) -> Result<Histogram, String> {
        let mut took: Vec<Time> = self.hosts().flat_map(Host::latencies).copied().collect();
        if took.is_empty() {
            return Err(
                "no message was sent from here yet: `snin agent send` sends some".to_owned()
            );
        }
        took.sort_unstable();
        let at = |share: f64| place(&took, share).map_or(0, Time::nanos);
        let sum: f64 = took.iter().map(|time| time.nanos() as f64).sum();
        Ok(Histogram {
            messages: took.len() as u64,
            min_ns: at(0.0),
            median_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: at(1.0),
            mean_ns: sum / took.len() as f64,
            ..Histogram::default()
        })
    }

    /// Begins a transfer; none where there are as many flows as may be.
    fn send(&mut self, asked: &Send) -> Result<Option<Started>, String> {
        if asked.rate.is_some() {
            return Err("`rate`: agents in software send as much as is granted".to_owned());
        }
        let first = self.hosts.keys().next().copied();
        let from = asked.from.or(first).ok_or("`from` is a port's GUID")?;
        let messages = u32::try_from(asked.count).map_err(|_| "`count` is too large")?;
        let windows = asked.windows.unwrap_or(0);
        let job = Job { peer: asked.peer, bytes: asked.size, messages, windows, test: None };
        let now = self.clock.now();
        let (host, _) =
            self.hosts.get_mut(&from).ok_or_else(|| format!("no agent of {from} here"))?;
        let flow = host.send(job, now);
        self.declined += u64::from(flow.is_none());
        Ok(flow.map(|flow| Started { flow: flow.0, left: messages.into() }))
    }
}

/// The value below which this share of the others is.
fn place(sorted: &[Time], share: f64) -> Option<Time> {
    let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied()
}

fn flows(host: &Host) -> impl Iterator<Item = Flow> {
    let of_host = |flow| Flow { from: Some(host.guid()), ..Flow::from(flow) };
    host.mesh().flows().map(of_host)
}

fn pairs(host: &Host) -> impl Iterator<Item = QueuePair> {
    let of_host = |pair| QueuePair { from: Some(host.guid()), ..QueuePair::from(pair) };
    host.mesh().pairs().map(of_host)
}
