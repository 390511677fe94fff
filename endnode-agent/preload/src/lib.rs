//! `libsnin_preload.so`: puts the queue pairs of unmodified programs on the trees of their job.
//!
//! ```text
//! LD_PRELOAD=libsnin_preload.so SNIN_JOB=slurm/4711 SNIN_AGENT=/run/snin/agent.sock program
//! ```
//!
//! Two functions of libibverbs take an address vector: `ibv_modify_qp`, when a queue pair is connected, and
//! `ibv_create_ah`. Both are taken over here: the address vector is rewritten (`steer`) as the job's trees
//! say (`ask`), and the real function is called with it. So is `ibv_destroy_qp`, for the agent to be told how
//! many packets came. No function of the data path is touched, and nothing is kept between two calls: no
//! descriptor, no lock, no thread; so a program may fork at any time.
//!
//! | variable | |
//! |---|---|
//! | `SNIN_JOB` | the job; without it this library does nothing |
//! | `SNIN_AGENT` | the control socket of the node's agent, which is asked for each pair |
//! | `SNIN_JOB_FILE` | the job's trees as a file, where no agent is or answers |
//! | `SNIN_REQUIRE` | 1: what has no way along the job's trees fails (ENETUNREACH), else it goes unmanaged |
//! | `SNIN_VERBOSE` | 1: a line for each pair |
#![cfg(feature = "verbs")]

mod ask;
mod say;
mod steer;

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null_mut, read};
use std::sync::atomic::{AtomicPtr, Ordering};

use rdma_sys::{
    ibv_ah, ibv_ah_attr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_init_attr,
    ibv_qp_state, ibv_qp_type, ibv_query_qp,
};

use ask::Connection;
use steer::Steered;

/// The version that programs ask libibverbs for.
const VERSION: &CStr = c"IBVERBS_1.1";

type ModifyQp = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
type DestroyQp = unsafe extern "C" fn(*mut ibv_qp) -> c_int;
type CreateAh = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;

static MODIFY_QP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static DESTROY_QP: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CREATE_AH: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The function of this name that would be called without this library. Two threads may both look for it: they
/// find the same, and no lock is there that a fork could leave taken.
fn real(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: both texts end with NUL and live as long as the program.
    let next = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), VERSION.as_ptr()) };
    found.store(next, Ordering::Relaxed);
    next
}

/// Takes over libibverbs' function of that name.
///
/// # Safety
/// As libibverbs has it: `qp` is a queue pair, `attr` a structure of which `mask` says what is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    let next = real(&MODIFY_QP, c"ibv_modify_qp");
    if next.is_null() {
        say::line("libibverbs has no ibv_modify_qp of version IBVERBS_1.1");
        return libc::ENOSYS;
    }
    // SAFETY: libibverbs' symbol of this name and version is a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, ModifyQp>(next) };
    let set = |bit: ibv_qp_attr_mask| mask as u32 & bit.0 != 0;
    let (path, alternate) = (ibv_qp_attr_mask::IBV_QP_AV, ibv_qp_attr_mask::IBV_QP_ALT_PATH);
    if !(set(path) || set(alternate)) {
        // SAFETY: the caller's own arguments.
        return unsafe { next(qp, attr, mask) };
    }
    // SAFETY: the caller gives a queue pair and a structure that it may read; what is changed is a copy.
    let (context, queue_pair, mut changed) = unsafe { ((*qp).context, (*qp).qp_num, read(attr)) };
    let is_numbered = set(ibv_qp_attr_mask::IBV_QP_RQ_PSN);
    let connection = Connection { queue_pair, expected: changed.rq_psn };
    for (vector, connection) in [
        (set(path).then_some(&mut changed.ah_attr), is_numbered.then_some(connection)),
        (set(alternate).then_some(&mut changed.alt_ah_attr), None),
    ] {
        // SAFETY: the queue pair's context is open while the queue pair is there.
        let steered = vector.map(|vector| unsafe { steer::steer(context, vector, connection) });
        if steered == Some(Steered::Refused) {
            return libc::ENETUNREACH;
        }
    }
    // SAFETY: the caller's queue pair and mask, and a structure of which the same is set.
    unsafe { next(qp, &raw mut changed, mask) }
}

/// Takes over libibverbs' function of that name.
///
/// # Safety
/// As libibverbs has it: `pd` is a protection domain, `attr` an address vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    let next = real(&CREATE_AH, c"ibv_create_ah");
    if next.is_null() {
        say::line("libibverbs has no ibv_create_ah of version IBVERBS_1.1");
        return failed(libc::ENOSYS);
    }
    // SAFETY: libibverbs' symbol of this name and version is a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, CreateAh>(next) };
    // SAFETY: the caller gives a domain and a structure that it may read; what is changed is a copy.
    let (context, mut changed) = unsafe { ((*pd).context, read(attr)) };
    // SAFETY: the domain's context is open while the domain is there.
    if unsafe { steer::steer(context, &mut changed, None) } == Steered::Refused {
        return failed(libc::ENETUNREACH);
    }
    // SAFETY: the caller's domain, and an address vector of the same form.
    unsafe { next(pd, &raw mut changed) }
}

/// Takes over libibverbs' function of that name.
///
/// # Safety
/// As libibverbs has it: `qp` is a queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let next = real(&DESTROY_QP, c"ibv_destroy_qp");
    if next.is_null() {
        say::line("libibverbs has no ibv_destroy_qp of version IBVERBS_1.1");
        return libc::ENOSYS;
    }
    if let Some(job) = ask::job() {
        // SAFETY: the caller's queue pair is there until the real function is called.
        if let Some(connection) = unsafe { connection(qp) } {
            ask::disconnected(&job, connection);
        }
    }
    // SAFETY: libibverbs' symbol of this name and version is a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, DestroyQp>(next) };
    // SAFETY: the caller's own argument.
    unsafe { next(qp) }
}

/// How far a queue pair came, where it is connected and its packets are numbered.
///
/// # Safety
/// `qp` is a queue pair.
unsafe fn connection(qp: *mut ibv_qp) -> Option<Connection> {
    // SAFETY: the caller's queue pair.
    let (kind, queue_pair) = unsafe { ((*qp).qp_type, (*qp).qp_num) };
    if ![ibv_qp_type::IBV_QPT_RC, ibv_qp_type::IBV_QPT_UC].contains(&kind) {
        return None;
    }
    // SAFETY: both structures are integers and pointers, and zero is a value of each.
    let (mut attr, mut first): (ibv_qp_attr, ibv_qp_init_attr) = unsafe { std::mem::zeroed() };
    let mask = ibv_qp_attr_mask::IBV_QP_STATE.0 | ibv_qp_attr_mask::IBV_QP_RQ_PSN.0;
    // SAFETY: the caller's queue pair; the call writes both structures, all of which have values already.
    let code = unsafe { ibv_query_qp(qp, &raw mut attr, mask as c_int, &raw mut first) };
    let unconnected = [ibv_qp_state::IBV_QPS_RESET, ibv_qp_state::IBV_QPS_INIT];
    (code == 0 && !unconnected.contains(&attr.qp_state))
        .then_some(Connection { queue_pair, expected: attr.rq_psn })
}

fn failed(code: c_int) -> *mut ibv_ah {
    // SAFETY: the calling thread's own error number.
    unsafe { *libc::__errno_location() = code };
    null_mut()
}
