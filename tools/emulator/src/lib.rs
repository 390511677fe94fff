//! A software fabric.
