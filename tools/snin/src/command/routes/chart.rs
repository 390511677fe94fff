//! How loads are spread over the links, as a picture: of each routing all links, the most loaded first.

use std::fmt::Write as _;

use snin_report::svg::{self, Frame};

use super::Row;

const FRAME: Frame =
    Frame { left: 80.0, top: 30.0, width: 700.0, height: 300.0, foot: 50.0, side: 160.0 };
/// The height of a name.
const NAME: f64 = 18.0;
/// A line has at most so many points.
const POINTS: usize = 500;

/// One line a routing.
pub(super) fn draw(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.load.most).max().unwrap_or(0).max(1);
    // Some five rows, of 1, 2 or 5 times a power of ten.
    let power = 10_u64.pow((most / 5).max(1).ilog10());
    let steps = [1, 2, 5, 10].map(|step| step * power);
    let step = steps.into_iter().find(|step| most <= step * 5).unwrap_or(steps[3]);
    let top = most.div_ceil(step) * step;
    let y = |load: u64| FRAME.y(load as f64 / top as f64);
    let mut drawn = FRAME.page(
        "percent of the links between switches, the most loaded first",
        "pairs of hosts on a link",
        NAME * rows.len() as f64,
    );
    for percent in (0..=100).step_by(20) {
        FRAME.column(&mut drawn, FRAME.x(f64::from(percent) / 100.0), &percent.to_string());
    }
    for load in (0..=top).step_by(step as usize) {
        FRAME.row(&mut drawn, y(load), &load.to_string());
    }
    for (at, Row { routing, load, .. }) in rows.iter().enumerate() {
        let colour = svg::colour(at);
        let links = &load.links;
        let last = links.len().saturating_sub(1).max(1);
        let every = links.len().div_ceil(POINTS).max(1);
        let point = |(place, load): (usize, &u64)| {
            format!("{:.1},{:.1}", FRAME.x(place as f64 / last as f64), y(*load))
        };
        let points: Vec<String> = links.iter().enumerate().step_by(every).map(point).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            drawn,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"{colour}\" font-size=\"13\">{routing}, {} at most</text>",
            points.join(" "),
            FRAME.x(1.0) + 15.0,
            FRAME.y(1.0) + 10.0 + NAME * at as f64,
            load.most
        );
    }
    drawn + "</svg>\n"
}
