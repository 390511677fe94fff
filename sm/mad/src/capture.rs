//! MADs as a packet capture that Wireshark reads: bytes out; where they go is the caller's business.
//!
//! A MAD by itself says too little, so each one is wrapped in the packet it travels in (LRH, BTH, DETH, the
//! MAD, the two CRCs) and that in an ERF record, the one link type (197) by which Wireshark's reader takes
//! InfiniBand from a pcap file; it refuses LINKTYPE_INFINIBAND (247). The CRCs are zeros.

use std::io::{self, Write};

use snin_fabric::Lid;

use crate::mad::Mad;
use crate::wire::{PKey, QKey};

/// Bytes of one record: pcap 16, ERF 16, LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4, VCRC 2.
pub const RECORD: usize = 16 + ERF + PACKET;

const ERF: usize = 16;
const PACKET: usize = 8 + 12 + 8 + 256 + 4 + 2;

/// What a file begins with: pcap 2.4, times in nanoseconds, link type ERF.
pub const FILE_HEADER: [u8; 24] = {
    let mut header = [0; 24];
    put(&mut header, 0, &0xA1B2_3C4D_u32.to_le_bytes());
    put(&mut header, 4, &[2, 0, 4, 0]);
    put(&mut header, 16, &u16::MAX.to_le_bytes());
    put(&mut header, 20, &197_u32.to_le_bytes());
    header
};

/// The packet around a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// From.
    pub source: Lid,
    /// To.
    pub destination: Lid,
    /// Service level.
    pub sl: u8,
    /// From this queue pair: 0 for subnet management, else 1.
    pub source_qp: u32,
    /// To this one.
    pub destination_qp: u32,
    /// In this partition.
    pub p_key: PKey,
    /// With this key.
    pub q_key: QKey,
}

impl Packet {
    /// As managers and agents send it: SMPs between QP0s (IBA 13.5.1.1), all else between QP1s with
    /// their well-known key (IBA 10.2.4).
    pub fn around(mad: &Mad, source: Lid, destination: Lid) -> Self {
        let subnet = mad.header().class().is_subnet();
        let (qp, q_key) = if subnet { (0, 0) } else { (1, 0x8001_0000) };
        Self {
            source,
            destination,
            sl: 0,
            source_qp: qp,
            destination_qp: qp,
            p_key: PKey::DEFAULT,
            q_key: QKey(q_key),
        }
    }
}

/// A capture that is being written.
pub struct Recording<W> {
    to: W,
}

impl<W: Write> Recording<W> {
    /// Begins with what a file begins with.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(&FILE_HEADER)?;
        to.flush()?;
        Ok(Self { to })
    }

    /// Adds a MAD that passed `time` nanoseconds after the epoch.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, time: u64, from: Lid, to: Lid, mad: &Mad) -> io::Result<()> {
        self.to.write_all(&record(time, &Packet::around(mad, from, to), mad))
    }

    /// Has everything written that was added.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// One record: `mad` in `packet`, `time` nanoseconds after the epoch that the reader shall show.
pub fn record(time: u64, packet: &Packet, mad: &Mad) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    let length = (ERF + PACKET) as u32;
    let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
    // pcap: seconds, nanoseconds, bytes here, bytes there.
    put(&mut record, 0, &(seconds as u32).to_le_bytes());
    put(&mut record, 4, &(nanos as u32).to_le_bytes());
    put(&mut record, 8, &length.to_le_bytes());
    put(&mut record, 12, &length.to_le_bytes());
    // ERF: time as 32.32 fixed point, type 21, flags, length with and without this header.
    let fixed = (seconds << 32) | ((nanos << 32) / 1_000_000_000);
    put(&mut record, 16, &fixed.to_le_bytes());
    put(&mut record, 24, &[21, 4]);
    put(&mut record, 26, &(length as u16).to_be_bytes());
    put(&mut record, 30, &(PACKET as u16).to_be_bytes());
    // LRH (IBA 7.7): SMPs use VL 15; next header is BTH; length in words from here to the ICRC.
    let vl = if mad.header().class().is_subnet() { 15 } else { 0 };
    put(&mut record, 32, &[vl << 4, packet.sl << 4 | 2]);
    put(&mut record, 34, &packet.destination.0.to_be_bytes());
    put(&mut record, 36, &((PACKET as u16 - 2) / 4).to_be_bytes());
    put(&mut record, 38, &packet.source.0.to_be_bytes());
    // BTH (IBA 9.2): unreliable datagram, send only.
    put(&mut record, 40, &[0x64, 0]);
    put(&mut record, 42, &packet.p_key.0.to_be_bytes());
    put(&mut record, 44, &(packet.destination_qp & 0xFF_FFFF).to_be_bytes());
    // DETH (IBA 9.3.3).
    put(&mut record, 52, &packet.q_key.0.to_be_bytes());
    put(&mut record, 56, &(packet.source_qp & 0xFF_FFFF).to_be_bytes());
    put(&mut record, 60, &mad.0);
    record
}

const fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    let mut i = 0;
    while i < bytes.len() {
        to[at + i] = bytes[i];
        i += 1;
    }
}
