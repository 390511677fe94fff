//! The insides of all switches: which packets wait where, and which inputs and outputs are taken.

use snin_fabric::Topology;

use super::bits::Rows;
use super::config::{Config, Queues};
use super::packet::List;
use super::port::Port;

/// A packet's way through a switch, from the buffer of one VL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    /// The switch, and its port 0.
    pub(super) switch: u32,
    pub(super) first: u32,
    /// The number of its last port.
    pub(super) last: u8,
    pub(super) input: u8,
    pub(super) output: u8,
    pub(super) vl: u8,
}

impl Crossing {
    pub(super) const fn new(output: &Port, input: u8, vl: u8) -> Self {
        let Port { place, first, last, number, .. } = *output;
        Self { switch: place, first, last, input, output: number, vl }
    }

    /// A port of the switch.
    pub(super) const fn port(&self, number: u8) -> u32 {
        self.first + number as u32
    }

    pub(super) const fn output(&self) -> u32 {
        self.port(self.output)
    }
}

/// See the module's documentation. A lane is a port and the VL of the buffers that packets come in by, seen from
/// their input or from their output.
#[derive(Debug)]
pub(super) struct Crossbars {
    kind: Queues,
    vls: usize,
    /// By lane out: inputs that have a packet for it to take.
    waiting: Rows,
    /// By lane in, two rows: outputs that could take a packet of its, and those that are sending one.
    outputs: Rows,
    /// By switch and VL: inputs that give as much as they can.
    taken: Rows,
    /// By switch: outputs that are sending.
    busy: Rows,
    /// By lane in.
    inputs: Vec<Input>,
    /// Queues of packets that come in while others wait for another output.
    others: Vec<List>,
    /// By switch: the first of these.
    first_other: Vec<u32>,
}

/// Where a queue is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At the input itself, by lane in.
    Input(usize),
    Other(usize),
}

/// Where packets come in on a VL.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// Those that wait, as long as all are for one output: what comes in mostly goes the same way.
    queue: List,
    /// Which one.
    output: u8,
    /// Mbit/s of the outputs that are sending from it.
    load: u32,
}

impl Crossbars {
    pub(super) fn new(topology: &Topology, config: &Config) -> Self {
        let vls = usize::from(config.vls);
        let top = topology.switches().map(|switch| topology.node(switch).ports).max().unwrap_or(0);
        let mut others = 0;
        let first_other = topology.switches().map(|switch| {
            let ports = usize::from(topology.node(switch).ports) + 1;
            let own = match config.queues {
                Queues::PerInput => 0,
                Queues::PerOutput => ports * vls * ports,
            };
            others += own;
            (others - own) as u32
        });
        let first_other = first_other.collect();
        let lanes = topology.port_count() * vls;
        Self {
            kind: config.queues,
            vls,
            waiting: Rows::new(lanes, top),
            outputs: Rows::new(lanes * 2, top),
            taken: Rows::new(topology.switch_count() * vls, top),
            busy: Rows::new(topology.switch_count(), top),
            inputs: vec![Input { queue: List::EMPTY, output: 0, load: 0 }; lanes],
            others: vec![List::EMPTY; others],
            first_other,
        }
    }

    /// Words of a set of ports.
    pub(super) const fn words(&self) -> usize {
        self.waiting.words()
    }

    /// Where packets of this input and VL wait, for this output or for any.
    pub(super) fn queue(&mut self, crossing: Crossing) -> &mut List {
        match self.place(crossing) {
            Place::Input(lane) => &mut self.inputs[lane].queue,
            Place::Other(place) => &mut self.others[place],
        }
    }

    /// The first packet that waits there.
    pub(super) fn first(&self, crossing: Crossing) -> Option<u32> {
        match self.place(crossing) {
            Place::Input(lane) => self.inputs[lane].queue.first(),
            Place::Other(place) => self.others[place].first(),
        }
    }

    /// Where a packet has to wait that comes in now.
    pub(super) fn queue_in(&mut self, crossing: Crossing) -> &mut List {
        let lane = self.lane_in(crossing);
        let input = &mut self.inputs[lane];
        if input.queue.first().is_none() && !self.outputs.contains(wanted(lane), crossing.output) {
            input.output = crossing.output;
        }
        self.queue(crossing)
    }

    fn place(&self, crossing: Crossing) -> Place {
        let lane = self.lane_in(crossing);
        if self.kind == Queues::PerInput || self.inputs[lane].output == crossing.output {
            return Place::Input(lane);
        }
        let lane = usize::from(crossing.input) * self.vls + usize::from(crossing.vl);
        let queue = lane * (usize::from(crossing.last) + 1) + usize::from(crossing.output);
        Place::Other(self.first_other[crossing.switch as usize] as usize + queue)
    }

