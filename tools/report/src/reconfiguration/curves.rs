//! Delay against throughput, as the seed's figure 6.

use std::fmt::Write as _;

use snin_lab::reconfiguration::{Curve, Load};

use super::bars::{FRAME, number, round_up};
use super::{key, thousands};
use crate::svg;

/// Of the fabrics, in order.
const COLOURS: [&str; 3] = ["#4a73c9", "#1f8fa6", "#dfa32a"];

pub(super) fn section(page: &mut String, curves: &[Curve]) {
    let names: Vec<String> = curves.iter().map(describe).collect();
    let names = COLOURS.into_iter().zip(names.iter().map(String::as_str));
    super::section(
        page,
        ("loads", "Delay against throughput (figure 6)"),
        "Whole fabrics, with our tables; the last point of each is with every host always sending. Delay is \
         from a packet being given to its adapter to its last byte; beyond saturation it grows with the time \
         measured (6 ms).",
        "its 32 switches and 21 hosts saturate at 165,000 packets a second and host; the Clos is not readable. \
         <b>Why not the same:</b> a link carries 886,000 such packets a second; the seed's fabric and its \
         up*/down* routes are not published, ours take the shortest ways, and the switches here are cut-through.",
        &(key(names) + &drawing(curves)),
    );
}

fn describe(curve: &Curve) -> String {
    let most = thousands(curve.loads.iter().map(|load| load.accepted).max().unwrap_or(0));
    let name = svg::escape(&curve.name);
    format!("{name}, {} hosts: {most} packets/s and host at most", curve.hosts)
}

fn drawing(curves: &[Curve]) -> String {
    let most = |of: fn(&Load) -> u64| {
        let loads = curves.iter().flat_map(|curve| &curve.loads);
        loads.map(of).max().unwrap_or(1) as f64
    };
    let across = round_up(most(|load| load.accepted));
    // Delay from a microsecond on, a power of ten a step: beyond saturation it is a thousand times as long.
    let decades = (most(|load| load.latency_ns) / 1e3).max(10.0).log10().ceil() as i32;
    let y = |us: f64| FRAME.y(us.max(1.0).log10() / f64::from(decades));
    let mut drawn = FRAME.page("packets a second and host that arrive", "delay, us", 0.0);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        FRAME.number(&mut drawn, FRAME.x(share), &number(share * across));
    }
    for us in (0..=decades).map(|decade| 10_f64.powi(decade)) {
        FRAME.row(&mut drawn, y(us), &number(us));
    }
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let mut path = String::new();
        for load in &curve.loads {
            let begin = if path.is_empty() { 'M' } else { 'L' };
            let x = FRAME.x(load.accepted as f64 / across);
            let y = y(load.latency_ns as f64 / 1e3);
            // Writing to a String cannot fail.
            let _ = write!(path, "{begin}{x:.1} {y:.1}");
            let _ = writeln!(
                drawn,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{}: offered {}, arrived {}, \
                 {:.1} us</title></circle>",
                svg::escape(&curve.name),
                load.offered,
                load.accepted,
                load.latency_ns as f64 / 1e3
            );
        }
        let _ = writeln!(
            drawn,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"/>"
        );
    }
    drawn + "</svg>\n"
}
