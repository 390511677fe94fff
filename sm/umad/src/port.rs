//! Ports: described, chosen by the caller, opened.

use std::fmt;
use std::io;
use std::os::fd::RawFd;

use crate::error::Error;
use crate::ffi::{self, Buffer, Handle, Place, PortFacts};

/// Bytes of a MAD.
pub const MAD: usize = ffi::MAD;

/// What there is to know of a port before it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// The adapter: `mlx5_0`.
    pub adapter: String,
    /// The port's number on it.
    pub number: u8,
    /// The port's GUID.
    pub guid: u64,
    /// The subnet's prefix.
    pub gid_prefix: u64,
    /// The first of its addresses; 0 where it has none.
    pub lid: u16,
    /// The logical state as PortInfo numbers it: 1 down, 2 init, 3 armed, 4 active.
    pub state: u32,
    /// The physical state as PortInfo numbers it: 5 is link up.
    pub physical: u32,
    /// Whether it is a port of an InfiniBand, and not of an Ethernet.
    pub infiniband: bool,
}

impl From<PortFacts> for Description {
    fn from(facts: PortFacts) -> Self {
        Self {
            // Kernels that know one link layer only do not name it, for which the library says "IB".
            infiniband: matches!(facts.link_layer.as_str(), "IB" | "InfiniBand"),
            adapter: facts.adapter,
            number: facts.number,
            guid: facts.guid,
            gid_prefix: facts.gid_prefix,
            lid: facts.lid,
            state: facts.state,
            physical: facts.physical,
        }
    }
}

impl fmt::Display for Description {
    /// `mlx5_0/1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.adapter, self.number)
    }
}

/// Every port of every adapter of this machine, in the order of names and numbers.
///
/// # Errors
/// When the kernel has no umad, or does not tell about an adapter.
pub fn ports() -> Result<Vec<Description>, Error> {
    let abi = ffi::plain_open("/sys/class/infiniband_mad/abi_version", false);
    ffi::plain_close(abi.map_err(Error::NoUmad)?);
    ffi::init().map_err(Error::NoUmad)?;
    let mut found = Vec::new();
    for name in ffi::adapters().map_err(Error::NoUmad)? {
        let ports = ffi::ports_of(&name).map_err(|error| Error::Adapter { name, error })?;
        found.extend(ports.into_iter().map(Description::from));
    }
    found.sort_by(|a, b| (&a.adapter, a.number).cmp(&(&b.adapter, b.number)));
    Ok(found)
}

/// A management class of which MADs shall come in.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    /// MgmtClass.
    pub class: u8,
    /// ClassVersion.
    pub version: u8,
    /// The requests that are answered here. Responses come to the asker.
    pub methods: &'static [u8],
}

/// What goes out.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// To this address; 0xFFFF on directed routes.
    pub lid: u16,
    /// To this queue pair.
    pub qp: u32,
    /// On this service level.
    pub sl: u8,
    /// With this key.
    pub q_key: u32,
    /// In the partition whose key has this place in the port's table.
    pub p_key_index: u16,
    /// The bytes.
    pub mad: &'a [u8; MAD],
    /// How long the kernel waits for the answer, in milliseconds. 0: none is expected.
    pub timeout_ms: u32,
}

/// What came in.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// From this address; 0xFFFF on directed routes.
    pub lid: u16,
    /// From this queue pair.
    pub qp: u32,
    /// On this service level.
    pub sl: u8,
    /// In the partition whose key has this place in the port's table.
    pub p_key_index: u16,
    /// The bytes.
    pub mad: Box<[u8; MAD]>,
    /// How many of them came.
    pub length: usize,
    /// Not an answer but the request itself, for which none came in time.
    pub timed_out: bool,
}

/// A port that is open. Sending and receiving may be done by different threads.
pub struct Open {
    handle: Handle,
    description: Description,
    agents: Vec<(u8, i32)>,
}

/// The port is a manager's as long as this lives.
pub struct Announced(RawFd);

impl Drop for Announced {
    fn drop(&mut self) {
        ffi::plain_close(self.0);
    }
}

