//! `snin-sm` as a service: what it remembers, answers, tells and leaves alone.

mod daemon;
mod managers;
mod memory;
mod unit;
