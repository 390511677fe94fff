//! Requests that are messages themselves, and acknowledgements, which are no requests.

use snin_administration::Unanswered;
use snin_mad::rmpp::{Policy, Progress, Receiver, RmppType, Sender};
use snin_mad::sa::*;
use snin_mad::{Mad, Method};

use crate::subnet::{Subnet, config};

/// Destinations of a question that has to go in two segments.
const TO: usize = 20;

/// Double-sided RMPP (IBA 13.6.6.3): question and answer go in segments, and between them the direction turns.
#[test]
fn a_question_of_several_segments_is_one_request() {
    let mut subnet = Subnet::new("clos:8,4,4", config());
    let multi = MultiPathRecord {
        sources: 1,
        destinations: TO as u8,
        numb_path: TO as u8,
        ..Default::default()
    };
    let mut question = SaRequest::new(Method::GetMulti, &multi, ComponentMask::of(&[6, 19, 20]));
    let to: Vec<_> = (5..5 + TO).map(|host| subnet.gid(host)).collect();
    question.data.extend_from_slice(&subnet.gid(1).0);
    to.iter().for_each(|gid| question.data.extend_from_slice(&gid.0));
    let question = question.transaction(77);
    let (now, from) = (subnet.now(), subnet.origin(1));
    let mut sender = Sender::new(&question.mad(), question.data.clone(), Policy::default(), now);
    assert_eq!(sender.segments(), 2);
    let before = requests(&subnet);

    let mut answer: Option<Receiver> = None;
    let mut last = None;
    loop {
        while let Some(segment) = sender.poll(now) {
            subnet.give(from, &segment.0);
            // Twice: a wire may do that.
            subnet.give(from, &segment.0);
        }
        let Some((_, mad)) = subnet.mail.pop_front() else { break };
        if mad.rmpp().kind() == RmppType::Ack {
            if sender.receive(&mad, now) == Ok(Progress::Done) && last.is_none() {
                subnet.give(from, &sender.turn(&mad).0);
            }
            continue;
        }
        let answer = answer.get_or_insert_with(|| Receiver::new(&mad, Policy::default(), now));
        if let Some(ack) = answer.receive(&mad).reply {
            subnet.give(from, &ack.0);
            last = Some(ack);
        }
    }
    let data = answer.as_mut().and_then(Receiver::take).expect("the whole answer");
    let header = SaRequest::parse(answer.unwrap().header()).unwrap();
    let paths: Vec<PathRecord> = SaRequest { data, ..header }.records().collect();
    assert_eq!(paths.iter().map(|path| path.dgid).collect::<Vec<_>>(), to);
    assert_eq!(requests(&subnet), before + 1);

    // Acknowledgements have methods of requests: GetMulti here, GetTable of a table. They are none.
    let stray = |subnet: &Subnet| {
        subnet.manager.administration().unanswered.get(&Unanswered::StrayRmpp).copied().unwrap_or(0)
    };
    let (was, mut ack): (u64, Mad) = (stray(&subnet), last.unwrap());
    for (number, method) in [0x14, 0x12, 0x02].into_iter().enumerate() {
        ack.0[3] = method;
        ack.0[15] = 100 + number as u8;
        subnet.give(from, &ack.0);
    }
    assert_eq!((requests(&subnet), stray(&subnet)), (before + 1, was + 3));
    assert!(subnet.mail.is_empty());
}

fn requests(subnet: &Subnet) -> u64 {
    subnet.manager.administration().requests.values().sum()
}

/// Switches with linear tables have no random ones: the table of them is empty, which is no error.
#[test]
fn there_are_no_random_forwarding_tables() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    assert_eq!(subnet.table(1, &RandomForwardingRecord::default(), &[]), []);
    let one = RandomForwardingRecord { lid: subnet.lid(1), ..RandomForwardingRecord::default() };
    assert_eq!(subnet.get(1, &one, &[0]), Err(SaStatus::NO_RECORDS));
}
