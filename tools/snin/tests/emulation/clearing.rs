//! Who waits for whom when tables are repaired.

use std::time::{Duration, Instant};

use snin_daemon::session::{Call, Limits, Post, Received};
use snin_judges::{JudgeError, Simulated as _};
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::view::{FromManager, ToManager};

use crate::emulation::{Emulation, wait};
use crate::manager::{Manager, uplink};

/// For so long the manager waits for a controller that says nothing.
const CLEAR_WAIT: Duration = Duration::from_millis(250);

fn call(address: &str) -> Call {
    Call {
        to: address.parse().unwrap(),
        service: Service::Views,
        role: Role::Manager,
        peer: None,
        identity: Identity::new(Role::Controller, "test").unwrap(),
        limits: Limits::of_several(),
        credentials: None,
    }
}

/// A controller whose session has just ended may still grant by the view that it was told: tables are not repaired
/// under what it granted, before it had the time to come back and say that they may.
#[test]
fn a_controller_that_was_there_a_moment_ago_is_waited_for() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:4,2,2", &[])?;
    let address = format!("unix://{}", emulation.folder().join("views.sock").display());
    let manager = Manager::start(&emulation, &format!("session_listen = [{address:?}]\n"))?;
    let cable = uplink(emulation.topology());
    println!("without any controller: {:?}", manager.flap(&emulation, &cable));

    let mut controller = Post::<FromManager, ToManager>::call(call(&address)).unwrap();
    let mut parts = 0;
    wait("a view", || {
        let heard = controller.work();
        parts +=
            heard.iter().filter(|it| matches!(it, Received::Said(_, FromManager::Part(_)))).count();
        parts > 0
    });
    drop(controller);
    let gone = || manager.tail().contains(" is gone: ");
    wait("the end of the session", gone);
    let begin = Instant::now();
    let [cut, restored] = manager.flap(&emulation, &cable);
    println!("a moment after it was there: {cut:?}, {restored:?}");
    assert!(cut >= CLEAR_WAIT && restored >= CLEAR_WAIT, "{:?}", begin.elapsed());
    Ok(())
}
