//! What is in which frame, in which order: the whole wire format. A change here is a new
//! [`VERSION`](super::VERSION).

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use snin_fabric::routing::Engine;
use snin_fabric::{Dlid, Guid, Lid, Lmc, TreeId};

use super::wire::{Wire, choices, lists, newtypes, records};
use crate::collective::{Collective, CollectiveKind, Dims, MAX_MEMBERS, Member};
use crate::election::{Ballot, Kind as BallotKind, Message as Vote, Priority, State as Candidacy};
use crate::greeting::{Greet, Reason, Refused, Service, SessionMessage, Welcome};
use crate::identity::{Identity, MAX_NAME, Role};
use crate::message::{
    AgentMessage, Answer, Ask, Change, ClockAnswer, ClockQuestion, Confirm, ControllerMessage,
    FromAgent, Grant, Hello, Lease, LinkTest, LinkTested, MAX_ANSWERS, MAX_CHANGES, MAX_GRANTS,
    MAX_PAIRS, MAX_PREFERRED, PinnedPath, Preferred, Refusal, Request, SliceMember, Terms, ToAgent,
    UnusablePair, Verdict, ViewChange, ViewClear, Wait,
};
use crate::mirror::{
    Checksum, Follow, FromMaster, FromStandby, Have, Line, MAX_LINES, Part, PartKind, Standing,
};
use crate::peer::{
    Accept, Decline, DeclineReason, End, EndAddress, Hello as PeerHello, Offer, PeerMessage,
};
use crate::software_port::messages::{
    Arrived, Attach, AttachRefused, Cancel, Completed, Find, Found, FromFabric, Loss, Outcome,
    PortStatus, Post, RefusedReason, ToFabric,
};
use crate::view::{
    Computed, FromManager, MAX_PART, MAX_TREES, Policy, PortTest, PortTested, ToManager, ViewBegin,
    ViewPart,
};
use crate::{ConnectionNumber, Session, Term, Time};

newtypes!(Guid, Lid, Dlid, TreeId, Time, Term, Session, ConnectionNumber);

records! {
    FromAgent { session, body }
    Hello { port, term }
    Ask { number, changes }
    Request { connection, destination, windows, rate, class, pinned, tree }
    Confirm { sequence }
    ClockQuestion { sent }
    ToAgent { session, term, at, body }
    Terms { window, guard, clock_error }
    Lease { sequence, heard, grants, answers, collective }
    Collective { kind, members, place, tree, origin, slot, gap, from, until, rate, sl }
    Member { port, dlid }
    Dims { x, y, z }
    Grant { connection, tree, dlid, from, until, rate, pinned, sl }
    Answer { connection, verdict }
    ClockAnswer { sent }
    LinkTest { number, peer, messages, bytes }
    LinkTested { number, arrived }
    PortTest { number, port, messages }
    PortTested { number, arrived }
    ViewChange { version, unusable }
    UnusablePair { switch, tree }
    ViewClear { version }
    PeerHello { port, session, call, flows }
    Preferred { part, parts, pins, slices }
    PinnedPath { source, destination, dlid }
    SliceMember { port, job, dlid }
    Offer { token, dlid, sl, end }
    Accept { token, end }
    Decline { token, reason }
    End { address, number, first_packet, mtu, datagrams }
    Greet { identity, service, first, last }
    Welcome { identity, version }
    Refused { reason, first, last }
    ViewBegin {
        version, parts, topology, addresses, lmc, unmanaged_trees, granted_sl, engine, places, order, unusable,
        tables
    }
    ViewPart { version, number, bytes }
    Computed { version, tables }
    Follow { guid, term, sequence }
    Have { term, sequence }
    Standing { guid, term, holds, sequence, line, settings }
    Line { term, origin }
    Part { term, sequence, kind, lines }
    Checksum { term, sequence, table, records, sum }
    Ballot { to, at, message }
    Vote { kind, sender, state, priority }
    Priority { chosen, ports_ok, good_ports, master, operator }
    Attach { port }
    Post { port, token, flow, to, path_bits, sl, bytes, begin, payload }
    Cancel { port, token, at }
    Find { port, peer }
    PortStatus { port, lid, lmc, active, rate, mtu }
    AttachRefused { port, reason }
    Completed { port, token, outcome }
    Arrived { port, from, to, payload }
    Found { port, peer, lid, attached }
}

