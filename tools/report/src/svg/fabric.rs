//! The fabric: a row of switches a stage, two lines a cable.

use std::fmt::Write as _;

use snin_fabric::clos::Level;
use snin_fabric::{NodeIndex, PortIndex};

use super::{Extent, LETTER, Scene, Sheet, Stroke};

const ROW: f64 = 260.0;
/// Room for the names below the last row.
const NAMES: f64 = 90.0;
const BOX: f64 = 14.0;
const LEAST_PITCH: f64 = 34.0;
const LEAST_WIDTH: f64 = 900.0;
pub(super) const MOST_WIDTH: f64 = 1240.0;
/// With more switches than this in a row their names are tooltips only.
const NAMED_ROW: usize = 100;

/// How a directed link is drawn; `None` where it is idle.
pub(super) type Paint<'a> = dyn Fn(PortIndex) -> Option<Stroke> + 'a;

pub(super) fn draw(scene: &Scene<'_>, paint: &Paint<'_>, sheet: Sheet<'_>) -> Extent {
    let Sheet { body, left, top } = sheet;
    let rows = rows(scene);
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = (longest as f64 * LEAST_PITCH).clamp(LEAST_WIDTH, MOST_WIDTH);
    let mut centre = vec![(0.0, 0.0); scene.topology.switch_count()];
    for (row, switches) in rows.iter().enumerate() {
        let pitch = width / switches.len() as f64;
        for (place, switch) in switches.iter().enumerate() {
            let x = left + pitch * (place as f64 + 0.5);
            centre[switch.index()] = (x, top + BOX + ROW * row as f64);
        }
    }
    cables(scene, paint, body, &centre);
    let hosts = scene.routing.hosts.per_switch(scene.topology);
    for (row, switches) in rows.iter().enumerate() {
        let pitch = width / switches.len() as f64;
        let side = BOX.min(pitch * 0.8);
        let labels = match switches.len() {
            0..=NAMED_ROW => scene.labels(switches),
            _ => vec![String::new(); switches.len()],
        };
        // Below the top row are its cables.
        let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let above = row == 0 && LETTER * widest as f64 <= pitch;
        for (&switch, label) in switches.iter().zip(&labels) {
            let (centre, hosts) = (centre[switch.index()], hosts[switch.index()]);
            switch_box(scene, body, switch, (centre, side), hosts);
            write_label(body, centre, label, above);
        }
    }
    Extent { width, height: BOX * 2.0 + ROW * rows.len().saturating_sub(1) as f64 + NAMES }
}

/// The switches from the top row to the bottom one.
pub(super) fn rows(scene: &Scene<'_>) -> Vec<Vec<NodeIndex>> {
    let height = |switch: NodeIndex| match (&scene.routing.shape, &scene.routing.ranks) {
        (Ok(clos), _) => match clos.level(switch) {
            Level::Root => 0,
            Level::Aggregation => 1,
            Level::Leaf => 2,
            Level::Outside => 3,
        },
        (Err(_), Some(ranks)) => ranks.rank(switch),
        (Err(_), None) => 0,
    };
    let mut rows = std::collections::BTreeMap::<u32, Vec<NodeIndex>>::new();
    for switch in scene.topology.switches() {
        rows.entry(height(switch)).or_default().push(switch);
    }
    rows.into_values().collect()
}

/// Idle cables as one path, so that large fabrics stay small files; others a line a direction.
fn cables(scene: &Scene<'_>, paint: &Paint<'_>, body: &mut String, centre: &[(f64, f64)]) {
    let topology = scene.topology;
    let mut idle = String::new();
    let mut lines: Vec<(u32, String)> = Vec::new();
    for switch in topology.switches() {
        for (port, peer) in topology.cables(switch) {
            let other = topology.port(peer).node;
            if !topology.is_switch(other) {
                continue;
            }
            let (from, to) = (centre[switch.index()], centre[other.index()]);
            match paint(port) {
                Some(stroke) => {
                    let line = line(scene, port, peer, &stroke, (from, to));
                    lines.push((stroke.above, line));
                }
                None if port < peer => {
                    let _ = write!(idle, "M{:.1} {:.1}L{:.1} {:.1}", from.0, from.1, to.0, to.1);
                }
                None => {}
            }
        }
    }
    let _ = writeln!(
        body,
        "<path class=\"idle\" d=\"{idle}\" stroke=\"#d8d8d8\" stroke-width=\"0.6\" fill=\"none\"/>"
    );
    lines.sort_by_key(|&(above, _)| above);
    let lines: String = lines.into_iter().map(|(_, line)| line).collect();
    let _ = writeln!(body, "<g stroke-width=\"1.3\">\n{lines}</g>");
}

/// The line of one direction, moved to its own side and apart from parallel cables.
fn line(
    scene: &Scene<'_>,
    port: PortIndex,
    peer: PortIndex,
    stroke: &Stroke,
    ((x1, y1), (x2, y2)): ((f64, f64), (f64, f64)),
) -> String {
    let topology = scene.topology;
    let (switch, other) = (topology.port(port).node, topology.port(peer).node);
    let parallel = topology.switch_links(switch).filter(|&(_, peer)| peer == other);
    let place = parallel.take_while(|&(num, _)| num < topology.num(port)).count() as f64;
    let upwards = y2 < y1;
    let shift = if upwards { -0.9 } else { 0.9 } + place * 4.0;
    format!(
        "<line x1=\"{:.1}\" y1=\"{y1:.1}\" x2=\"{:.1}\" y2=\"{y2:.1}\" stroke=\"{}\"><title>{} to {}: {}\
         </title></line>\n",
        x1 + shift,
        x2 + shift,
        stroke.colour,
        super::escape(&topology.port_name(port)),
        super::escape(&topology.port_name(peer)),
        stroke.title
    )
}

fn switch_box(
    scene: &Scene<'_>,
    body: &mut String,
    switch: NodeIndex,
    ((x, y), side): ((f64, f64), f64),
    hosts: usize,
) {
    let name = scene.switch_name(switch);
    let _ = writeln!(
        body,
        "<rect class=\"switch\" x=\"{:.1}\" y=\"{:.1}\" width=\"{side:.1}\" height=\"{side:.1}\" rx=\"2\" \
         fill=\"#fff\" stroke=\"#333\"><title>{name}: {hosts} hosts</title></rect>",
        x - side / 2.0,
        y - side / 2.0
    );
}

/// A switch's name: above it where there is room for that, else below and turned.
fn write_label(body: &mut String, (x, y): (f64, f64), label: &str, above: bool) {
    if label.is_empty() {
        return;
    }
    let place = if above {
        format!("x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\"", y - BOX / 2.0 - 4.0)
    } else {
        let (x, y) = (x + 3.5, y + BOX);
        format!(
            "x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(90 {x:.1} {y:.1})\" dx=\"4\" dy=\"-1\""
        )
    };
    let _ = writeln!(
        body,
        "<text class=\"halo\" {place} font-size=\"9\" stroke=\"#fff\" stroke-width=\"2.5\" \
         paint-order=\"stroke\">{label}</text>"
    );
}
