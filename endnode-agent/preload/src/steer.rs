//! An address vector as a job's trees have it.
//!
//! On InfiniBand the address is the DLID, and the source the path bits. On RoCE every address of a port is an IPv4
//! address whose low 16 bits are the LID: the address is the destination GID, and the source the index of the own
//! GID that the peer sends to.

use rdma_sys::{
    ___ibv_query_port, ibv_ah_attr, ibv_context, ibv_gid, ibv_port_attr, ibv_query_gid,
};
use snin_fabric::Lid;

use super::ask::{self, Addresses, Connection};
use super::say::{self, Once};

/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;
/// An IPv4 address as a GID (RFC 4291 2.5.5.2).
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// What became of an address vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Steered {
    /// It goes on: along the job's trees, or as it was.
    On,
    /// It must not be used.
    Refused,
}

/// Rewrites an address vector of a device; `connection` is whose it is, where packets are numbered.
///
/// # Safety
/// `context` is an open device.
pub(super) unsafe fn steer(
    context: *mut ibv_context,
    vector: &mut ibv_ah_attr,
    connection: Option<Connection>,
) -> Steered {
    let require = ask::is_set("SNIN_REQUIRE");
    let Some(job) = ask::job() else {
        if require {
            say::once(Once::Unmanaged, "SNIN_REQUIRE is set, but no job is (SNIN_JOB)");
            return Steered::Refused;
        }
        return Steered::On;
    };
    // SAFETY: the caller's device.
    match unsafe { rewrite(context, vector, (&job, connection)) } {
        Ok(None) => Steered::On,
        Ok(Some(text)) => {
            if ask::is_set("SNIN_VERBOSE") {
                say::line(text);
            }
            Steered::On
        }
        Err(why) if require => {
            say::line(format!("{why}: refused, since SNIN_REQUIRE is set"));
            Steered::Refused
        }
        Err(why) => {
            say::once(Once::Unmanaged, format!("{why}: this and others like it go unmanaged"));
            Steered::On
        }
    }
}

/// A line that says what it is now; `None` where it stays as it is.
unsafe fn rewrite(
    context: *mut ibv_context,
    vector: &mut ibv_ah_attr,
    (job, connection): (&str, Option<Connection>),
) -> Result<Option<String>, String> {
    // SAFETY: the structure is integers only, and zero is a value of every integer.
    let mut port: ibv_port_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's device; the call writes at most one structure, all of which has values already.
    if unsafe { ___ibv_query_port(context, vector.port_num, &raw mut port) } != 0 {
        return Err(format!("port {} does not say what it is", vector.port_num));
    }
    if port.link_layer == ETHERNET {
        // SAFETY: the caller's device.
        return unsafe { rewrite_roce(context, vector, &port, (job, connection)) };
    }
    let own = Lid(port.lid.wrapping_add(u16::from(vector.src_path_bits)));
    let way = ask::way(job, (own, Lid(vector.dlid)), connection).map_err(|why| why.to_string())?;
    let Some(way) = way else { return Ok(None) };
    set_lids(vector, way)?;
    set_level(vector, way);
    Ok(Some(format!("LID {} to {}", way.from, way.to)))
}

fn set_lids(vector: &mut ibv_ah_attr, way: Addresses) -> Result<(), String> {
    let bits = way.from.0.checked_sub(way.base.0).and_then(|bits| u8::try_from(bits).ok());
    vector.src_path_bits =
        bits.ok_or_else(|| format!("LID {} is none of this port's", way.from))?;
    vector.dlid = way.to.0;
    Ok(())
}

const fn set_level(vector: &mut ibv_ah_attr, way: Addresses) {
    if way.sl > 0 {
        vector.sl = way.sl;
    }
}

unsafe fn rewrite_roce(
    context: *mut ibv_context,
    vector: &mut ibv_ah_attr,
    port: &ibv_port_attr,
    (job, connection): (&str, Option<Connection>),
) -> Result<Option<String>, String> {
    // SAFETY: the caller's device.
    let own = unsafe { gid_at(context, vector.port_num, vector.grh.sgid_index.into()) };
    let own = own.and_then(ipv4);
    let (Some(own), Some(peer)) = (own, ipv4(bytes(vector.grh.dgid))) else {
        let index = vector.grh.sgid_index;
        return Err(format!("GID index {index} is no IPv4 address, or its peer's is none"));
    };
    let ends = (lid(own), lid(peer));
    let way = ask::way(job, ends, connection).map_err(|why| why.to_string())?;
    let Some(way) = way else { return Ok(None) };
    let (from, to) = (with_lid(own, way.from), with_lid(peer, way.to));
    // SAFETY: the caller's device.
    let held = |index: i32| unsafe { gid_at(context, vector.port_num, index) }.and_then(ipv4);
    let most = port.gid_tbl_len.min(i32::from(u8::MAX) + 1);
    let at = (0..most).find(|&index| held(index) == Some(from));
    let at = at.and_then(|index| u8::try_from(index).ok());
    let named = |[a, b, c, d]: [u8; 4]| format!("{a}.{b}.{c}.{d}");
    vector.grh.sgid_index =
        at.ok_or_else(|| format!("this port has no address {}", named(from)))?;
    let mut raw = bytes(vector.grh.dgid);
    raw[12..].copy_from_slice(&to);
    vector.grh.dgid = ibv_gid { raw };
    set_level(vector, way);
    Ok(Some(format!("{} to {}", named(from), named(to))))
}

/// An own GID; `None` where the table has none.
unsafe fn gid_at(context: *mut ibv_context, port: u8, index: i32) -> Option<[u8; 16]> {
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: the caller's device; the call writes one GID.
    let code = unsafe { ibv_query_gid(context, port, index, &raw mut gid) };
    (code == 0).then(|| bytes(gid))
}

const fn bytes(gid: ibv_gid) -> [u8; 16] {
    // SAFETY: both sides of the union are 16 bytes of integers, so its bytes are always initialised.
    unsafe { gid.raw }
}

fn ipv4(gid: [u8; 16]) -> Option<[u8; 4]> {
    gid.strip_prefix(&MAPPED)?.try_into().ok()
}

const fn lid([_, _, high, low]: [u8; 4]) -> Lid {
    Lid(u16::from_be_bytes([high, low]))
}

const fn with_lid([a, b, ..]: [u8; 4], lid: Lid) -> [u8; 4] {
    let [high, low] = lid.0.to_be_bytes();
    [a, b, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_16_bits_of_an_ipv4_address_are_the_lid() {
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 10, 9, 1, 254]);
        let address = ipv4(gid).unwrap();
        assert_eq!(lid(address), Lid(0x1fe));
        assert_eq!(with_lid(address, Lid(0x203)), [10, 9, 2, 3]);
        assert_eq!(ipv4([0xfe; 16]), None);
    }

    #[test]
    fn on_infiniband_path_bits_are_what_the_source_is_more_than_the_base() {
        // SAFETY: the structure is integers only, and zero is a value of every integer.
        let mut vector: ibv_ah_attr = unsafe { std::mem::zeroed() };
        let way = Addresses { to: Lid(0x41), from: Lid(0x23), base: Lid(0x20), sl: 1 };
        set_lids(&mut vector, way).unwrap();
        assert_eq!((vector.dlid, vector.src_path_bits), (0x41, 3));
        set_level(&mut vector, way);
        set_level(&mut vector, Addresses { sl: 0, ..way });
        assert_eq!(vector.sl, 1);
        let stranger = Addresses { from: Lid(0x1f), ..way };
        assert_eq!(set_lids(&mut vector, stranger).unwrap_err(), "LID 31 is none of this port's");
    }
}
