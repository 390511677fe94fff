//! The software port: the one way in which daemons attach to a fabric that is software.
//!
//! A fabric in software has a name, such as `lab`. The server binds sockets that follow from the name;
//! a client needs nothing else. All of them are abstract Unix sockets whose names end with a NUL, so
//! they are gone with the process that bound them, and are seen in one network namespace only.
//!
//! | socket | kind | what passes |
//! |---|---|---|
//! | `NAME:ctl` | datagrams | questions of those who attach for management: [`management`] |
//! | `NAME:out0`, `NAME:out1`, ... | datagrams | MADs, one socket a client: [`management`] |
//! | `NAME:messages` | stream | what end-node agents send each other: [`messages`] |
//!
//! **MADs** travel in the words of ibsim, so that programs which know ibsim's preloaded library need no change:
//! infiniband-diags and OpenSM run on such a fabric by `IBSIM_SOCKNAME=NAME ibsim-run PROGRAM`. What a server
//! may do that ibsim does not: more than ten clients, several at one port, a port other than the first,
//! silence instead of an error at once for what got lost.
//!
//! **Messages** travel in frames of this crate's [`codec`](crate::codec). One connection may attach at many
//! ports, as one process may hold the agents of many hosts. A message is posted with the address that it goes
//! to and the moment at which its port begins to send it; the fabric carries it along the tables that the
//! subnet manager wrote, and says what became of it.
//!
//! **Time** is the machine's monotonic clock in nanoseconds, the same for all who attach, since all of them are on
//! one machine. The moment in a message is the sender's: how long a frame takes through a socket, or a process
//! waits for a processor, is no part of the fabric.
//!
//! No latency is claimed of a fabric in software.

pub mod management;
pub mod messages;

/// The address of one of a fabric's sockets, in the abstract namespace: `NAME:WHAT` and a NUL.
pub fn socket(fabric: &str, what: &str) -> Vec<u8> {
    format!("{fabric}:{what}\0").into_bytes()
}

/// The longest name of a fabric: with what follows it, it has to fit a socket's address.
pub const LONGEST_NAME: usize = 80;

/// Whether a fabric can have this name.
pub fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_follow_from_the_name() {
        assert_eq!(socket("lab", "ctl"), b"lab:ctl\0");
        assert!(is_name("snin-4711"));
        for bad in ["", "a:b", "two words", &"x".repeat(81)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
