//! A recording of a controller's events can be replayed.

use serde_json::json;
use snin_controller::recording::Replaying;
use snin_daemon::replay::replay;

use crate::agents::Agents;
use crate::process::Controller;
use crate::watcher::Watcher;

#[test]
fn a_controller_does_again_what_it_did() {
    let mut controller = Controller::of("clos:4,4,2", "window_us = 50000\n");
    let agents =
        Agents::start(Watcher::new(controller.topology.clone()), &controller.sessions(), 3);
    agents.send_more(100);
    let slice = json!({ "command": "slice_create", "owner": "job/7", "count": 4 });
    assert_eq!(controller.ask(&slice).unwrap()["created"], true);
    agents.send_more(100);
    let gone = json!({ "command": "slice_delete", "owner": "job/7" });
    assert_eq!(controller.ask(&gone).unwrap()["deleted"], true);
    agents.send_more(100);
    controller.end();
    drop(agents);
    let mut windows = 0;
    let replayed = replay::<Replaying>(&controller.record(), |_, output| {
        windows += u32::from(matches!(output, snin_controller_core::events::Output::Window(_)));
    });
    let replayed = replayed.unwrap();
    assert!(windows > 3 && replayed.outcome.outputs > 40, "{windows}, {:?}", replayed.outcome);
    assert_eq!(replayed.recorded, Some(replayed.outcome));
}
