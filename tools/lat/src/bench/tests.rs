//! How many sources a plan takes, and how often it is told of a message.

use super::*;
use crate::plan::VERSION;

#[test]
fn nobody_waits_for_word_of_a_send_to_have_room_or_a_source() {
    let base = Plan {
        version: VERSION,
        operation: Operation::Send,
        carrier: Carrier::Rc,
        pattern: Pattern::PingPong,
        size: 1,
        iterations: 1,
        warm_up: 0,
        offsets: vec![0],
        inline: 0,
        depth: 1,
        level: 0,
        congestor: None,
    };
    for depth in [1, 2, 3, 16, 128, 4096] {
        for size in [1, 64, 20_000, SOURCES_BYTES, SOURCES_BYTES + 1] {
            for operation in [Operation::Send, Operation::Write, Operation::Read] {
                let plan = Plan { depth, size, operation, ..base.clone() };
                let sources = sources(&plan);
                let every = signal_every(&plan, sources);
                assert!(every == 1 || every <= u64::from(depth) / 2, "{plan:?}: {every}");
                if is_marked(&plan) {
                    assert!(sources == 1 || sources * size <= SOURCES_BYTES, "{plan:?}: {sources}");
                    assert!(every == 1 || 2 * every <= sources as u64, "{plan:?}: {every}");
                } else {
                    assert_eq!(sources, 1, "{plan:?}");
                }
            }
        }
    }
}
