//! The bindings' structures against the ones that the C compiler sees: sizes, and where each field that we
//! use begins.
#![cfg(feature = "verbs")]

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::process::Command;

use rdma_sys as sys;

/// What a structure is called in C, its size here, and its fields: name in C, offset here.
type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

/// One list for both languages. A field is named as in C, after `=` as in the bindings where those differ.
macro_rules! layouts {
    ($($name:ident { $($c:literal = $($field:ident).+),* $(,)? })+) => {
        vec![$((
            stringify!($name),
            size_of::<sys::$name>(),
            vec![$(($c, offset_of!(sys::$name, $($field).+))),*],
        )),+]
    };
}

fn layouts() -> Vec<Layout> {
    layouts! {
        ibv_gid { "global.subnet_prefix" = global, "raw" = raw }
        ibv_gid_entry {
            "gid" = gid, "gid_index" = gid_index, "port_num" = port_num, "gid_type" = gid_type,
        }
        ibv_global_route {
            "dgid" = dgid, "flow_label" = flow_label, "sgid_index" = sgid_index, "hop_limit" = hop_limit,
            "traffic_class" = traffic_class,
        }
        ibv_ah_attr {
            "grh" = grh, "dlid" = dlid, "sl" = sl, "src_path_bits" = src_path_bits,
            "static_rate" = static_rate, "is_global" = is_global, "port_num" = port_num,
        }
        ibv_qp_attr {
            "qp_state" = qp_state, "cur_qp_state" = cur_qp_state, "path_mtu" = path_mtu, "qkey" = qkey,
            "rq_psn" = rq_psn, "sq_psn" = sq_psn, "dest_qp_num" = dest_qp_num,
            "qp_access_flags" = qp_access_flags, "cap" = cap, "ah_attr" = ah_attr,
            "alt_ah_attr" = alt_ah_attr, "pkey_index" = pkey_index, "max_rd_atomic" = max_rd_atomic,
            "max_dest_rd_atomic" = max_dest_rd_atomic, "min_rnr_timer" = min_rnr_timer,
            "port_num" = port_num, "timeout" = timeout, "retry_cnt" = retry_cnt, "rnr_retry" = rnr_retry,
            "rate_limit" = rate_limit,
        }
        ibv_qp_cap {
            "max_send_wr" = max_send_wr, "max_recv_wr" = max_recv_wr, "max_send_sge" = max_send_sge,
            "max_recv_sge" = max_recv_sge, "max_inline_data" = max_inline_data,
        }
        ibv_qp_init_attr {
            "qp_context" = qp_context, "send_cq" = send_cq, "recv_cq" = recv_cq, "srq" = srq, "cap" = cap,
            "qp_type" = qp_type, "sq_sig_all" = sq_sig_all,
        }
        ibv_port_attr {
            "state" = state, "max_mtu" = max_mtu, "active_mtu" = active_mtu, "gid_tbl_len" = gid_tbl_len,
            "max_msg_sz" = max_msg_sz, "lid" = lid, "sm_lid" = sm_lid, "lmc" = lmc,
            "link_layer" = link_layer, "port_cap_flags2" = port_cap_flags2,
        }
        ibv_device_attr { "node_guid" = node_guid, "max_qp" = max_qp, "phys_port_cnt" = phys_port_cnt }
        ibv_sge { "addr" = addr, "length" = length, "lkey" = lkey }
        ibv_send_wr {
            "wr_id" = wr_id, "next" = next, "sg_list" = sg_list, "num_sge" = num_sge, "opcode" = opcode,
            "send_flags" = send_flags, "imm_data" = imm_data_invalidated_rkey_union,
            "wr.rdma.remote_addr" = wr, "qp_type" = qp_type, "bind_mw" = bind_mw_tso_union,
        }
        ibv_recv_wr { "wr_id" = wr_id, "next" = next, "sg_list" = sg_list, "num_sge" = num_sge }
        ibv_wc {
            "wr_id" = wr_id, "status" = status, "opcode" = opcode, "vendor_err" = vendor_err,
            "byte_len" = byte_len, "imm_data" = imm_data_invalidated_rkey_union, "qp_num" = qp_num,
            "src_qp" = src_qp, "wc_flags" = wc_flags, "pkey_index" = pkey_index, "slid" = slid, "sl" = sl,
            "dlid_path_bits" = dlid_path_bits,
        }
        ibv_async_event { "element" = element, "event_type" = event_type }
        ibv_context { "device" = device, "ops" = ops, "cmd_fd" = cmd_fd, "async_fd" = async_fd }
        ibv_mr { "addr" = addr, "length" = length, "lkey" = lkey, "rkey" = rkey }
        ibv_qp { "context" = context, "pd" = pd, "handle" = handle, "qp_num" = qp_num, "state" = state }
        ibv_comp_channel { "context" = context, "fd" = fd }
    }
}

/// Fields inside the unions of a send, which C names in one go and the bindings in parts.
fn inside_unions() -> Vec<(&'static str, usize)> {
    let send = offset_of!(sys::ibv_send_wr, wr);
    vec![
        ("wr.rdma.rkey", send + offset_of!(sys::rdma_t, rkey)),
        ("wr.ud.ah", send + offset_of!(sys::ud_t, ah)),
        ("wr.ud.remote_qpn", send + offset_of!(sys::ud_t, remote_qpn)),
        ("wr.ud.remote_qkey", send + offset_of!(sys::ud_t, remote_qkey)),
    ]
}

/// Has C print what we say, as C sees it.
fn program(layouts: &[Layout]) -> String {
    let mut text = String::from(
        "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for (name, _, fields) in layouts {
        let _ = writeln!(text, "printf(\"{name} %zu\\n\", sizeof({} {name}));", keyword(name));
        for (field, _) in fields {
            let of = format!("offsetof({} {name}, {field})", keyword(name));
            let _ = writeln!(text, "printf(\"{name}.{field} %zu\\n\", {of});");
        }
    }
    text.push_str("return 0;\n}\n");
    text
}

/// One of them is a union.
fn keyword(name: &str) -> &'static str {
    if name == "ibv_gid" { "union" } else { "struct" }
}

#[test]
fn structures_are_laid_out_as_in_c() {
    let mut layouts = layouts();
    let send = layouts.iter_mut().find(|(name, ..)| *name == "ibv_send_wr").expect("it is there");
    send.2.extend(inside_unions());

    let directory = tempfile::tempdir().expect("a directory");
    let (source, binary) = (directory.path().join("layout.c"), directory.path().join("layout"));
    std::fs::write(&source, program(&layouts)).expect("a source file");
    let compiled =
        Command::new("cc").arg(&source).arg("-o").arg(&binary).status().expect("a C compiler");
    assert!(compiled.success());
    let output = Command::new(&binary).output().expect("the program runs");
    let seen = String::from_utf8(output.stdout).expect("text");

    let mut ours = String::new();
    for (name, size, fields) in &layouts {
        let _ = writeln!(ours, "{name} {size}");
        for (field, offset) in fields {
            let _ = writeln!(ours, "{name}.{field} {offset}");
        }
    }
    assert_eq!(ours, seen);
}
