//! The parts of the verbs backend that need no hardware: layouts as C has them, what a machine
//! without devices is told.
#![cfg(feature = "verbs")]

#[path = "verbs/layout.rs"]
mod layout;

use snin_agent::verbs::{VerbsError, choose, device_names};

#[test]
fn a_machine_without_devices_is_told_what_is_missing_in_one_line() {
    // Machines that have devices are told about the wrong name.
    match (device_names(), choose(Some("no_such_device"), None)) {
        (Err(VerbsError::NoDevices), Err(error @ VerbsError::NoDevices)) => {
            let text = error.to_string();
            assert!(text.starts_with("no RDMA device found: "), "{text}");
            assert!(text.contains("rdma link add") && !text.contains('\n'), "{text}");
        }
        (Ok(names), Err(error @ VerbsError::NoSuchDevice { .. })) => {
            let text = error.to_string();
            assert_eq!(
                text,
                format!("no RDMA device `no_such_device`: there are {}", names.join(", "))
            );
        }
        other => panic!("{other:?}"),
    }
}