    /// The output can take a packet from the input.
    pub(super) fn announce(&mut self, crossing: Crossing) {
        self.waiting.set(self.lane_out(crossing), crossing.input);
        self.outputs.set(wanted(self.lane_in(crossing)), crossing.output);
    }

    /// It can no more.
    pub(super) fn withdraw(&mut self, crossing: Crossing) {
        self.waiting.clear(self.lane_out(crossing), crossing.input);
        self.outputs.clear(wanted(self.lane_in(crossing)), crossing.output);
    }

    /// The output sends from the input, at `rate` of the `most` Mbit/s at which the input gives: to several slow
    /// outputs at once, and to one that is faster too.
    pub(super) fn begin(&mut self, crossing: Crossing, rate: u32, most: u32) {
        let lane = self.lane_in(crossing);
        self.outputs.set(readers(lane), crossing.output);
        self.inputs[lane].load += rate;
        if self.inputs[lane].load >= most {
            self.taken.set(self.inputs(crossing), crossing.input);
        }
        self.busy.set(crossing.switch as usize, crossing.output);
    }

    /// It has sent. Whether the input can give again what it could not before.
    pub(super) fn end(&mut self, crossing: Crossing, rate: u32, most: u32) -> bool {
        let lane = self.lane_in(crossing);
        self.outputs.clear(readers(lane), crossing.output);
        self.busy.clear(crossing.switch as usize, crossing.output);
        let load = self.inputs[lane].load;
        self.inputs[lane].load -= rate;
        let is_free = load >= most && load - rate < most;
        if is_free {
            self.taken.clear(self.inputs(crossing), crossing.input);
        }
        is_free
    }

    /// Whether the input gives as much as it can.
    pub(super) fn is_taken(&self, crossing: Crossing) -> bool {
        self.taken.contains(self.inputs(crossing), crossing.input)
    }

    /// A word of the outputs that send from the input.
    pub(super) fn readers(&self, crossing: Crossing, word: usize) -> u64 {
        self.outputs.row(readers(self.lane_in(crossing)))[word]
    }

    /// Whether any input has a packet for the output.
    pub(super) fn is_waited_for(&self, crossing: Crossing) -> bool {
        !self.waiting.is_empty(self.lane_out(crossing))
    }

    /// Whether any output could take a packet from the input.
    pub(super) fn is_wanted(&self, crossing: Crossing) -> bool {
        !self.outputs.is_empty(wanted(self.lane_in(crossing)))
    }

    /// The first input from `turn` on that has a packet for the output and can give it.
    pub(super) fn next_input(&self, crossing: Crossing, turn: u8) -> Option<u8> {
        let taken = (&self.taken, self.inputs(crossing));
        self.waiting.first_from(self.lane_out(crossing), taken, turn)
    }

    /// A word of the inputs that have a packet for the output.
    pub(super) fn waiting(&self, crossing: Crossing, word: usize) -> u64 {
        self.waiting.row(self.lane_out(crossing))[word]
    }

    /// An input that has a packet for the output.
    pub(super) fn any_input(&self, crossing: Crossing) -> Option<u8> {
        self.waiting.first(self.lane_out(crossing))
    }

    /// A word of the outputs that are free and could take a packet from the input.
    pub(super) fn idle_outputs(&self, crossing: Crossing, word: usize) -> u64 {
        let wanted = self.outputs.row(wanted(self.lane_in(crossing)))[word];
        wanted & !self.busy.row(crossing.switch as usize)[word]
    }

    /// Reads a lane in.
    pub(super) fn see_input(&self, lane: usize) -> u32 {
        self.outputs.row(wanted(lane))[0] as u32 ^ u32::from(self.inputs[lane].output)
    }

    /// Reads a lane out.
    pub(super) fn see_output(&self, lane: usize) -> u32 {
        self.waiting.row(lane)[0] as u32
    }

    const fn lane_in(&self, crossing: Crossing) -> usize {
        crossing.port(crossing.input) as usize * self.vls + crossing.vl as usize
    }

    const fn lane_out(&self, crossing: Crossing) -> usize {
        crossing.output() as usize * self.vls + crossing.vl as usize
    }

    /// The row of a switch's inputs on one VL.
    const fn inputs(&self, crossing: Crossing) -> usize {
        crossing.switch as usize * self.vls + crossing.vl as usize
    }
}

/// The row of the outputs that want something of a lane in.
const fn wanted(lane: usize) -> usize {
    lane * 2
}

/// The row of those that send from it, beside the other in memory.
const fn readers(lane: usize) -> usize {
    lane * 2 + 1
}