impl Open {
    /// Opens a port for these classes.
    ///
    /// # Errors
    /// When it is not there, for lack of rights, when another program has a class, or when the kernel has no
    /// queue pair for one.
    pub fn new(description: Description, agents: &[Agent]) -> Result<Self, Error> {
        let Description { adapter, number, .. } = &description;
        let name = description.to_string();
        let handle =
            Handle::open(adapter, *number).map_err(|error| refused(name.clone(), "umad", error))?;
        let register = |agent: &Agent| {
            let number = handle.register(agent.class, agent.version, agent.methods);
            let class = agent.class;
            number
                .map(|number| (class, number))
                .map_err(|error| unregistered(name.clone(), class, error))
        };
        let agents = agents.iter().map(register).collect::<Result<_, _>>()?;
        Ok(Self { handle, description, agents })
    }

    /// What was known of it when it was opened.
    pub const fn description(&self) -> &Description {
        &self.description
    }

    /// Sets IsSM in the port's capabilities, by which other managers find this one, until the value that is
    /// returned goes.
    ///
    /// # Errors
    /// When the kernel has no such file, or does not let it be opened.
    pub fn announce(&self) -> Result<Announced, Error> {
        let Description { adapter, number, .. } = &self.description;
        let path = ffi::issm_path(adapter, *number);
        let opened = path.and_then(|path| ffi::plain_open(&path, true));
        let name = || self.description.to_string();
        opened.map(Announced).map_err(|error| refused(name(), "issm", error))
    }

    /// Sends by the agent of the MAD's class.
    ///
    /// # Errors
    /// What the kernel says: `WouldBlock` when its queue is full, `InvalidInput` when an answer to a request
    /// with this number is still waited for.
    pub fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let class = outgoing.mad[1];
        let agent = self.agents.iter().find(|&&(of, _)| of == class);
        let &(_, agent) = agent.ok_or(io::ErrorKind::Unsupported)?;
        let mut buffer = Buffer::new();
        let Outgoing { lid, qp, sl, q_key, p_key_index, .. } = *outgoing;
        buffer.set_place(Place { lid, qp, sl, q_key, p_key_index });
        *buffer.mad() = *outgoing.mad;
        self.handle.send(agent, &mut buffer, outgoing.timeout_ms)
    }

    /// Waits for what comes in; `None` when nothing did in time.
    ///
    /// # Errors
    /// What the kernel says: the adapter may be gone.
    pub fn receive(&self, timeout_ms: u32) -> io::Result<Option<Incoming>> {
        let mut buffer = Buffer::new();
        let Some(length) = self.handle.receive(&mut buffer, timeout_ms)? else { return Ok(None) };
        let Place { lid, qp, sl, p_key_index, .. } = buffer.place();
        let timed_out = buffer.status() != 0;
        let mad = Box::new(*buffer.mad());
        Ok(Some(Incoming { lid, qp, sl, p_key_index, mad, length, timed_out }))
    }
}

fn refused(name: String, device: &'static str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::Permission { name, device, error },
        _ => Error::Open { name, error },
    }
}

/// A class that another program has is EINVAL. EPROTONOSUPPORT comes before the kernel looks at the class's
/// version, methods or RMPP: no other way to register is taken on such a port (Linux, `ib_register_mad_agent`).
/// It is an Ethernet port, or one that mlx5 takes for one of several planes, from Linux 6.11 on.
fn unregistered(name: String, class: u8, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EPROTONOSUPPORT) => Error::NoQueuePair { name, class, error },
        _ => Error::Register { name, class, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_rights_is_one_line_that_says_whose_files_they_are() {
        let why = |number| {
            let error = io::Error::from_raw_os_error(number);
            refused("mlx5_0/1".to_owned(), "umad", error).to_string()
        };
        assert_eq!(
            why(libc::EACCES),
            "mlx5_0/1: Permission denied (os error 13): /dev/infiniband/umad* is for root and its group \
             (udev: group rdma, mode 0660)"
        );
        assert!(why(libc::ENODEV).starts_with("mlx5_0/1: cannot open it: No such device"));
    }

    #[test]
    fn a_class_that_is_taken_is_told_from_one_that_the_port_does_not_have() {
        let why = |number| {
            let error = io::Error::from_raw_os_error(number);
            unregistered("mlx5_0/1".to_owned(), 0x81, error).to_string()
        };
        assert_eq!(
            why(libc::EINVAL),
            "mlx5_0/1: management class 0x81 is taken (Invalid argument (os error 22)): does another manager run \
             here?"
        );
        assert_eq!(
            why(libc::EPROTONOSUPPORT),
            "mlx5_0/1: the kernel has no queue pair for management class 0x81 on this port (Protocol not \
             supported (os error 93)): docs/hardware.md, \"A port that the kernel does not let manage\""
        );
    }
}
