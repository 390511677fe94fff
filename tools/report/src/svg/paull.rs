//! Paull's matrix: a row a source leaf, a column a destination leaf, in each cell the trees that carry
//! its connections. A tree appears at most once in a row and once in a column.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use snin_fabric::NodeIndex;

use super::{Extent, LETTER, Scene, colour};

/// The caption above the matrix, two lines of it.
const CAPTION: f64 = 34.0;
/// Labels are this far from the matrix.
const APART: f64 = 5.0;
/// The size of a label's letters.
const LABEL: f64 = 9.0;
/// The heading needs it.
const HEADING: f64 = 480.0;
/// Up to so many leaves the trees are written as numbers; beyond, cells are coloured squares.
const WRITTEN: usize = 48;
/// No more leaves than this are shown: the others would make the marks too small to see.
const MOST: usize = 96;

pub(super) fn draw(scene: &Scene<'_>, body: &mut String, left: f64, top: f64) -> Extent {
    let cells = cells(scene);
    if cells.is_empty() {
        return Extent { width: 0.0, height: 0.0 };
    }
    let mut switches: Vec<NodeIndex> = cells.keys().flat_map(|&(from, to)| [from, to]).collect();
    switches.sort_unstable();
    switches.dedup();
    let all = switches.len();
    switches.truncate(MOST);
    let shown = |leaf: &NodeIndex| switches.binary_search(leaf).is_ok();
    let cells: Cells =
        cells.into_iter().filter(|((from, to), _)| shown(from) && shown(to)).collect();
    let most = cells.values().map(Vec::len).max().unwrap_or(1);
    let across = (most as f64).sqrt().ceil().max(1.0);
    let written = switches.len() <= WRITTEN;
    let mark = if written { 12.0 } else { 4.0 };
    let cell = mark * across + 3.0;
    let labels = if written { scene.labels(&switches) } else { Vec::new() };
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    // Names are escaped: that makes them no wider, so there is room enough.
    let head = LETTER * longest as f64 + 2.0 * APART;
    let (x0, y0) = (left + head, top + CAPTION + head);
    let side = cell * switches.len() as f64;

    let part = if all > MOST { format!("; the first {MOST} of {all}") } else { String::new() };
    let _ = writeln!(
        body,
        "<text x=\"{left:.0}\" y=\"{:.0}\" font-size=\"13\" font-weight=\"bold\">Paull's matrix</text>\n\
         <text x=\"{left:.0}\" y=\"{:.0}\">leaves that send down, that receive across{part}; a \
         number, or colour, is a tree</text>",
        top + 4.0,
        top + 20.0
    );
    grid(body, (x0, y0), cell, switches.len());
    for (place, name) in labels.iter().enumerate() {
        // Letters stand on their line: a third of their size below the middle.
        let at = cell * (place as f64 + 0.5) + LABEL / 3.0;
        let (x, y) = (x0 + at, y0 - APART);
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{LABEL}\" text-anchor=\"end\">{name}</text>\
             <text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{LABEL}\" transform=\"rotate(-90 {x:.1} {y:.1})\">{name}\
             </text>",
            x0 - APART,
            y0 + at
        );
    }
    let place = |switch: NodeIndex| switches.partition_point(|&s| s < switch) as f64;
    for (&(from, to), grants) in &cells {
        // In the middle of the cell, as the labels are in the middle of their rows.
        let columns = (grants.len() as f64).min(across);
        let rows = (grants.len() as f64 / across).ceil();
        let within = |place: f64, marks: f64| place * cell + (cell - marks * mark) / 2.0;
        for (n, &grant) in grants.iter().enumerate() {
            let (column, row) = (n as f64 % across, (n as f64 / across).floor());
            let x = x0 + within(place(to), columns) + column * mark;
            let y = y0 + within(place(from), rows) + row * mark;
            entry(scene, body, (x, y), mark, grant, written);
        }
    }
    Extent { width: (head + side).max(HEADING), height: CAPTION + head + side }
}

/// Grants by the leaf that sends and the one that receives.
type Cells = BTreeMap<(NodeIndex, NodeIndex), Vec<usize>>;

/// Those within a switch use no link between switches.
fn cells(scene: &Scene<'_>) -> Cells {
    let mut cells = Cells::new();
    for (number, grant) in scene.plan.grants.iter().enumerate() {
        if let [first, .., last] = grant.path.as_slice() {
            cells.entry((first.switch, last.switch)).or_default().push(number);
        }
    }
    cells
}

fn grid(body: &mut String, (x0, y0): (f64, f64), cell: f64, count: usize) {
    let side = cell * count as f64;
    let mut lines = String::new();
    for place in 0..=count {
        let at = cell * place as f64;
        let _ = write!(lines, "M{:.1} {y0:.1}v{side:.1}M{x0:.1} {:.1}h{side:.1}", x0 + at, y0 + at);
    }
    let _ = writeln!(
        body,
        "<path class=\"grid\" d=\"{lines}\" stroke=\"#ddd\" stroke-width=\"0.5\" fill=\"none\"/>"
    );
}

fn entry(
    scene: &Scene<'_>,
    body: &mut String,
    (x, y): (f64, f64),
    mark: f64,
    grant: usize,
    written: bool,
) {
    let tree = scene.plan.grants[grant].tree;
    let title = scene.grant_title(grant);
    let fill = colour(tree.index());
    let _ = write!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{mark}\" height=\"{mark}\" fill=\"{fill}\"><title>{title}\
         </title></rect>"
    );
    if written {
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"7.5\" fill=\"#fff\" text-anchor=\"middle\" \
             pointer-events=\"none\">{tree}</text>",
            x + mark / 2.0,
            y + mark / 2.0 + 2.7
        );
    }
    body.push('\n');
}
