//! The subnet manager on fabrics that ibsim simulates, judged by programs that nobody here wrote.

mod daemon;
#[path = "../../../fabric/tests/support/ibdm.rs"]
mod ibdm;
mod judged;
mod lab;
mod port;
