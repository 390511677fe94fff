//! Pictures of a fabric with its links coloured, by owner or by load, and Paull's matrix of a plan; the frame of
//! charts.

mod fabric;
mod frame;
mod map;
mod paull;

use std::fmt::Write as _;

use snin_controller_core::plan::Plan;
use snin_fabric::routing::Routing;
use snin_fabric::traffic::Demand;
use snin_fabric::{NodeIndex, PortIndex, Topology};

pub use self::frame::Frame;

const MARGIN: f64 = 24.0;
const TITLE: f64 = 44.0;
/// With more cables between switches than this, lines would be a tangle.
const TANGLE: usize = 1_200;

/// How a directed link is drawn.
struct Stroke {
    colour: String,
    title: String,
    /// What has more is drawn above what has less.
    above: u32,
}

/// What pictures are drawn from.
struct Scene<'a> {
    topology: &'a Topology,
    routing: &'a Routing,
    demands: &'a [Demand],
    plan: &'a Plan,
}

impl Scene<'_> {
    fn host_name(&self, host: snin_fabric::hosts::HostId) -> String {
        let Some(host) = self.routing.hosts.get(host) else { return host.to_string() };
        escape(&self.topology.node(self.topology.port(host.port).node).name)
    }

    fn switch_name(&self, switch: NodeIndex) -> String {
        escape(&self.topology.node(switch).name)
    }

    /// Short labels: what all names have in common is left out where names are long, and what is still too
    /// long keeps its end.
    fn labels(&self, switches: &[NodeIndex]) -> Vec<String> {
        let names: Vec<&str> = switches.iter().map(|&s| &*self.topology.node(s).name).collect();
        shorten(&names).iter().map(|name| escape(name)).collect()
    }

    /// `source to destination on tree t`, for tooltips.
    fn grant_title(&self, grant: usize) -> String {
        let grant = &self.plan.grants[grant];
        let demand = self.demands[grant.demand];
        let (source, destination) = (demand.source, demand.destination);
        let (from, to) = (self.host_name(source), self.host_name(destination));
        format!("{from} to {to}, tree {}, DLID {}", grant.tree, grant.dlid)
    }
}

/// One SVG document: the fabric above, Paull's matrix below where there are grants between switches.
pub fn draw(topology: &Topology, routing: &Routing, demands: &[Demand], plan: &Plan) -> String {
    let scene = Scene { topology, routing, demands, plan };
    let mut body = String::new();
    let owners = owners(topology, plan);
    let paint = |port: PortIndex| {
        let owner = owners[port.index()]?;
        Some(Stroke { colour: colour(owner), title: scene.grant_title(owner), above: 0 })
    };
    let sheet = Sheet { body: &mut body, left: MARGIN, top: MARGIN + TITLE };
    let fabric = fabric::draw(&scene, &paint, sheet);
    let top = MARGIN + TITLE + fabric.height + MARGIN;
    let matrix = paull::draw(&scene, &mut body, MARGIN, top);
    let width = fabric.width.max(matrix.width).max(600.0) + 2.0 * MARGIN;
    let height = top + matrix.height + MARGIN;

    let mut svg = head(width, height);
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{:.0}\" font-size=\"16\" font-weight=\"bold\">{} hosts, {} switches, \
         {} trees</text>",
        MARGIN + 8.0,
        routing.hosts.len(),
        topology.switch_count(),
        routing.forest.len()
    );
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{:.0}\">{} of {} connections granted, {} deferred, {} refused; a colour \
         is an owner, grey is idle; left of a cable up, right down</text>",
        MARGIN + 28.0,
        plan.grants.len(),
        demands.len(),
        plan.deferred.len(),
        plan.refused.len()
    );
    svg.push_str(&body);
    svg.push_str("</svg>\n");
    svg
}

