//! Pins a thread to a core.

use rustix::thread::{CpuSet, Pid, sched_getaffinity};

use crate::error::AgentError;

/// Pins the calling thread to the core of that number and reads back whether it is. The number is taken as it
/// is: the list of cores that core_affinity offers leaves out isolated ones, which are the ones wanted.
pub(crate) fn pin(core: usize) -> Result<(), AgentError> {
    let pinned = core < CpuSet::MAX_CPU
        && core_affinity::set_for_current(core_affinity::CoreId { id: core })
        && sched_getaffinity(None::<Pid>).is_ok_and(|set| set.count() == 1 && set.is_set(core));
    if pinned { Ok(()) } else { Err(AgentError::NoCore { core, present: present() }) }
}

/// The machine's cores, as the kernel lists them.
fn present() -> String {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online");
    list.map_or_else(|_| "those that /proc/cpuinfo lists".to_owned(), |list| list.trim().to_owned())
}
