//! What the data plane must show: closed forms, published limits, conservation, non-interference.

mod books;
mod closed_forms;
mod deadlock;
mod faults;
mod htsim;
mod lanes;
mod multicast;
mod observers;
mod permutation;
mod rates;
mod saturation;
mod support;
mod transports;
mod windows;
