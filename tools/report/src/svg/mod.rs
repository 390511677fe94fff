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
const TANGLE: usize = 120;

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
    let fabric = draw_fabric(&scene, &paint, sheet);
    let top = MARGIN + TITLE + fabric.height + MARGIN;
    let matrix = paull::draw(&scene, &mut body, MARGIN, top);
    let width = fabric.width.max(matrix.width).max(760.0) + 2.0 * MARGIN;
    let height = top + matrix.height + MARGIN;

    let mut svg = head(width, height);
    svg.push_str(DARK);
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
         is an owner, grey is idle; {}</text>",
        MARGIN + 28.0,
        plan.grants.len(),
        demands.len(),
        plan.deferred.len(),
        plan.refused.len(),
        match is_tangle(topology) {
            true => "a cell is one direction of a cable",
            false => "left of a cable up, right down",
        }
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
    let sheet = Sheet { body: &mut body, left: MARGIN, top: MARGIN };
    let fabric = draw_fabric(&scene, &paint, sheet);
    let (width, height) = (fabric.width + 2.0 * MARGIN, fabric.height + MARGIN);
    head(width, height) + &body + "</svg>\n"
}

/// A line a directed link, or in large fabrics a cell.
fn draw_fabric(scene: &Scene<'_>, paint: &fabric::Paint<'_>, sheet: Sheet<'_>) -> Extent {
    let draw = if is_tangle(scene.topology) { map::draw } else { fabric::draw };
    draw(scene, paint, sheet)
}

fn is_tangle(topology: &Topology) -> bool {
    let cables = topology.switches().map(|switch| topology.switch_links(switch).count());
    cables.sum::<usize>() / 2 > TANGLE
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

/// The colours of a picture that stands alone, where the reader has a dark screen; a page brings its own.
const DARK: &str = "<style>@media(prefers-color-scheme:dark){svg{fill:#e6e9ec}.paper,.switch{fill:#14181c}\
.switch{stroke:#9aa4ae}.halo{stroke:#14181c}.idle{stroke:#3d454c}.grid{stroke:#2d343a}.axis{stroke:#9aa4ae}\
.cells{fill:#3d454c}}</style>\n";

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
/// About as wide as a letter of a label.
pub(crate) const LETTER: f64 = 5.5;

/// What stands for the part of a name that has no room.
const LEFT_OUT: char = '\u{2026}';

/// Names that are short enough. Of longer ones what all have in common at their ends is left out, then at their
/// fronts, and of what is still too long the front; where something is left out, an ellipsis says so.
fn shorten(names: &[&str]) -> Vec<String> {
    let letters: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let longest = letters.iter().map(Vec::len).max().unwrap_or(0);
    if longest <= LONGEST_LABEL {
        return names.iter().map(|&name| name.to_owned()).collect();
    }
    // A common part ends, or begins, where words do, so that no word is torn.
    let is_between = |c: &char| matches!(c, ':' | '/' | ' ' | ';');
    let reversed = letters.iter().map(|name| name.iter().rev().copied().collect()).collect();
    let shared = common_length(reversed);
    let kept: Vec<&[char]> = letters
        .iter()
        .map(|name| {
            let (own, end) = name.split_at(name.len() - shared);
            let torn = end.iter().position(is_between).unwrap_or(end.len());
            &name[..own.len() + torn]
        })
        .collect();
    let cut = |name: &&[char], whole: &Vec<char>| -> String {
        let over = name.len().saturating_sub(LONGEST_LABEL);
        // The ellipses take the place of a letter each.
        let front = if over > 0 { Some(LEFT_OUT) } else { None };
        let back = (name.len() < whole.len()).then_some(LEFT_OUT);
        let first = if over > 0 { over + 1 } else { 0 };
        front.into_iter().chain(name[first..].iter().copied()).chain(back).collect()
    };
    kept.iter().zip(&letters).map(|(name, whole)| cut(name, whole)).collect()
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
