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

/// A controller names all managers. The one that is master has its session, and a standby refuses it.
#[test]
fn controllers_follow_the_master() -> Result<(), JudgeError> {
    const TOLD: &str = "is told what the fabric is";
    let emulation = Emulation::start("clos:4,2,2", &[])?;
    let views = |name: &str| emulation.folder().join(format!("{name}-views.sock"));
    let address = |name: &str| format!("unix://{}", views(name).display());
    let begin = |name: &str, host: &str, priority: u8| {
        let listen = address(name);
        let settings = format!("session_listen = [{listen:?}]\nsm_priority = {priority}\n");
        Manager::begin(&emulation, name, host, &settings)
    };
    let first = begin("first", "host0", 5)?;
    wait("the subnet", || first.ask(&["status"])["healthy"] == true);
    let second = begin("second", "host7", 1)?;
    wait("a standby", || second.ask(&["status"])["state"] == "standby");

    let others = vec![address("first").parse().unwrap()];
    let called = call(&address("second"));
    let mut controller = Post::<FromManager, ToManager>::call_any(called, others).unwrap();
    let mut has_view = || {
        let heard = controller.work();
        heard.iter().any(|it| matches!(it, Received::Said(_, FromManager::Part(_))))
    };
    wait("the master's view", &mut has_view);
    assert!(first.log().contains(TOLD) && !second.log().contains(TOLD), "{}", second.log());
    // As by kill -9.
    drop(first);
    wait("the next master's view", &mut has_view);
    assert!(second.log().contains(TOLD), "{}", second.log());
    // It goes before the other one, which hands over.
    let first = begin("first", "host0", 5)?;
    wait("the first one's view", &mut has_view);
    wait("its word", || first.log().contains(TOLD));
    wait("a standby", || second.ask(&["status"])["state"] == "standby");
    assert!(second.log().contains("is told nothing any more"), "{}", second.log());
    Ok(())
}
