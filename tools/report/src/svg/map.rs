//! A large fabric: where lines would be a tangle, a cell a directed link. A column a switch, a row an uplink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use snin_fabric::{NodeIndex, PortIndex};

use super::fabric::{MOST_WIDTH, Paint, rows};
use super::{Extent, Scene, Sheet};

const CELL: f64 = 6.0;
const WIDEST_CELL: f64 = 24.0;
/// Above each band, for its name.
const NAME: f64 = 22.0;
const GAP: f64 = 10.0;

/// Cells of one colour, as a path; what is above is drawn last.
type Cells = BTreeMap<(u32, String), String>;

pub(super) fn draw(scene: &Scene<'_>, paint: &Paint<'_>, sheet: Sheet<'_>) -> Extent {
    let Sheet { body, left, top } = sheet;
    let rows = rows(scene);
    let mut depth = vec![0; scene.topology.switch_count()];
    for (row, switches) in rows.iter().enumerate() {
        switches.iter().for_each(|switch| depth[switch.index()] = row);
    }
    let widest = rows.iter().map(Vec::len).max().unwrap_or(1);
    let pitch = (MOST_WIDTH / widest as f64).min(WIDEST_CELL);
    let mut below = top;
    for (row, switches) in rows.iter().enumerate().skip(1) {
        let columns: Vec<Vec<(PortIndex, PortIndex)>> =
            switches.iter().map(|&switch| uplinks(scene, switch, &depth)).collect();
        for (upwards, way) in [(true, "up"), (false, "down")] {
            let name = format!("{} {}, {way}", switches.len(), stage(row, rows.len()));
            let port = |&(here, there): &(PortIndex, PortIndex)| if upwards { here } else { there };
            let column = |links: &Vec<_>| links.iter().map(|link| paint(port(link))).collect();
            let columns: Vec<Vec<_>> = columns.iter().map(column).collect();
            let height = columns.iter().map(Vec::len).max().unwrap_or(0) as f64 * CELL;
            let _ = writeln!(
                body,
                "<text x=\"{left:.1}\" y=\"{:.1}\">{name}</text>\n<rect class=\"cells\" x=\"{left:.1}\" \
                 y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#d8d8d8\"/>",
                below + NAME - 6.0,
                below + NAME,
                pitch * columns.len() as f64
            );
            let mut cells = Cells::new();
            for (place, column) in columns.iter().enumerate() {
                fill(&mut cells, column, (left + pitch * place as f64, below + NAME), pitch);
            }
            for ((_, colour), path) in cells {
                let _ = writeln!(body, "<path d=\"{path}\" fill=\"{colour}\"/>");
            }
            below += NAME + height + GAP;
        }
    }
    Extent { width: pitch * widest as f64, height: below - top }
}

const fn stage(row: usize, rows: usize) -> &'static str {
    if row + 1 == rows { "leaves" } else { "aggregation switches" }
}

/// Ports that lead up, each with the port at the other end.
fn uplinks(scene: &Scene<'_>, switch: NodeIndex, depth: &[usize]) -> Vec<(PortIndex, PortIndex)> {
    let topology = scene.topology;
    let is_above = |&(_, peer): &(PortIndex, PortIndex)| {
        let other = topology.port(peer).node;
        topology.is_switch(other) && depth[other.index()] < depth[switch.index()]
    };
    topology.cables(switch).filter(is_above).collect()
}

/// One column; neighbours of one colour are one rectangle.
fn fill(cells: &mut Cells, column: &[Option<super::Stroke>], (x, y): (f64, f64), width: f64) {
    let mut first = 0;
    for run in column.chunk_by(|a, b| key(a.as_ref()) == key(b.as_ref())) {
        if let Some((above, colour)) = key(run[0].as_ref()) {
            let (top, height) = (y + CELL * first as f64, CELL * run.len() as f64);
            let path = cells.entry((above, colour.to_owned())).or_default();
            let _ = write!(path, "M{x:.2} {top:.0}h{width:.2}v{height:.0}h-{width:.2}z");
        }
        first += run.len();
    }
}

fn key(stroke: Option<&super::Stroke>) -> Option<(u32, &str)> {
    stroke.map(|stroke| (stroke.above, stroke.colour.as_str()))
}
