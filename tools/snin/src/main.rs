//! The one command an admin types.
fn main() {}
