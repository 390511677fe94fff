//! The calls, as `infiniband/umad.h` declares them, and nothing that decides anything.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_void};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

const NAME: usize = 20;
const MAX_DEVICES: usize = 32;
const MAX_PORTS: usize = 10;

/// `umad_port_t`.
#[repr(C)]
struct CPort {
    ca_name: [c_char; NAME],
    portnum: c_int,
    base_lid: c_uint,
    lmc: c_uint,
    sm_lid: c_uint,
    sm_sl: c_uint,
    state: c_uint,
    phys_state: c_uint,
    rate: c_uint,
    capmask: u32,
    gid_prefix: u64,
    port_guid: u64,
    pkeys_size: c_uint,
    pkeys: *mut u16,
    link_layer: [c_char; NAME],
}

/// `umad_ca_t`.
#[repr(C)]
struct CAdapter {
    ca_name: [c_char; NAME],
    node_type: c_uint,
    numports: c_int,
    fw_ver: [c_char; 20],
    ca_type: [c_char; 40],
    hw_ver: [c_char; 20],
    node_guid: u64,
    system_guid: u64,
    ports: [*mut CPort; MAX_PORTS],
}

/// `ib_mad_addr_t`.
#[repr(C)]
struct CAddress {
    qpn: u32,
    qkey: u32,
    lid: u16,
    sl: u8,
    path_bits: u8,
    grh: [u8; 4],
    gid: [u8; 16],
    flow_label: u32,
    pkey_index: u16,
    reserved: [u8; 6],
}

// Dynamically: a static one would call the kernel where no preload sees it.
#[link(name = "ibumad", kind = "dylib")]
unsafe extern "C" {
    fn umad_init() -> c_int;
    fn umad_get_cas_names(names: *mut [c_char; NAME], max: c_int) -> c_int;
    fn umad_get_ca(name: *const c_char, ca: *mut CAdapter) -> c_int;
    fn umad_release_ca(ca: *mut CAdapter) -> c_int;
    fn umad_get_issm_path(name: *const c_char, port: c_int, path: *mut c_char, max: c_int)
    -> c_int;
    fn umad_open_port(name: *const c_char, port: c_int) -> c_int;
    fn umad_close_port(port: c_int) -> c_int;
    fn umad_register(
        port: c_int,
        class: c_int,
        version: c_int,
        rmpp: u8,
        methods: *mut [c_long; 16 / size_of::<c_long>()],
    ) -> c_int;
    fn umad_size() -> usize;
    fn umad_get_mad(umad: *mut c_void) -> *mut c_void;
    fn umad_get_mad_addr(umad: *mut c_void) -> *mut CAddress;
    fn umad_set_addr(umad: *mut c_void, lid: c_int, qp: c_int, sl: c_int, qkey: c_int) -> c_int;
    fn umad_set_pkey(umad: *mut c_void, index: c_int) -> c_int;
    fn umad_status(umad: *mut c_void) -> c_int;
    fn umad_send(
        port: c_int,
        agent: c_int,
        umad: *mut c_void,
        length: c_int,
        timeout_ms: c_int,
        retries: c_int,
    ) -> c_int;
    fn umad_recv(port: c_int, umad: *mut c_void, length: *mut c_int, timeout_ms: c_int) -> c_int;
}

/// What the library says of a port, in host order.
pub(crate) struct PortFacts {
    pub(crate) adapter: String,
    pub(crate) number: u8,
    pub(crate) guid: u64,
    pub(crate) gid_prefix: u64,
    pub(crate) lid: u16,
    pub(crate) state: u32,
    pub(crate) physical: u32,
    pub(crate) link_layer: String,
}

fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn name(adapter: &str) -> io::Result<CString> {
    CString::new(adapter).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The library's calls return negative error numbers, or -1 and set `errno`.
fn failed(code: c_int) -> io::Error {
    let errno = io::Error::last_os_error();
    match code {
        -1 if errno.raw_os_error() != Some(0) => errno,
        code => io::Error::from_raw_os_error(-code),
    }
}

/// Opens a file by the call that ibsim's preload replaces; the standard library uses another.
pub(crate) fn plain_open(path: &str, write: bool) -> io::Result<RawFd> {
    let path = name(path)?;
    let flags = if write { libc::O_RDWR } else { libc::O_RDONLY } | libc::O_CLOEXEC;
    // SAFETY: `path` is a string that ends with NUL and lives through the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

/// Closes what [`plain_open`] opened.
pub(crate) fn plain_close(fd: RawFd) {
    // SAFETY: closing a number has no memory to harm; the caller owns it and forgets it.
    unsafe { libc::close(fd) };
}

pub(crate) fn init() -> io::Result<()> {
    // SAFETY: takes nothing; may be called again and again.
    match unsafe { umad_init() } {
        0.. => Ok(()),
        code => Err(failed(code)),
    }
}

/// The names of all adapters.
pub(crate) fn adapters() -> io::Result<Vec<String>> {
    let mut names = [[0; NAME]; MAX_DEVICES];
    // SAFETY: there is room for as many names as are asked for, each of the size the header says.
    let count = unsafe { umad_get_cas_names(names.as_mut_ptr(), MAX_DEVICES as c_int) };
    match usize::try_from(count) {
        Ok(count) => Ok(names.iter().take(count).map(|name| text(name)).collect()),
        Err(_) => Err(failed(count)),
    }
}

/// Every port of an adapter.
pub(crate) fn ports_of(adapter: &str) -> io::Result<Vec<PortFacts>> {
    let adapter = name(adapter)?;
    let mut ca = CAdapter {
        ca_name: [0; NAME],
        node_type: 0,
        numports: 0,
        fw_ver: [0; 20],
        ca_type: [0; 40],
        hw_ver: [0; 20],
        node_guid: 0,
        system_guid: 0,
        ports: [ptr::null_mut(); MAX_PORTS],
    };
    // SAFETY: the name ends with NUL, `ca` has the header's layout (a test compares it with the header's);
    // both live through the call.
    let code = unsafe { umad_get_ca(adapter.as_ptr(), &mut ca) };
    if code < 0 {
        return Err(failed(code));
    }
    let facts = |port: &CPort| PortFacts {
        adapter: text(&port.ca_name),
        number: port.portnum as u8,
        guid: u64::from_be(port.port_guid),
        gid_prefix: u64::from_be(port.gid_prefix),
        lid: port.base_lid as u16,
        state: port.state,
        physical: port.phys_state,
        link_layer: text(&port.link_layer),
    };
    // SAFETY: a pointer that is not null points to a port that the library allocated and that lives until
    // the release below.
    let found = ca.ports.iter().filter_map(|port| unsafe { port.as_ref() }).map(facts).collect();
    // SAFETY: what `umad_get_ca` filled in, once.
    unsafe { umad_release_ca(&mut ca) };
    Ok(found)
}

/// Where the file is that makes the port a manager's while it is open.
pub(crate) fn issm_path(adapter: &str, port: u8) -> io::Result<String> {
    let adapter = name(adapter)?;
    let mut path = [0; 256];
    let max = path.len() as c_int;
    // SAFETY: the name ends with NUL and there is room for `max` characters.
    let code = unsafe { umad_get_issm_path(adapter.as_ptr(), port.into(), path.as_mut_ptr(), max) };
    if code < 0 { Err(failed(code)) } else { Ok(text(&path)) }
}

/// A port that is open; `RawFd` because the preload's numbers are no descriptors of this process.
pub(crate) struct Handle(RawFd);

impl Handle {
    pub(crate) fn open(adapter: &str, port: u8) -> io::Result<Self> {
        let adapter = name(adapter)?;
        // SAFETY: the name ends with NUL.
        let fd = unsafe { umad_open_port(adapter.as_ptr(), port.into()) };
        match fd {
            0.. => Ok(Self(fd)),
            // The kernel refused; it left the reason in `errno`.
            code if code == -libc::EIO => Err(io::Error::last_os_error()),
            code => Err(failed(code)),
        }
    }

    /// The agent's number.
    pub(crate) fn register(&self, class: u8, version: u8, methods: &[u8]) -> io::Result<i32> {
        const BITS: usize = c_long::BITS as usize;
        let mut mask: [c_long; 16 / size_of::<c_long>()] = [0; 16 / size_of::<c_long>()];
        for &method in methods {
            mask[usize::from(method) / BITS] |= 1 << (usize::from(method) % BITS);
        }
        // The library says -EPERM, which is -1, for every reason of the kernel's, and leaves the reason in
        // `errno`. SAFETY: `mask` is 16 bytes, as the header says, and lives through the call.
        let agent = unsafe { umad_register(self.0, class.into(), version.into(), 0, &mut mask) };
        if agent < 0 { Err(failed(agent)) } else { Ok(agent) }
    }

    pub(crate) fn send(&self, agent: i32, buffer: &mut Buffer, timeout_ms: u32) -> io::Result<()> {
        let length = MAD as c_int;
        let timeout = timeout_ms.min(i32::MAX as u32) as c_int;
        // SAFETY: the buffer has room for the library's header and a whole MAD and lives through the call.
        let code = unsafe { umad_send(self.0, agent, buffer.as_mut_ptr(), length, timeout, 0) };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// How many bytes of a MAD there are; `None` when nothing came in time.
    pub(crate) fn receive(
        &self,
        buffer: &mut Buffer,
        timeout_ms: u32,
    ) -> io::Result<Option<usize>> {
        let mut length = MAD as c_int;
        // SAFETY: the buffer has room for the header and the `length` bytes that are asked for.
        let code =
            unsafe { umad_recv(self.0, buffer.as_mut_ptr(), &mut length, timeout_ms as c_int) };
        if code >= 0 {
            return Ok(Some(length.clamp(0, MAD as c_int) as usize));
        }
        let error = match code {
            -1 => io::Error::last_os_error(),
            code => io::Error::from_raw_os_error(-code),
        };
        match error.raw_os_error() {
            Some(libc::ETIMEDOUT | libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(error),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the number that `umad_open_port` gave, closed once.
        unsafe { umad_close_port(self.0) };
    }
}

/// Bytes of a MAD.
pub(crate) const MAD: usize = 256;
/// The library's header is at most this long.
const HEADER: usize = 64;

/// The library's header and a MAD.
#[repr(C, align(8))]
pub(crate) struct Buffer([u8; HEADER + MAD]);

/// Whereto, or from where.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) lid: u16,
    pub(crate) qp: u32,
    pub(crate) sl: u8,
    pub(crate) q_key: u32,
    pub(crate) p_key_index: u16,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        // SAFETY: takes nothing.
        let size = unsafe { umad_size() };
        assert!(size <= HEADER, "libibumad's header has {size} bytes, {HEADER} are known");
        Self([0; HEADER + MAD])
    }

    fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    pub(crate) fn set_place(&mut self, to: Place) {
        let (lid, qp) = (c_int::from(to.lid), to.qp as c_int);
        // SAFETY: both write the address within the header, for which there is room.
        unsafe {
            umad_set_addr(self.as_mut_ptr(), lid, qp, to.sl.into(), to.q_key as c_int);
            umad_set_pkey(self.as_mut_ptr(), to.p_key_index.into());
        }
    }

    pub(crate) fn place(&mut self) -> Place {
        // SAFETY: the address is within the header, which is aligned for its 32-bit fields.
        let address = unsafe { &*umad_get_mad_addr(self.as_mut_ptr()) };
        Place {
            lid: u16::from_be(address.lid),
            qp: u32::from_be(address.qpn),
            sl: address.sl,
            q_key: u32::from_be(address.qkey),
            p_key_index: address.pkey_index,
        }
    }

    pub(crate) fn mad(&mut self) -> &mut [u8; MAD] {
        // SAFETY: the MAD begins at most HEADER bytes into the buffer (`new` looked), so all of it is within;
        // bytes have no alignment.
        unsafe { &mut *umad_get_mad(self.as_mut_ptr()).cast() }
    }

    /// An error number: what became of something that was sent. 0 for what came in.
    pub(crate) fn status(&mut self) -> i32 {
        // SAFETY: reads a word of the header.
        unsafe { umad_status(self.as_mut_ptr()) }
    }
}

/// Sizes of what the library fills in, for the test that asks a C compiler.
#[cfg(test)]
pub(crate) const LAYOUT: [(&str, usize); 6] = [
    ("sizeof(umad_port_t)", size_of::<CPort>()),
    ("offsetof(umad_port_t, port_guid)", std::mem::offset_of!(CPort, port_guid)),
    ("offsetof(umad_port_t, link_layer)", std::mem::offset_of!(CPort, link_layer)),
    ("sizeof(umad_ca_t)", size_of::<CAdapter>()),
    ("offsetof(umad_ca_t, ports)", std::mem::offset_of!(CAdapter, ports)),
    ("sizeof(ib_mad_addr_t)", size_of::<CAddress>()),
];

const _: () = assert!(size_of::<Buffer>() == HEADER + MAD);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The header itself, by the compiler that everything here is linked with.
    #[test]
    fn layouts_are_those_of_the_header() {
        let folder = std::env::temp_dir().join(format!("snin-umad-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (source, program) = (folder.join("layout.c"), folder.join("layout"));
        let mut text = String::from(
            "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/umad.h>\nint main(void) {\n",
        );
        for (what, _) in LAYOUT {
            text += &format!("printf(\"%zu\\n\", (size_t){what});\n");
        }
        text += "printf(\"%zu\\n\", sizeof(struct ib_user_mad)); return 0; }\n";
        std::fs::write(&source, text).unwrap();
        let built = Command::new("cc").arg(&source).arg("-o").arg(&program).status().unwrap();
        assert!(built.success());
        let said = Command::new(&program).output().unwrap().stdout;
        let said: Vec<usize> =
            String::from_utf8(said).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        let known: Vec<usize> = LAYOUT.iter().map(|&(_, size)| size).chain([HEADER]).collect();
        assert_eq!(known, said);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
