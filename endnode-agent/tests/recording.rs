//! A recording of an agent's core is told again, without a device.

use std::sync::Arc;

use snin_agent::replay::{CORE, Replaying};
use snin_agent_core::{Call, Config, Event, FlowId, Message, Wanted};
use snin_daemon::record::Recorder;
use snin_daemon::replay::{Replay, replay};
use snin_fabric::Guid;
use snin_protocol::message::{ControllerMessage, ToAgent};
use snin_protocol::{Session, Term, Time};

#[test]
fn an_agent_does_again_what_it_did() {
    let config = Config { port: Guid(1), session: 7, ..Config::default() };
    let (flow, peer) = (FlowId(0), Guid(2));
    let said = ToAgent {
        session: Session(7),
        term: Term(1),
        at: Time(5),
        body: ControllerMessage::Stranger,
    };
    let told = [
        Some(Event::App(Call::Open { flow, peer, wanted: Wanted::default() })),
        Some(Event::App(Call::Send { flow, message: Message { id: 0, bytes: 9, due: Time(1) } })),
        None,
        Some(Event::Controller(Arc::new(said))),
        Some(Event::Malformed),
        Some(Event::App(Call::Close { flow })),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record");
    let mut recorder = Recorder::create(&file, CORE, &config, Time::ZERO).unwrap();
    let mut agent = Replaying::make(&config, Time::ZERO).unwrap();
    for (number, event) in (1_u64..).zip(told) {
        let now = Time::millis(number * 100);
        recorder.write(now, event.as_ref()).unwrap();
        agent.handle(event, now).unwrap();
        while let Some(output) = agent.poll_output() {
            recorder.output(&Replaying::compared(&output).unwrap());
        }
    }
    recorder.end(Time::secs(1)).unwrap();
    let replayed = replay::<Replaying>(&file, |_, _| {}).unwrap();
    assert!(replayed.outcome.outputs > 2 && replayed.entries == 6, "{:?}", replayed.outcome);
    assert_eq!(replayed.recorded, Some(replayed.outcome));
}
