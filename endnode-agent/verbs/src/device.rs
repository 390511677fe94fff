//! Devices and their ports: which there are, which to use, what they say of themselves.

use std::ffi::CStr;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{
    ___ibv_query_port, IBV_GID_TYPE_ROCE_V2, ibv_close_device, ibv_context, ibv_device,
    ibv_free_device_list, ibv_get_device_list, ibv_get_device_name, ibv_gid, ibv_gid_entry,
    ibv_open_device, ibv_port_attr, ibv_port_state, ibv_query_device, ibv_query_gid,
};
use snin_fabric::{Guid, Lid, Lmc};

use super::attributes::Mtu;
use super::error::{VerbsError, check};
use super::path::{Gid, LocalAddresses, PeerAddress};
use super::raw;

/// An open device. It is closed when nothing made from it is left.
#[derive(Clone)]
pub struct Device {
    pub(super) inner: Arc<Opened>,
}

pub(super) struct Opened {
    pub(super) context: NonNull<ibv_context>,
    name: String,
    ports: u8,
}

// SAFETY: libibverbs may be called from any thread, also at the same time, for one context ("thread
// safe" in ibv_open_device's library description); the pointer is freed once, by the last owner.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the context is open, and every object made from it holds an `Arc` of this, so none is left.
        unsafe { ibv_close_device(self.context.as_ptr()) };
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.inner.name).finish()
    }
}

/// Which kind of link a port has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// LIDs, a subnet manager.
    InfiniBand,
    /// RoCE: GIDs made of IP addresses.
    Ethernet,
}

/// What an active port says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// What is at its other end.
    pub link_layer: LinkLayer,
    /// The largest packets that its link carries.
    pub mtu: Mtu,
    /// The longest message.
    pub longest_message: u32,
    /// Its addresses.
    pub addresses: LocalAddresses,
}

impl Port {
    /// The address by which peers know it.
    pub const fn address(&self) -> PeerAddress {
        match &self.addresses {
            LocalAddresses::Lids { base, .. } => PeerAddress::Lid(*base),
            LocalAddresses::Gids { base, .. } => PeerAddress::Gid(*base),
        }
    }
}

/// The devices that there are; freed as one.
struct List {
    first: NonNull<*mut ibv_device>,
    count: usize,
}

impl List {
    fn new() -> Result<Self, VerbsError> {
        let mut count = 0;
        // SAFETY: the call writes a number to `count` and returns a list of that length, or null.
        let first = unsafe { ibv_get_device_list(&raw mut count) };
        match (NonNull::new(first), usize::try_from(count)) {
            (Some(first), Ok(count)) if count > 0 => Ok(Self { first, count }),
            (Some(first), _) => {
                drop(Self { first, count: 0 });
                Err(VerbsError::NoDevices)
            }
            // Where the kernel has no RDMA at all, the call itself fails.
            (None, _) => Err(VerbsError::NoDevices),
        }
    }

    fn devices(&self) -> &[*mut ibv_device] {
        // SAFETY: the library returned `count` pointers at `first`, and they live as long as this list.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from ibv_get_device_list and is freed once; open devices do not need it.
        unsafe { ibv_free_device_list(self.first.as_ptr()) };
    }
}

fn name(device: *mut ibv_device) -> String {
    // SAFETY: the device is in a list that has not been freed.
    let name = unsafe { ibv_get_device_name(device) };
    if name.is_null() {
        return String::new();
    }
    // SAFETY: it is a C string inside the device, which lives as long as the list.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_string_lossy().into_owned()
}

/// The names of the devices that there are.
///
/// # Errors
/// When there are none.
pub fn device_names() -> Result<Vec<String>, VerbsError> {
    Ok(List::new()?.devices().iter().map(|&device| name(device)).collect())
}

/// Opens the device named, or the first, and finds the port numbered, or the first active one.
///
/// # Errors
/// When there is no such device or port, or it is not active.
pub fn choose(device: Option<&str>, port: Option<u8>) -> Result<(Device, Port), VerbsError> {
    let names = device_names()?;
    if let Some(wanted) = device {
        if !names.iter().any(|name| name == wanted) {
            let present = names.join(", ");
            return Err(VerbsError::NoSuchDevice { wanted: wanted.to_owned(), present });
        }
        return choose_port(Device::open(wanted)?, port);
    }
    let mut chosen = names.iter().map(|name| choose_port(Device::open(name)?, port));
    let active = chosen.find(|found| !matches!(found, Err(VerbsError::PortNotActive { .. })));
    active.unwrap_or_else(|| Err(VerbsError::NoActivePort(names.join(", "))))
}

fn choose_port(device: Device, port: Option<u8>) -> Result<(Device, Port), VerbsError> {
    let ports = device.inner.ports;
    let numbers = port.map_or(1..=ports, |port| port..=port);
    let mut last = None;
    for number in numbers {
        match device.port(number) {
            Ok(port) => return Ok((device, port)),
            Err(error) => last = Some(error),
        }
    }
    let device = device.inner.name.clone();
    let none = || VerbsError::NoSuchPort { device, port: port.unwrap_or(1), ports };
    Err(last.unwrap_or_else(none))
}

