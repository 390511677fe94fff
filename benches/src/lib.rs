//! Benchmarks of snin.
