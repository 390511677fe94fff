//! The emulated data plane with all that adapters gave it, and what they are to hear of it.

use snin_agent_core::{PairId, Piece};
use snin_emulator::data::{
    Config, ConfigError, Dropped, Message, MessageId, Network, Observer, PortLanes, SendError,
    Statistics, Transmission, Transport, Wait,
};
use snin_fabric::{Addresses, ForwardingTable, Guid, Lid, NodeIndex, PortIndex, Topology, TreeId};
use snin_protocol::Time;

use super::bound::Judge;
use super::watch::Watch;

/// Set in the numbers of flows without a grant.
pub const UNASKED: u32 = 1 << 31;

/// A piece that was given to the network, by whom and for whom.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    /// The place of the host that sends.
    pub host: u32,
    /// Whether it asked, and was granted a tree.
    pub asked: bool,
    /// Its queue pair.
    pub pair: PairId,
    /// What its completion shall say.
    pub ticket: u64,
    /// What.
    pub piece: Piece,
    /// The port that is to get it.
    pub peer: Guid,
    /// Along which tree.
    pub tree: TreeId,
    /// By which address.
    pub lid: Lid,
    /// Acknowledged, or not.
    pub transport: Transport,
    /// Bit/s that were asked for, where that is less than the links carry.
    pub wanted: Option<u64>,
    /// Bit/s at which it is paced.
    pub rate: Option<u64>,
    /// When the last of it left its port, or was taken back.
    pub gone: Option<Time>,
}

/// What adapters are to hear of a message, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// All of it has left.
    Sent(MessageId, Time),
    /// The acknowledgement of its last packet is back.
    Acknowledged(MessageId, Time),
    /// All of it is there.
    Completed(MessageId, Time),
    /// Some of it is lost.
    Lost(MessageId),
}

/// Sees everything: watches links, judges bounds, keeps the news. Who was granted nothing owns nothing and was
/// promised nothing: of that only what others wait for it is seen.
#[derive(Debug)]
struct Eyes {
    watch: Watch,
    judge: Judge,
    news: Vec<News>,
    /// By port: data packets of what was granted.
    packets: Vec<u64>,
}

impl Observer for Eyes {
    fn transmitted(&mut self, transmission: &Transmission) {
        if transmission.flow & UNASKED == 0 {
            self.watch.transmitted(transmission);
            self.packets[transmission.port.index()] += u64::from(!transmission.acknowledgement);
        }
    }

    fn waited(&mut self, wait: &Wait) {
        if wait.flow & UNASKED == 0 {
            self.watch.waited(wait);
            self.judge.waited(wait);
        }
    }

    fn sent(&mut self, message: MessageId, at: Time) {
        self.news.push(News::Sent(message, at));
    }

    fn acknowledged(&mut self, message: MessageId, at: Time) {
        self.news.push(News::Acknowledged(message, at));
    }

    fn completed(&mut self, message: MessageId, at: Time) {
        self.news.push(News::Completed(message, at));
    }

    fn dropped(&mut self, dropped: &Dropped) {
        if !dropped.acknowledgement {
            self.news.push(News::Lost(dropped.message));
        }
    }

