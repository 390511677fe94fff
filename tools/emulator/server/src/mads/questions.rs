//! What clients ask besides sending MADs: to be attached, and what their port is.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;

use snin_emulator::{Emulator, place};
use snin_fabric::{PortIndex, PortNum};
use snin_mad::Table as _;
use snin_protocol::software_port::management::{Ask, Connect, Question};
use tracing::{debug, warn};

use super::slot::Slot;
use super::{Mads, SLOTS, Sitting, address};

impl Mads {
    /// Answers what was asked.
    pub(super) fn answer_questions(&mut self, emulator: &mut Emulator) {
        loop {
            let mut bytes = [0; 256];
            let (size, from) = match self.control.recv_from(&mut bytes) {
                Ok(came) => came,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let Some(mut question) = Question::parse(&bytes[..size]) else {
                self.counts.malformed += 1;
                continue;
            };
            if let Err(why) = self.ask(&mut question, emulator) {
                self.counts.refused += 1;
                warn!("{:?} is refused: {why}", question.ask);
                question.ask = Ask::Refused;
            }
            // A client that does not wait for the answer does not get it.
            let _ = self.control.send_to_addr(&question.bytes(), &from);
        }
    }

    /// Puts the answer into the question.
    fn ask(&mut self, question: &mut Question, emulator: &mut Emulator) -> Result<(), String> {
        if question.ask == Ask::Connect {
            return self.connect(question, emulator);
        }
        let number = u16::try_from(question.slot).unwrap_or(u16::MAX);
        let slot = self.slots.get(&number).ok_or("no such client")?;
        let port = slot.port;
        let fabric = emulator.fabric();
        match question.ask {
            Ask::Connect | Ask::Refused => return Err("it is no question".to_owned()),
            Ask::Disconnect => {
                debug!("client {number} leaves");
                self.detach(number, emulator);
            }
            Ask::Port => {
                let info = fabric.port_info(port);
                question.put(&info.lid.0.to_ne_bytes());
                question.data[2] = info.state.code();
            }
            Ask::Vendor => {
                let info = fabric.node_info_at(port, port);
                question.put(&info.vendor_id.0.to_ne_bytes());
                question.data[4..8].copy_from_slice(&u32::from(info.device_id.0).to_ne_bytes());
                question.data[8..12].copy_from_slice(&info.revision.0.to_ne_bytes());
                question.data[16..24].copy_from_slice(&1_u64.to_ne_bytes());
            }
            Ask::Gid => {
                let guid = fabric.node_info_at(port, port).port_guid;
                question.put(&fabric.port_info(port).gid_prefix.0.to_be_bytes());
                question.data[8..16].copy_from_slice(&guid.0.to_be_bytes());
            }
            Ask::Guid => question.put(&fabric.node_info_at(port, port).node_guid.0.to_be_bytes()),
            Ask::NodeInfo => {
                let mut bytes = [0; 64];
                fabric.node_info_at(port, port).emit(&mut bytes);
                question.put(&bytes);
            }
            Ask::PortInfo => {
                let mut bytes = [0; 64];
                let num = PortNum(question.data[0]);
                let node = fabric.topology().port(port).node;
                let meant = fabric.topology().port_of(node, num).filter(|_| num != PortNum(0));
                fabric.port_info(meant.unwrap_or(port)).emit(&mut bytes);
                question.put(&bytes);
            }
            Ask::PKeys => {
                let keys = (0..32).flat_map(|entry| fabric.p_key(port, entry).0.to_be_bytes());
                question.put(&keys.collect::<Vec<u8>>());
            }
            Ask::SetManager => {
                let first = question.data.first_chunk::<4>();
                let manages = first.is_some_and(|word| u32::from_ne_bytes(*word) != 0);
                // A client that was killed just now does not keep the port.
                if manages && self.manager_at(port).is_some_and(|other| other != number) {
                    self.bury(emulator);
                }
                if manages && self.manager_at(port).is_some_and(|other| other != number) {
                    return Err("another subnet manager is at the port".to_owned());
                }
                if let (Some(slot), Some(sitting)) =
                    (self.slots.get_mut(&number), self.ports.get(&port))
                {
                    slot.manager = manages;
                    emulator.set_manager(sitting.client, self.manager_at(port).is_some());
                }
            }
        }
        Ok(())
    }

    fn manager_at(&self, port: PortIndex) -> Option<u16> {
        let manages =
            |(&number, slot): (&u16, &Slot)| (slot.port == port && slot.manager).then_some(number);
        self.slots.iter().find_map(manages)
    }

    fn connect(&mut self, question: &mut Question, emulator: &mut Emulator) -> Result<(), String> {
        let Connect { id, manager, place: name } = Connect::parse(&question.data);
        let topology = emulator.fabric().topology();
        let port = if name.is_empty() { self.first } else { place::end_port(topology, &name)? };
        let at = if name.is_empty() { topology.port_name(port) } else { name };
        if manager && self.manager_at(port).is_some() {
            return Err(format!("another subnet manager is at {at}"));
        }
        let free = (0..SLOTS as u16).find(|number| !self.slots.contains_key(number));
        let number = free.ok_or_else(|| format!("{SLOTS} clients are attached"))?;
        let socket = || {
            let peer = address(&self.name, &format!("in{id}"))?;
            let own = address(&self.name, &format!("out{number}"))?;
            let socket = UnixDatagram::bind_addr(&own)?;
            socket.connect_addr(&peer)?;
            socket.set_nonblocking(true)?;
            Ok((socket, peer))
        };
        let (socket, peer) = socket().map_err(|error: std::io::Error| error.to_string())?;
        let client = match self.ports.get(&port) {
            Some(sitting) => sitting.client,
            None => emulator.attach(port).map_err(|error| error.to_string())?,
        };
        let sitting = self.ports.entry(port);
        let sitting = sitting.or_insert_with(|| Sitting { client, slots: Default::default() });
        sitting.slots.insert(number);
        self.slots.insert(number, Slot::new(socket, peer, id, port, manager));
        if manager {
            emulator.set_manager(client, true);
        }
        self.counts.clients += 1;
        debug!("client {number} (process {id}) is at {at}");
        question.data = [0; 64];
        question.put(&Connect { id: number.into(), manager, place: at }.bytes());
        Ok(())
    }
}