impl Device {
    /// Opens a device by its name.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be opened.
    pub fn open(wanted: &str) -> Result<Self, VerbsError> {
        let list = List::new()?;
        let Some(&device) = list.devices().iter().find(|&&device| name(device) == wanted) else {
            let names: Vec<String> = list.devices().iter().map(|&device| name(device)).collect();
            let present = names.join(", ");
            return Err(VerbsError::NoSuchDevice { wanted: wanted.to_owned(), present });
        };
        // SAFETY: the device is in a list that has not been freed.
        let context = unsafe { ibv_open_device(device) };
        let context = NonNull::new(context).ok_or_else(|| VerbsError::last("ibv_open_device"))?;
        let mut opened = Opened { context, name: wanted.to_owned(), ports: 0 };
        let mut attributes = raw::no_device();
        // SAFETY: the context is open, and the call writes one structure to `attributes`.
        let code = unsafe { ibv_query_device(context.as_ptr(), &raw mut attributes) };
        check("ibv_query_device", code)?;
        opened.ports = attributes.phys_port_cnt;
        Ok(Self { inner: Arc::new(opened) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What an active port says of itself.
    ///
    /// # Errors
    /// When there is no such port, or it is not active.
    pub fn port(&self, number: u8) -> Result<Port, VerbsError> {
        let (device, ports) = (self.inner.name.clone(), self.inner.ports);
        if !(1..=ports).contains(&number) {
            return Err(VerbsError::NoSuchPort { device, port: number, ports });
        }
        let mut attributes = raw::no_port();
        // SAFETY: the context is open, and the call writes at most one structure to `attributes`, all of
        // which has values already.
        let code =
            unsafe { ___ibv_query_port(self.inner.context.as_ptr(), number, &raw mut attributes) };
        check("ibv_query_port", code)?;
        let (state, remedy) = state(attributes.state);
        if attributes.state != ibv_port_state::IBV_PORT_ACTIVE {
            return Err(VerbsError::PortNotActive { device, port: number, state, remedy });
        }
        let nonsense = |what| VerbsError::Nonsense { device: device.clone(), port: number, what };
        let mtu = Mtu::from_code(attributes.active_mtu)
            .ok_or_else(|| nonsense(format!("MTU code {}", attributes.active_mtu)))?;
        let link_layer = match u32::from(attributes.link_layer) {
            // 0 is what providers from before RoCE say.
            0 | LINK_INFINIBAND => LinkLayer::InfiniBand,
            LINK_ETHERNET => LinkLayer::Ethernet,
            other => return Err(nonsense(format!("link layer {other}"))),
        };
        let addresses = match link_layer {
            LinkLayer::InfiniBand => LocalAddresses::Lids {
                base: Lid(attributes.lid),
                lmc: Lmc::new(attributes.lmc)
                    .ok_or_else(|| nonsense(format!("LMC {}", attributes.lmc)))?,
            },
            LinkLayer::Ethernet => self.gids(number, &attributes)?,
        };
        let longest_message = attributes.max_msg_sz;
        Ok(Port { number, link_layer, mtu, longest_message, addresses })
    }

    /// The port's GUID: the lower half of its first GID (IBA 4.1.1), `None` where that is empty.
    pub fn port_guid(&self, port: u8) -> Option<Guid> {
        let mut gid = ibv_gid { raw: [0; 16] };
        let context = self.inner.context.as_ptr();
        // SAFETY: the context is open, and the call writes one GID.
        let code = unsafe { ibv_query_gid(context, port, 0, &raw mut gid) };
        let lower = raw::gid_bytes(gid).last_chunk().map(|&lower| u64::from_be_bytes(lower));
        lower.filter(|&guid| code == 0 && guid != 0).map(Guid)
    }

    /// The addresses of a RoCE port: those made of IPv4 addresses, the lowest of which is the base address.
    fn gids(&self, port: u8, attributes: &ibv_port_attr) -> Result<LocalAddresses, VerbsError> {
        let ports = usize::from(self.inner.ports);
        let most = ports * usize::try_from(attributes.gid_tbl_len).unwrap_or_default();
        let mut entries: Vec<ibv_gid_entry> = (0..most).map(|_| raw::no_gid()).collect();
        // SAFETY: the context is open, and the call writes at most `most` entries of the size said.
        let count = unsafe {
            raw::_ibv_query_gid_table(
                self.inner.context.as_ptr(),
                entries.as_mut_ptr(),
                most,
                0,
                size_of::<ibv_gid_entry>(),
            )
        };
        let count = usize::try_from(count)
            .map_err(|_| VerbsError::code("ibv_query_gid_table", -(count as i32)))?;
        let usable = entries.iter().take(count).filter(|entry| {
            entry.port_num == u32::from(port) && entry.gid_type == IBV_GID_TYPE_ROCE_V2
        });
        let gids = usable.filter_map(|entry| {
            Some((u8::try_from(entry.gid_index).ok()?, Gid(raw::gid_bytes(entry.gid))))
        });
        let table: Vec<(u8, Gid)> = gids.filter(|(_, gid)| gid.is_ipv4()).collect();
        let base = table.iter().map(|&(_, gid)| gid).min();
        let base = base.ok_or_else(|| VerbsError::PortNotActive {
            device: self.inner.name.clone(),
            port,
            state: "without an IPv4 address",
            remedy: "`ip address add` one for each address of the port to its network device",
        })?;
        Ok(LocalAddresses::Gids { base, table })
    }
}

const LINK_INFINIBAND: u32 = 1;
const LINK_ETHERNET: u32 = 2;

const fn state(state: ibv_port_state::Type) -> (&'static str, &'static str) {
    match state {
        ibv_port_state::IBV_PORT_ACTIVE => ("active", ""),
        ibv_port_state::IBV_PORT_INIT => ("initialising", "no subnet manager has found it yet"),
        ibv_port_state::IBV_PORT_ARMED => ("armed", "the subnet manager has not finished"),
        _ => ("down", "check the cable, or `ip link set up` for RoCE"),
    }
}