/// The fabric alone, with every directed link in the colour of its load: a line, or in large fabrics a cell.
pub fn loads(topology: &Topology, routing: &Routing, load: &[f64]) -> String {
    let plan = Plan::default();
    let scene = Scene { topology, routing, demands: &[], plan: &plan };
    let paint = |port: PortIndex| {
        let load = *load.get(port.index()).filter(|&&load| load > 0.0)?;
        let (place, colour) = load_colour(load);
        let title = format!("load {load:.2}");
        Some(Stroke { colour: colour.to_owned(), title, above: place as u32 })
    };
    let mut body = String::new();
    let cables = topology.switches().map(|switch| topology.switch_links(switch).count());
    let draw = if cables.sum::<usize>() / 2 > TANGLE { map::draw } else { fabric::draw };
    let fabric = draw(&scene, &paint, Sheet { body: &mut body, left: MARGIN, top: MARGIN });
    let (width, height) = (fabric.width + 2.0 * MARGIN, fabric.height + MARGIN);
    head(width, height) + &body + "</svg>\n"
}

/// Loads and their colours: a link that carries one connection, two, three, and more.
pub const LOADS: [(f64, &str); 4] =
    [(1.01, "#5fb79a"), (2.01, "#e9a23b"), (3.01, "#dd5f2a"), (f64::INFINITY, "#c2185b")];

/// The colour of a load, and its place among the colours.
fn load_colour(load: f64) -> (usize, &'static str) {
    let place = LOADS.partition_point(|&(most, _)| most < load).min(LOADS.len() - 1);
    (place, LOADS[place].1)
}

/// Paull's matrix alone; empty where nothing was granted between switches.
pub fn matrix(topology: &Topology, routing: &Routing, demands: &[Demand], plan: &Plan) -> String {
    let scene = Scene { topology, routing, demands, plan };
    let mut body = String::new();
    let matrix = paull::draw(&scene, &mut body, MARGIN, MARGIN);
    if body.is_empty() {
        return body;
    }
    head(matrix.width + 2.0 * MARGIN, matrix.height + 2.0 * MARGIN) + &body + "</svg>\n"
}

/// The grant that owns each directed link between switches.
fn owners(topology: &Topology, plan: &Plan) -> Vec<Option<usize>> {
    let mut owner = vec![None; topology.port_count()];
    for (number, grant) in plan.grants.iter().enumerate() {
        for hop in &grant.path {
            if let Some(port) = topology.port_of(hop.switch, hop.port) {
                owner[port.index()] = Some(number);
            }
        }
    }
    owner
}

/// A white page of that size. Its classes let a page around it choose other colours.
pub fn head(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\" \
         fill=\"#222\">\n<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    )
}

/// Where a part of a picture is drawn.
struct Sheet<'a> {
    body: &'a mut String,
    left: f64,
    top: f64,
}

struct Extent {
    width: f64,
    height: f64,
}

/// Neighbouring numbers get colours far apart: steps of the golden angle around the wheel.
pub fn colour(number: usize) -> String {
    let hue = (number as f64 * 137.508) % 360.0;
    let lightness = [42, 55, 34][number % 3];
    format!("hsl({hue:.0},72%,{lightness}%)")
}

const LONGEST_LABEL: usize = 16;

fn shorten(names: &[&str]) -> Vec<String> {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    if longest <= LONGEST_LABEL {
        return names.iter().map(|&name| name.to_owned()).collect();
    }
    // The common end starts at the last character that separates words, so that no word is torn.
    let end = common_length(names.iter().map(|name| name.chars().rev().collect()).collect());
    let cut = |name: &str| -> String {
        let chars: Vec<char> = name.chars().collect();
        let tail: String = chars[chars.len() - end..].iter().collect();
        let torn = tail.find([':', '/', ' ', ';']).unwrap_or(tail.len());
        let kept = &chars[..chars.len() - (tail.len() - torn).min(chars.len())];
        kept[kept.len().saturating_sub(LONGEST_LABEL)..].iter().collect()
    };
    names.iter().map(|name| cut(name)).collect()
}

fn common_length(reversed: Vec<Vec<char>>) -> usize {
    let Some((first, others)) = reversed.split_first() else { return 0 };
    let same = |at: usize| others.iter().all(|other| other.get(at) == first.get(at));
    (0..first.len()).take_while(|&at| same(at)).count()
}

/// Text as SVG and HTML have it.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
