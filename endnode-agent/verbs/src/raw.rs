//! Structures of C that are nothing but numbers, and the unions among them.

use std::mem::zeroed;
use std::ptr::null_mut;

use rdma_sys::{
    ibv_ah, ibv_context, ibv_device_attr, ibv_gid, ibv_gid_entry, ibv_port_attr, ibv_qp_attr,
    ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc, rdma_t, ud_t,
};

use super::path::Gid;

unsafe extern "C" {
    /// What `ibv_query_gid_table` of the headers calls; the bindings have neither. All valid entries of all ports;
    /// how many, or an error's number below 0.
    pub(super) fn _ibv_query_gid_table(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
        flags: u32,
        entry_size: usize,
    ) -> isize;
}

/// All zero.
pub(super) const fn no_gid() -> ibv_gid_entry {
    ibv_gid_entry {
        gid: gid(Gid([0; 16])),
        gid_index: 0,
        port_num: 0,
        gid_type: 0,
        ndev_ifindex: 0,
    }
}

/// All zero.
pub(super) fn no_attributes() -> ibv_qp_attr {
    // SAFETY: the structure and the GIDs in it are integers only, and zero is a value of every integer.
    unsafe { zeroed() }
}

/// All zero: `___ibv_query_port` does not write the whole of it with old providers.
pub(super) fn no_port() -> ibv_port_attr {
    // SAFETY: the structure is integers only, and zero is a value of every integer.
    unsafe { zeroed() }
}

/// All zero.
pub(super) fn no_device() -> ibv_device_attr {
    // SAFETY: the structure is integers only, and zero is a value of every integer.
    unsafe { zeroed() }
}

/// All zero, all pointers null.
pub(super) fn no_queue_pair() -> ibv_qp_init_attr {
    // SAFETY: the structure is integers and raw pointers, and zero is a value of all of them.
    unsafe { zeroed() }
}

/// All zero, all pointers null.
pub(super) fn no_send() -> ibv_send_wr {
    // SAFETY: the structure and its unions are integers and raw pointers, and zero is a value of all of them.
    unsafe { zeroed() }
}

/// All zero, all pointers null.
pub(super) const fn no_receive() -> ibv_recv_wr {
    ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: null_mut(), num_sge: 0 }
}

/// Nothing to be sent.
pub(super) const fn no_entry() -> ibv_sge {
    ibv_sge { addr: 0, length: 0, lkey: 0 }
}

/// All zero.
pub(super) const fn no_completion() -> ibv_wc {
    // SAFETY: the structure and its unions are integers only, and zero is a value of every integer.
    unsafe { zeroed() }
}

/// As C has it.
pub(super) const fn gid(gid: Gid) -> ibv_gid {
    ibv_gid { raw: gid.0 }
}

/// As we have it.
pub(super) const fn gid_bytes(gid: ibv_gid) -> [u8; 16] {
    // SAFETY: both sides of the union are 16 bytes of integers, so its bytes are always initialised.
    unsafe { gid.raw }
}

/// What came beside the bytes of a receive that says there is something.
pub(super) const fn immediate(completion: &ibv_wc) -> u32 {
    // SAFETY: both sides of the union are integers of 4 bytes.
    u32::from_be(unsafe { completion.imm_data_invalidated_rkey_union.imm_data })
}

/// Memory of a peer.
pub(super) const fn remote(remote_addr: u64, rkey: u32) -> rdma_t {
    rdma_t { remote_addr, rkey }
}

/// The destination of a datagram.
pub(super) const fn datagram(ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) -> ud_t {
    ud_t { ah, remote_qpn, remote_qkey }
}
