//! The subnet manager on fabrics that ibsim simulates, judged by programs that nobody here wrote.

mod daemon;
mod port;
