//! What a switch has to know of a frame: which addresses it is from and to, and whether it carries data.

use snin_fabric::Lid;

/// Port of RoCE v2 (IBA annex 17).
const ROCE: u16 = 4791;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
/// Opcodes of acknowledgements on reliable connections (IBA 9.2.1): plain, and of an atomic.
const ACKNOWLEDGEMENTS: [u8; 2] = [0x11, 0x12];

/// From which address to which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flow {
    /// The low 16 bits of the source's address.
    pub source: Lid,
    /// The low 16 bits of the destination's.
    pub destination: Lid,
}

/// What kind of packet a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Of a message.
    Data,
    /// Word that packets arrived: it goes the other way than what it acknowledges.
    Acknowledgement,
}

/// Reads an Ethernet frame; `None` if it is none of RoCE v2.
pub fn parse(frame: &[u8]) -> Option<(Flow, Kind)> {
    let (ethernet, packet) = frame.split_at_checked(14)?;
    let (source, destination, datagram) = match word(ethernet, 12)? {
        IPV4 => ipv4(packet)?,
        IPV6 => ipv6(packet)?,
        _ => return None,
    };
    let (udp, transport) = datagram.split_at_checked(8)?;
    if word(udp, 2)? != ROCE {
        return None;
    }
    // The base transport header has 12 bytes; the first is the opcode.
    let opcode = *transport.get(..12)?.first()?;
    let acknowledges = ACKNOWLEDGEMENTS.contains(&opcode);
    let kind = if acknowledges { Kind::Acknowledgement } else { Kind::Data };
    Some((Flow { source, destination }, kind))
}

fn ipv4(packet: &[u8]) -> Option<(Lid, Lid, &[u8])> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let is_first = word(packet, 6)? & 0x1fff == 0;
    let fits = packet[0] >> 4 == 4 && header >= 20 && is_first && *packet.get(9)? == UDP;
    fits.then_some((Lid(word(packet, 14)?), Lid(word(packet, 18)?), packet.get(header..)?))
}

fn ipv6(packet: &[u8]) -> Option<(Lid, Lid, &[u8])> {
    let fits = packet.first()? >> 4 == 6 && *packet.get(6)? == UDP;
    fits.then_some((Lid(word(packet, 22)?), Lid(word(packet, 38)?), packet.get(40..)?))
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([two[0], two[1]]))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame of RoCE v2 over IPv4.
    pub(crate) fn frame(source: u16, destination: u16, opcode: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(IPV4.to_be_bytes());
        frame.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0]);
        for low in [source, destination] {
            frame.extend([10, 9]);
            frame.extend(low.to_be_bytes());
        }
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0]);
        frame.push(opcode);
        frame.extend(vec![0; 11 + payload]);
        frame
    }

    #[test]
    fn roce_over_ipv4_and_ipv6_is_read_and_nothing_else() {
        let flow = Flow { source: Lid(32), destination: Lid(0x141) };
        let data = frame(32, 0x141, 4, 64);
        assert_eq!(parse(&data), Some((flow, Kind::Data)));
        assert_eq!(parse(&frame(32, 0x141, 0x11, 4)), Some((flow, Kind::Acknowledgement)));
        // The same over IPv6.
        let mut six = data[..12].to_vec();
        six.extend(IPV6.to_be_bytes());
        six.extend([0x60, 0, 0, 0, 0, 0, UDP, 64]);
        for low in [32, 0x141_u16] {
            six.extend([0xfd; 14]);
            six.extend(low.to_be_bytes());
        }
        six.extend(&data[34..]);
        assert_eq!(parse(&six), Some((flow, Kind::Data)));
        // Cut anywhere in its headers, or of another protocol or port.
        assert!((0..54).all(|length| parse(&data[..length]).is_none()));
        assert!((0..74).all(|length| parse(&six[..length]).is_none()));
        for (at, value) in [(12, 9), (14, 0x65), (14, 0x44), (21, 1), (23, 6), (37, 0)] {
            let mut other = data.clone();
            other[at] = value;
            assert_eq!(parse(&other), None, "byte {at} = {value}");
        }
    }
}
