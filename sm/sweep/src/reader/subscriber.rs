//! Reports of the manager that stays: its subnet administration is asked for them (IBA 13.4.8.3), as it hears of a
//! change before any look does.
//!
//! This is the one request of a reader that is no Get: Set(InformInfo) says who wants to be told, and changes
//! nothing of the subnet. It is sent again after every whole reading, since a manager that began anew knows no
//! subscribers.

use snin_fabric::Lid;
use snin_mad::sa::{ANY_LID, ANY_TRAP, ComponentMask, InformInfo, SaNotice, SaRequest};
use snin_mad::{Hex32, Mad, Method, Notice, PKey, Trap};
use snin_protocol::Time;

use crate::events::Output;
use snin_sm_database::error::Dropped;
use snin_sm_database::mad_address::{LocalPort, Origin};

/// How long subnet administration may take, and how often it is asked.
const PATIENCE: Time = Time::millis(1_000);
const ATTEMPTS: u32 = 4;
/// Where the transaction ids begin: not where SMPs' do.
const FIRST: u32 = 0x5B00_0000;
/// The queue pair of general management.
const QP1: u32 = 1;
/// In ProducerTypeVendorID: any.
const ANY_PRODUCER: Hex32 = Hex32(0xFF_FFFF);
/// As long as a response may take: 4.096 us times 2 to this, about a second.
const RESPONSE_TIME: u8 = 18;

/// What a report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Some port of the switch with this address.
    Switch(Lid),
    /// A port has joined the subnet or left it.
    Host,
    /// Nothing that moves a route.
    Nothing,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Subscriber {
    /// Whom to ask, by which port.
    administration: Option<(LocalPort, Origin)>,
    asked: Option<Pending>,
    count: u32,
    is_subscribed: bool,
}

#[derive(Debug)]
struct Pending {
    id: u32,
    attempts: u32,
    deadline: Time,
}

impl Subscriber {
    /// Asks to be told by the subnet administration at this address.
    pub(super) fn subscribe(
        &mut self,
        port: LocalPort,
        (lid, sl): (Lid, u8),
        now: Time,
    ) -> Option<Output> {
        let origin = Origin { lid, qp: QP1, sl, p_key: PKey::DEFAULT };
        if self.administration != Some((port, origin)) {
            (self.administration, self.is_subscribed) = (Some((port, origin)), false);
        }
        if lid == Lid::NONE {
            self.administration = None;
            return None;
        }
        self.count = self.count.wrapping_add(1);
        let id = FIRST.wrapping_add(self.count);
        self.asked = Some(Pending { id, attempts: 1, deadline: now + PATIENCE });
        self.request(id)
    }

    fn request(&self, id: u32) -> Option<Output> {
        let (port, to) = self.administration?;
        let info = InformInfo {
            lid_begin: ANY_LID,
            is_generic: 1,
            subscribe: 1,
            kind: ANY_TRAP,
            trap_number: ANY_TRAP,
            response_time: RESPONSE_TIME,
            producer: ANY_PRODUCER,
            ..InformInfo::default()
        };
        let request = SaRequest::new(Method::Set, &info, ComponentMask(0));
        let request = SaRequest { attribute_offset: 0, ..request.transaction(id.into()) };
        Some(Output::Answer { port, to, mad: Box::new(request.mad()) })
    }

    /// A MAD of subnet administration: an answer, or a report and what is said to it.
    ///
    /// # Errors
    /// When it is neither, or from somebody else.
    pub(super) fn receive(
        &mut self,
        from: Origin,
        bytes: &[u8],
    ) -> Result<(Heard, Option<Output>), Dropped> {
        let mad = Mad::from_slice(bytes).map_err(|_| Dropped::Truncated)?;
        let said = SaRequest::parse(&mad).map_err(|_| Dropped::Malformed)?;
        let (port, administration) = self.administration.ok_or(Dropped::Unsolicited)?;
        if from.lid != administration.lid {
            return Err(Dropped::Foreign);
        }
        match said.method {
            Method::GetResp => {
                // The upper half is the driver's.
                let id = said.transaction_id.0 as u32;
                let asked = self.asked.take_if(|asked| asked.id == id);
                asked.ok_or(Dropped::Replayed)?;
                self.is_subscribed = said.status.is_ok();
                Ok((Heard::Nothing, None))
            }
            Method::Report => {
                let notice: SaNotice = said.record().map_err(|_| Dropped::Malformed)?;
                let notice = notice.notice.parse().map_err(|_| Dropped::Malformed)?;
                let answer = SaRequest { method: Method::ReportResp, ..said }.mad();
                let answer = Output::Answer { port, to: from, mad: Box::new(answer) };
                Ok((heard(&notice), Some(answer)))
            }
            _ => Err(Dropped::Request),
        }
    }

    /// The address of subnet administration, and whether it took the subscription.
    pub(super) fn state(&self) -> Option<(Lid, bool)> {
        self.administration.map(|(_, origin)| (origin.lid, self.is_subscribed))
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.asked.as_ref().map(|asked| asked.deadline)
    }

    /// Asks once more what was not answered in time, some times.
    pub(super) fn expire(&mut self, now: Time) -> Option<Output> {
        let asked = self.asked.as_mut().filter(|asked| asked.deadline <= now)?;
        if asked.attempts == ATTEMPTS {
            (self.asked, self.is_subscribed) = (None, false);
            return None;
        }
        (asked.attempts, asked.deadline) = (asked.attempts + 1, now + PATIENCE);
        let id = asked.id;
        self.request(id)
    }
}

fn heard(notice: &Notice) -> Heard {
    match notice.trap() {
        Ok(Some(Trap::LinkStateChange(details))) => Heard::Switch(details.lid),
        Ok(Some(Trap::GidInService(_) | Trap::GidOutOfService(_))) => Heard::Host,
        _ => Heard::Nothing,
    }
}
