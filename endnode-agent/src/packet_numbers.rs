//! How far the queue pairs of a device have come, as the kernel says it (rdma_netlink.h, what `rdma resource show
//! qp` asks): of each the number of the packet that it expects next. Which bytes went along which tree no counter
//! of a port says, but each connection has its own numbers, and a tree.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// `RDMA_NL_NLDEV` and two of its commands.
const CLIENT: u16 = 5;
const DEVICES: u16 = 1;
const QUEUE_PAIRS: u16 = 10;
/// Attributes.
const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
const TABLE: u16 = 19;
const ENTRY: u16 = 20;
const NUMBER: u16 = 21;
const EXPECTED: u16 = 23;
const STATE: u16 = 27;
/// `NLM_F_REQUEST | NLM_F_DUMP`, and the ends of an answer.
const ALL: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Bytes of a message's head, and of an attribute's.
const HEAD: usize = 16;
const ATTRIBUTE: usize = 4;
/// The longest datagram of an answer, and the most of them.
const ROOM: usize = 1 << 16;
const MOST: usize = 4096;
/// How long the kernel may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// States in which a queue pair expects packets: ready to receive, to send, draining, send queue error.
const CONNECTED: std::ops::RangeInclusive<u8> = 2..=5;

/// The number of the packet that each connected queue pair of a device expects next, by queue pair.
///
/// # Errors
/// When the kernel does not answer, or has no such device.
pub(crate) fn expected(device: &str) -> io::Result<BTreeMap<u32, u32>> {
    let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, Some(netlink::RDMA))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut index = None;
    ask(&socket, DEVICES, None, |attributes| {
        if value(attributes, DEVICE_NAME).is_some_and(|name| text(name) == device.as_bytes()) {
            index = value(attributes, DEVICE_INDEX).and_then(number);
        }
    })?;
    let index = index.ok_or_else(|| io::Error::other(format!("no device {device}")))?;
    let mut found = BTreeMap::new();
    ask(&socket, QUEUE_PAIRS, Some(index), |attributes| {
        let table = value(attributes, TABLE).unwrap_or_default();
        for (_, entry) in Attributes(table).filter(|&(kind, _)| kind == ENTRY) {
            let known = |kind| value(entry, kind).and_then(number);
            let state = value(entry, STATE).and_then(|state| state.first());
            let is_connected = state.is_some_and(|state| CONNECTED.contains(state));
            if let (true, Some(number), Some(expected)) =
                (is_connected, known(NUMBER), known(EXPECTED))
            {
                found.insert(number, expected);
            }
        }
    })?;
    Ok(found)
}

/// Has the kernel tell all that it knows of a kind; `each` is called with the attributes of every message.
fn ask(
    socket: &OwnedFd,
    command: u16,
    index: Option<u32>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<()> {
    rustix::net::send(socket, &question(command, index), SendFlags::empty())?;
    let mut room = vec![0; ROOM];
    for _ in 0..MOST {
        let (length, _) = rustix::net::recv(socket, room.as_mut_slice(), RecvFlags::empty())?;
        if read(&room[..length], &mut each)? {
            return Ok(());
        }
    }
    Err(io::Error::other("the kernel's answer does not end"))
}

fn question(command: u16, index: Option<u32>) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some(index) = index {
        body.extend(8_u16.to_ne_bytes());
        body.extend(DEVICE_INDEX.to_ne_bytes());
        body.extend(index.to_ne_bytes());
    }
    let mut message = Vec::new();
    message.extend(((HEAD + body.len()) as u32).to_ne_bytes());
    message.extend(((CLIENT << 10) | command).to_ne_bytes());
    message.extend(ALL.to_ne_bytes());
    message.extend([0; 8]); // a number of its own, and the kernel's choice of the asker's
    message.extend(body);
    message
}

/// Whether the answer ends in this datagram.
fn read(mut datagram: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    let short = || io::Error::other("an answer of the kernel's is cut short");
    while !datagram.is_empty() {
        let head: &[u8; HEAD] = datagram.first_chunk().ok_or_else(short)?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let body = datagram.get(HEAD..length).ok_or_else(short)?;
        match u16::from_ne_bytes([head[4], head[5]]) {
            DONE => return Ok(true),
            ERROR => {
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => each(body),
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Attributes one after the other: kind and value. What is cut short ends them.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head: &[u8; ATTRIBUTE] = self.0.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The upper bits say how the value is made.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = self.0.get(ATTRIBUTE..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn value(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    Attributes(attributes).find(|&(one, _)| one == kind).map(|(_, value)| value)
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.try_into().ok()?))
}

fn text(value: &[u8]) -> &[u8] {
    value.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((ATTRIBUTE + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEAD + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn an_answer_is_messages_of_attributes_and_ends_with_its_last() {
        let name = [attribute(DEVICE_NAME, b"rxe0\0"), attribute(DEVICE_INDEX, &[7, 0, 0, 0])];
        let mut datagram = message(9, &name.concat());
        datagram.extend(message(DONE, &[0; 4]));
        let mut seen = Vec::new();
        let mut each = |attributes: &[u8]| {
            let name = text(value(attributes, DEVICE_NAME).unwrap()).to_vec();
            seen.push((name, value(attributes, DEVICE_INDEX).and_then(number)));
        };
        assert!(read(&datagram, &mut each).unwrap());
        assert!(!read(&message(9, &name.concat()), &mut each).unwrap());
        assert_eq!(seen[0], (b"rxe0".to_vec(), Some(u32::from_ne_bytes([7, 0, 0, 0]))));
        assert_eq!(seen.len(), 2);
        let refused = message(ERROR, &(-13_i32).to_ne_bytes());
        assert_eq!(read(&refused, &mut |_| ()).unwrap_err().raw_os_error(), Some(13));
        assert!(read(&datagram[..20], &mut |_| ()).is_err());
        assert_eq!(Attributes(&[9, 0, 1, 0, 5]).next(), None, "cut short");
    }
}
