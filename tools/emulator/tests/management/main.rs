//! The management side: what agents answer, links do and packets go through, asked as a manager asks.

mod blocks;
mod bring_up;
mod counters;
mod fabrics;
mod faults;
mod fuzz;
mod m_key;
mod managers;
mod noise;
mod refusals;
mod routes;
mod states;
mod support;
mod traps;
