//! `make bench-verbs` at its small size: one boot of the virtual machine, every program on both sides.
#![cfg(feature = "verbs")]

use std::path::Path;

use snin_benches::Size;
use snin_benches::verbs::measure;

#[test]
fn both_sides_measure_in_the_virtual_machine() {
    let outcomes = measure(Path::new(env!("CARGO_BIN_EXE_verbs")), Size::Small);
    for case in ["send-64B median", "write-64B median", "bandwidth-65536B average"] {
        for who in ["snin", "(control)"] {
            let told = |text: &str| text.starts_with(case) && text.contains(who);
            assert!(
                outcomes.iter().any(|outcome| told(&outcome.case)),
                "{case} {who}: {outcomes:?}"
            );
        }
    }
}
