//! What is recorded of a manager is read as it was told.

use std::sync::Arc;

use snin_configuration::{Instruction, Limits};
use snin_daemon::record::Recording;
use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::sa::{InformInfo, JoinState, McMemberRecord, Record as _, ServiceRecord};
use snin_mad::{Gid, PKey};
use snin_mastership::control::Control;
use snin_mastership::mirror::{Link, MirrorEvent};
use snin_protocol::Time;
use snin_sm::daemon::expected::parse;
use snin_sm::daemon::recording::{CORE, EventRecorder, Made, Recorded};
use snin_sm::daemon::settings::Settings;
use snin_sm_core::{Event, Preferences};
use snin_sm_database::judgement::Consent;
use snin_sm_database::keys::KeySecret;
use snin_sm_database::mad_address::{LocalPort, Origin};
use snin_sm_database::records::{
    Group, Kept, KeptRecord, Member, Service, Slice, Stamp, Subscriber, Subscription,
};
use snin_sm_database::saved::Saved;

fn kept() -> Vec<KeptRecord> {
    let (gid, guid) = (Gid([7; 16]), Guid(9));
    let group = McMemberRecord::from_bytes(&[]).unwrap();
    let service = ServiceRecord::from_bytes(&[1; 8]).unwrap();
    let info = InformInfo::from_bytes(&[]).unwrap();
    let member = Member { port_gid: gid, state: JoinState::FULL, proxy: true };
    let subscriber = Subscriber { port: guid, lid: Lid(3), qp: 1, to: [5; 40] };
    let all = [
        Kept::Group(gid, Some(Group { record: group, permanent: true })),
        Kept::Member((gid, guid), Some(member)),
        Kept::Service((1, gid, 2), Some(Service { record: service, until: Some(Time(77)) })),
        Kept::Subscription(subscriber, Some(Subscription { info, sl: 1, trusted: false })),
        Kept::Alias((guid, 1), None),
    ];
    let stamp = Some(Stamp { time: Time(1), count: 2, origin: guid });
    all.into_iter().map(|kept| KeptRecord { kept, stamp }).collect()
}

#[test]
fn every_event_is_read_as_it_was_written() {
    let expected = r#"switch = [{ guid = "0x9", name = "leaf", port = [
        { num = 1, neighbour = { node_guid = "0x1", port = 1 }, width = 4, speed = "NDR" }] }]"#;
    let expected = Some(Arc::new(parse(expected, "expected").unwrap()));
    let (guid, place) = (Guid(9), (Guid(9), PortNum(1)));
    let by = Consent::Granted { by: "it".to_owned(), until: Some(Time(4)) };
    let wanted = [
        Instruction::Expect { expected, forced: true },
        Instruction::Consent(by),
        Instruction::Limit(Limits::default()),
        Instruction::PhaseOut(place, "old".to_owned()),
        Instruction::Test(place),
    ];
    let preferences = Preferences {
        pins: [((guid, Guid(1)), Lid(4))].into(),
        slices: [(guid, Slice { job: 3, lid: Lid(5) })].into(),
    };
    let from = Origin { lid: Lid(1), qp: 1, sl: 2, p_key: PKey::DEFAULT };
    let mut events = vec![
        Event::Start,
        Event::Mad { port: LocalPort(1), source: Lid(0xFFFF), bytes: &[1, 2, 3] },
        Event::General { port: LocalPort(0), from, bytes: &[] },
        Event::Prefer(Box::new(preferences)),
        Event::Partitions(Box::default()),
        Event::QosPolicy(Box::default()),
        Event::Instruct { to: guid, control: Control::Handover },
        Event::Mirror(Box::new(MirrorEvent::Called(Link(1)))),
        Event::LinkTested { number: 1, arrived: None },
        Event::PortChanged,
    ];
    events.extend(wanted.map(|wanted| Event::Configuration(Box::new(wanted))));

    let mut saved = Saved { lmc: Lmc::new(3), ..Saved::default() };
    saved.lids.insert(guid, (Lid(8), Lmc::MAX));
    saved.keys = Some(KeySecret { secret: [3; 32], generation: 4 });
    saved.former_keys = vec![KeySecret { secret: [4; 32], generation: 1 }];
    saved.trees.insert((guid, 1), 2);
    saved.lineage.master = Some(guid);
    let config = Settings::default().core(1);
    let made = Made { config, saved, kept: kept(), epoch: Time(12) };

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record");
    let mut recorder = EventRecorder::create(&file, &made, Time(1)).unwrap();
    for event in &events {
        recorder.event(Time(2), Some(event));
    }
    recorder.end(Time(3));
    let mut recording = Recording::<Made>::open(&file, CORE).unwrap();
    let read = &recording.config;
    assert_eq!((&read.config, &read.saved), (&made.config, &made.saved));
    assert_eq!((&read.kept, read.epoch), (&made.kept, made.epoch));
    for event in &events {
        let entry = recording.entry::<Recorded<Event<'_>>>().unwrap().unwrap();
        let Some(Recorded::Event(read)) = entry.event else { panic!("{event:?}") };
        assert_eq!(format!("{read:?}"), format!("{event:?}"));
    }
    assert!(recording.entry::<Recorded<Event<'_>>>().unwrap().is_none() && recording.end.is_some());
}