choices! {
    AgentMessage { 0 Hello(it), 1 Ask(it), 2 Confirm(it), 3 Clock(it), 4 LinkTested(it) }
    Change { 0 Request(it), 1 Withdraw(it) }
    ControllerMessage { 0 Welcome(it), 1 Lease(it), 2 Clock(it), 3 Stranger, 4 LinkTest(it) }
    Engine { 0 Trees, 1 UpDown, 2 Lanes, 3 DimensionOrder, 4 MinHop, 5 DModK, 6 File, 7 Found }
    CollectiveKind {
        0 Ring, 1 BidirectionalRing, 2 HalvingDoubling, 3 AllToAll, 4 Grid(it), 5 Halo(it),
    }
    Verdict { 0 Served, 1 Deferred(it), 2 Refused(it) }
    Wait {
        0 PortsBusy, 1 SourceFull, 2 DestinationFull, 3 NoTreeFreed, 4 PinnedAway, 5 Rests, 6 Draining,
        7 NoManager, 8 Collective,
    }
    Refusal {
        0 Off, 1 UnknownSource, 2 UnknownDestination, 3 Itself, 4 TooFast, 5 TooMany, 6 SourceCut,
        7 DestinationCut, 8 NoCommonTree, 9 NotAddressed, 10 TreeNotAllowed, 11 NoRoute,
        12 StrictImpossible,
    }
    PeerMessage {
        0 Hello(it), 1 Offer(it), 2 Accept(it), 3 Decline(it), 4 Withdraw(it), 5 Lost(it), 6 Ping(it),
        7 Pong(it),
    }
    DeclineReason { 0 Full, 1 Device, 2 NoPath, 3 OtherMode }
    EndAddress { 0 Lid(it), 1 Gid(it) }
    SessionMessage { 0 Greet(it), 1 Welcome(it), 2 Refused(it), 3 Ping, 4 Pong }
    Service { 0 Grants, 1 Views, 2 Peers, 3 Mirrors }
    Reason { 0 Version, 1 Service, 2 Role, 3 Identity, 4 Full }
    Role { 0 Agent, 1 Manager, 2 Controller, 3 Operator, 4 Launcher }
    FromManager { 0 Begin(it), 1 Part(it), 2 Change(it), 3 Policy(it), 4 Test(it) }
    ToManager { 0 Clear(it), 1 Computed(it), 2 Preferred(it), 3 Tested(it) }
    FromStandby { 0 Follow(it), 1 Have(it), 2 Ballot(it) }
    BallotKind { 0 Status, 1 Takeover, 2 Cede }
    Candidacy { 0 Electing, 1 Master, 2 Standby }
    FromMaster { 0 Standing(it), 1 Part(it), 2 Checksum(it) }
    PartKind { 0 First, 1 More, 2 Last, 3 Change }
    Policy { 0 Strict, 1 Shared, 2 Off }
    ToFabric { 0 Attach(it), 1 Detach(it), 2 Post(it), 3 Cancel(it), 4 Find(it) }
    FromFabric { 0 Attached(it), 1 Refused(it), 2 Completed(it), 3 Arrived(it), 4 Found(it) }
    RefusedReason { 0 NoSuchPort, 1 Taken, 2 TooMany }
    Outcome { 0 Delivered, 1 Cancelled, 2 Lost(it) }
    Loss {
        0 LinkDown, 1 NoRoute, 2 Looped, 3 WrongPort, 4 Nobody, 5 Full, 6 Queue, 7 TooLong, 8 WrongTime,
        9 NotAttached, 10 Partition,
    }
}

lists! {
    Change up to MAX_CHANGES;
    Grant up to MAX_GRANTS;
    Answer up to MAX_ANSWERS;
    Member up to MAX_MEMBERS;
    UnusablePair up to MAX_PAIRS;
    PinnedPath up to MAX_PREFERRED;
    SliceMember up to MAX_PREFERRED;
    u16 up to MAX_TREES;
    u8 up to MAX_PART;
}

// Lists of bytes have one limit.
const _: () = assert!(MAX_LINES == MAX_PART);

/// Its number of bits.
impl Wire for Lmc {
    fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        self.bits().put(to)
    }

    fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
        Self::new(u8::take(from)?).ok_or(DecodeError::Other("an LMC above 7"))
    }
}

/// A role, then a GUID for an agent, or a name.
impl Wire for Identity {
    fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        self.role().put(to)?;
        match self {
            Self::Agent(port) => port.put(to),
            Self::Named(_, name) => name.as_bytes().to_vec().put(to),
        }
    }

    fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
        match Role::take(from)? {
            Role::Agent => Guid::take(from).map(Self::Agent),
            role => {
                let count = usize::from(u16::take(from)?);
                if count > MAX_NAME {
                    return Err(DecodeError::Other("a name is too long"));
                }
                let bytes = (0..count).map(|_| u8::take(from)).collect::<Result<Vec<u8>, _>>()?;
                let name =
                    str::from_utf8(&bytes).map_err(|_| DecodeError::Other("a name is no text"))?;
                Self::new(role, name).map_err(|_| DecodeError::Other("a name that names nobody"))
            }
        }
    }
}

/// Sixteen bytes, as they are.
impl Wire for [u8; 16] {
    fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        self.iter().try_for_each(|byte| byte.put(to))
    }

    fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
        let mut bytes = [0; 16];
        for byte in &mut bytes {
            *byte = u8::take(from)?;
        }
        Ok(bytes)
    }
}

/// A byte that says whether there is one, then it.
impl<T: Wire> Wire for Option<T> {
    fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        self.is_some().put(to)?;
        self.as_ref().map_or(Ok(()), |value| value.put(to))
    }

    fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}
