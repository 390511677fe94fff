//! `snin-sm` as a service: what it remembers, answers, tells and leaves alone.

mod capture;
mod consent;
mod daemon;
mod disks;
mod groups;
mod machine;
mod managers;
mod memory;
mod settings;
mod storage;
mod supervised;
mod unit;
mod versions;