    fn has_enough(&self) -> bool {
        !self.news.is_empty()
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Wire {
    network: Network,
    mtu: u64,
    /// By message.
    under_way: Vec<UnderWay>,
    /// The tables of all ports that were set last.
    lanes: Vec<PortLanes>,
    eyes: Eyes,
}

impl Wire {
    /// A fabric that forwards as these tables say.
    ///
    /// # Errors
    /// When `config` contradicts itself.
    pub fn new(
        topology: &Topology,
        config: Config,
        addresses: &Addresses,
        tables: &[ForwardingTable],
        judge: Judge,
    ) -> Result<Self, ConfigError> {
        let mtu = config.mtu.into();
        let mut network = Network::new(topology, config)?;
        network.set_addresses(addresses);
        network.set_tables(tables);
        let packets = vec![0; topology.port_count()];
        let watch = Watch::new(topology.port_count());
        let eyes = Eyes { watch, judge, news: Vec::new(), packets };
        let (under_way, lanes) = (Vec::new(), Vec::new());
        Ok(Self { network, mtu, under_way, lanes, eyes })
    }

    /// Ports have these tables of service levels and lanes, one a port.
    pub fn set_lanes(&mut self, lanes: Vec<PortLanes>) {
        if lanes != self.lanes {
            self.network.set_lanes(lanes.clone());
            self.lanes = lanes;
        }
    }

    /// Sends a piece; how it is called from now on.
    ///
    /// # Errors
    /// What no adapter would send.
    pub fn send(&mut self, message: Message, from: UnderWay) -> Result<MessageId, SendError> {
        let id = self.network.send(message)?;
        self.under_way.push(from);
        Ok(id)
    }

    /// Takes back what has not left; a packet that has begun goes on.
    pub fn cancel(&mut self, message: MessageId) {
        self.network.cancel(message);
        let now = self.network.now();
        self.under_way[message.0 as usize].gone.get_or_insert(now);
    }

    /// Lets time pass until then, or until there is news; when it is.
    pub fn run_until(&mut self, until: Time) -> Time {
        self.network.run_observed(until, &mut self.eyes);
        if self.eyes.news.is_empty() { until } else { self.network.now() }
    }

    /// What adapters are to hear, in order.
    pub fn take_news(&mut self) -> Vec<News> {
        for news in &self.eyes.news {
            if let News::Sent(message, at) = *news {
                self.under_way[message.0 as usize].gone.get_or_insert(at);
            }
        }
        std::mem::take(&mut self.eyes.news)
    }

    /// Whose message that is.
    pub fn under_way(&self, message: MessageId) -> UnderWay {
        self.under_way[message.0 as usize]
    }

    /// How many messages there were so far: what comes next has this number.
    pub fn messages(&self) -> u32 {
        self.under_way.len() as u32
    }

    /// Payload of a message that has arrived.
    pub fn delivered(&self, message: MessageId) -> u64 {
        self.network.progress(message).delivered
    }

    /// Whether all of a message has arrived.
    pub fn is_complete(&self, message: MessageId) -> bool {
        self.network.progress(message).completed.is_some()
    }

    /// A cable breaks, or is whole again.
    pub fn set_cable(&mut self, port: PortIndex, whole: bool) {
        if whole { self.network.restore(port) } else { self.network.cut(port) }
    }

    /// A switch was written to.
    pub fn set_table(&mut self, switch: NodeIndex, table: &ForwardingTable) {
        self.network.set_table(switch, table);
    }

    /// Ports were given addresses.
    pub fn set_addresses(&mut self, addresses: &Addresses) {
        self.network.set_addresses(addresses);
    }

    /// Another window has begun.
    pub fn begin_window(&mut self) {
        let next = MessageId(self.messages());
        self.eyes.watch.begin_window(next);
    }

    /// Data packets of what was granted that a port has sent so far.
    pub fn packets(&self, port: PortIndex) -> u64 {
        self.eyes.packets[port.index()]
    }

    /// What a port can send in a time.
    pub fn payload_possible(&self, port: PortIndex, time: Time) -> u64 {
        self.network.payload_possible(port, time)
    }

    /// What a port can send in a time, paced at a rate where that is less than its own.
    pub fn payload_at(&self, port: PortIndex, rate: Option<u64>, time: Time) -> u64 {
        self.network.payload_paced(port, time, rate)
    }

    /// How long a port sends that much, paced at a rate where that is less than its own.
    pub fn paced_time(&self, port: PortIndex, bytes: u64, rate: Option<u64>) -> Time {
        self.network.paced_time(port, bytes, rate)
    }

    /// Bit/s of the slowest link on the way to an address, by the tables as they are.
    pub fn path_rate(&self, source: PortIndex, destination: Lid) -> Option<u64> {
        self.network.path_rate(source, destination)
    }

    /// Packets of full size that a port can send in a time.
    pub fn packets_possible(&self, port: PortIndex, time: Time) -> u64 {
        self.payload_possible(port, time) / self.mtu
    }

    /// The checker.
    pub const fn watch(&self) -> &Watch {
        &self.eyes.watch
    }

    /// What became of the bounds.
    pub const fn judge(&self) -> &Judge {
        &self.eyes.judge
    }

    /// Everything counted so far.
    pub const fn statistics(&self) -> &Statistics {
        self.network.statistics()
    }
}
