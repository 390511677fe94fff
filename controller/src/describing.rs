//! Long answers - every grant, the whole fabric - are made on a thread of their own: the window's thread only
//! gives away what they are made of. A large fabric's is a megabyte of text, and anybody may ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};

use serde_json::{Value, json};
use snin_controller_core::events::GrantStatus;
use snin_daemon::control::{self, Control};
use snin_daemon::http::{Asked, Refusal};
use snin_fabric::names::node_name;
use snin_fabric::view::View;
use snin_fabric::{Guid, NodeIndex};

/// Answers that wait to be made; more are refused.
const WAITING: usize = 8;

/// What an answer is made of.
pub(crate) type Making = Box<dyn FnOnce() -> Value + Send>;

/// Who asked.
pub(crate) enum Client {
    /// At the control socket.
    Socket(control::Client),
    /// By HTTP.
    Http(Asked),
}

/// See the module's documentation. The thread ends with the value, after the answer that it has begun.
pub(crate) struct Describer {
    jobs: SyncSender<(Client, Making)>,
    /// For the control socket, whose connections are this thread's: a whole line each.
    made: Receiver<(control::Client, String)>,
}

impl Describer {
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, next) = sync_channel::<(Client, Making)>(WAITING);
        let (answers, made): (Sender<_>, _) = channel();
        let work = move || {
            while let Ok((client, making)) = next.recv() {
                let value = making();
                match client {
                    Client::Http(asked) => asked.answer(value),
                    Client::Socket(client) => {
                        if answers.send((client, value.to_string())).is_err() {
                            break;
                        }
                    }
                }
            }
        };
        std::thread::Builder::new().name("answers".to_owned()).spawn(work)?;
        Ok(Self { jobs, made })
    }

    /// Has it made, or says that there is no room.
    pub(crate) fn ask(&self, client: Client, making: Making, control: &mut Control) {
        let Err(full) = self.jobs.try_send((client, making)) else { return };
        let why = "too many long answers are being made: ask again";
        let (TrySendError::Full((client, _)) | TrySendError::Disconnected((client, _))) = full;
        match client {
            Client::Socket(client) => control.refuse(client, why),
            Client::Http(asked) => asked.refuse(Refusal::NotReady, why),
        }
    }

    /// Says what is made.
    pub(crate) fn work(&self, control: &mut Control) {
        for (client, text) in self.made.try_iter() {
            control.answer_text(client, &text);
        }
    }
}

/// The names of hosts by their ports.
fn names(view: &dyn View) -> BTreeMap<Guid, String> {
    let topology = view.topology();
    let hosts = view.routing().hosts.iter();
    hosts
        .map(|(_, host)| {
            let port = topology.port(host.port);
            (port.guid, topology.node(port.node).name.to_string())
        })
        .collect()
}

/// Every one of these grants.
pub(crate) fn grants(view: Arc<dyn View>, grants: Vec<GrantStatus>) -> Making {
    Box::new(move || {
        let names = names(&*view);
        let name = |port: Guid| names.get(&port).cloned().unwrap_or_else(|| port.to_string());
        grants.iter().map(|grant| grant_json(grant, name)).collect()
    })
}

/// One grant, whose ends are called so.
pub(crate) fn grant_json(grant: &GrantStatus, name: impl Fn(Guid) -> String) -> Value {
    json!({
        "from": name(grant.source), "from_port": grant.source.to_string(),
        "to": name(grant.destination), "to_port": grant.destination.to_string(),
        "connection": grant.connection.0, "class": grant.class, "tree": grant.tree.0, "dlid": grant.dlid.0.0,
        "from_ns": grant.from.nanos(), "until_ns": grant.until.nanos(), "pinned": grant.pinned,
    })
}

/// The fabric, which comes from `source`. Of the hosts, where `names` are given, only those so called, by their
/// whole name or their host's: a launcher asks this for every job, and a large fabric's list of all takes long.
pub(crate) fn fabric(
    view: Arc<dyn View>,
    source: String,
    names: Option<BTreeSet<String>>,
) -> Making {
    Box::new(move || {
        let is_wanted = |name: &str| {
            let called = |wanted: &BTreeSet<String>| {
                wanted.contains(name) || node_name(name).is_some_and(|node| wanted.contains(node))
            };
            names.as_ref().is_none_or(called)
        };
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
        json!({
            "source": source,
            "version": view.version(),
            "switches": topology.switch_count(),
            "lmc": routing.plan.lmc().bits(),
            "trees": trees.collect::<Vec<_>>(),
            "hosts": hosts.collect::<Vec<_>>(),
            "unusable": unusable.collect::<Vec<_>>(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// An answer that takes for ever delays no other daemon's work, and requests that there is no room for are
    /// refused at once.
    #[test]
    fn long_answers_are_made_beside_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let mut control = Control::listen(&path, None).unwrap();
        let describer = Describer::start().unwrap();
        let (end, ends) = channel::<()>();
        let slow: Making = Box::new(move || {
            ends.recv().unwrap();
            json!("at last")
        });
        let patience = Some(Duration::from_secs(30));
        let ask = {
            let path = path.clone();
            move |number: u64| {
                let mut open = control::Connection::open(&path, patience).unwrap();
                open.ask(&json!({ "command": "fabric", "number": number }))
                    .map_err(|e| e.to_string())
            }
        };
        let mut clients = Vec::new();
        let mut making = Some(slow);
        for number in 0..=WAITING as u64 + 1 {
            let ask = ask.clone();
            clients.push(std::thread::spawn(move || ask(number)));
            let request = loop {
                if let Some(request) = control.work().pop() {
                    break request;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            let making: Making = making.take().unwrap_or_else(|| Box::new(move || json!(number)));
            describer.ask(Client::Socket(request.client), making, &mut control);
            // The first is being made before the others come.
            std::thread::sleep(Duration::from_millis(if number == 0 { 100 } else { 0 }));
        }
        let last = clients.pop().unwrap().join().unwrap();
        assert_eq!(last.unwrap_err(), "too many long answers are being made: ask again");
        end.send(()).unwrap();
        while clients.iter().any(|client| !client.is_finished()) {
            describer.work(&mut control);
            control.work();
            std::thread::sleep(Duration::from_millis(1));
        }
        let told: Vec<Value> =
            clients.into_iter().map(|client| client.join().unwrap().unwrap()).collect();
        assert_eq!((&told[0], &told[1], told.len()), (&json!("at last"), &json!(1), WAITING + 1));
    }
}
