//! A measurement as a picture: latency by percentile, or bandwidth by the size of messages.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use snin_lat::client::Measured;
use snin_lat::plan::{Pattern, Plan};

use super::{MEGABYTE, average};
use snin_report::svg::{self, Frame};

const FRAME: Frame =
    Frame { left: 80.0, top: 30.0, width: 700.0, height: 300.0, foot: 50.0, side: 120.0 };
/// The height of a name.
const NAME: f64 = 18.0;
/// The shares of slower messages that have a name, least last.
const SHARES: [(f64, &str); 6] = [
    (1.0, "0 %"),
    (0.1, "90 %"),
    (0.01, "99 %"),
    (1e-3, "99.9 %"),
    (1e-4, "99.99 %"),
    (1e-5, "99.999 %"),
];

/// The chart of measurements, which are all of one kind.
pub(super) fn draw(results: &[(Plan, Measured)]) -> String {
    match results.first() {
        Some((plan, _)) if plan.pattern == Pattern::Bandwidth => bandwidth(results),
        _ => latency(results),
    }
}

/// A line through points, and its name in its colour; a point alone is a dot.
fn line(drawn: &mut String, at: usize, name: &str, points: &[(f64, f64)]) {
    let colour = svg::colour(at);
    if let [(x, y)] = points {
        let _ = writeln!(drawn, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        drawn,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
         <text x=\"{}\" y=\"{}\" fill=\"{colour}\" font-size=\"13\">{name}</text>",
        points.join(" "),
        FRAME.x(1.0) + 15.0,
        FRAME.y(1.0) + 10.0 + NAME * at as f64
    );
}

/// Latency over percentile, one line a size; both axes logarithmic.
fn latency(results: &[(Plan, Measured)]) -> String {
    let latencies = || {
        results.iter().map(|(_, measured)| &measured.latency).filter(|latency| !latency.is_empty())
    };
    let least = latencies().map(Histogram::min).min().unwrap_or(1).max(1) as f64;
    let most = latencies().map(Histogram::max).max().unwrap_or(10).max(2) as f64;
    let bottom = least.log10().floor();
    let top = most.log10().ceil().max(bottom + 1.0);
    let decades = (SHARES.len() - 1) as f64;
    let x = |slower: f64| FRAME.x((-slower.log10() / decades).min(1.0));
    let y = |nanos: f64| FRAME.y((nanos.log10() - bottom) / (top - bottom));
    let mut drawn =
        FRAME.page("percentile", "latency in microseconds", NAME * results.len() as f64);
    for (slower, label) in SHARES {
        FRAME.column(&mut drawn, x(slower), label);
    }
    for exponent in bottom as i32..=top as i32 {
        let nanos = 10_f64.powi(exponent);
        FRAME.row(&mut drawn, y(nanos), &(nanos / 1e3).to_string());
    }
    for (at, (plan, measured)) in results.iter().enumerate() {
        let latency = &measured.latency;
        // Beyond one message in all there are nothing was measured.
        let last = 1.0 / latency.len().max(1) as f64;
        let point =
            |value: u64, quantile: f64| (x((1.0 - quantile).max(last)), y((value as f64).max(1.0)));
        let points: Vec<_> = latency
            .iter_quantiles(10)
            .map(|step| point(step.value_iterated_to(), step.quantile_iterated_to()))
            .collect();
        line(&mut drawn, at, &format!("{} B", plan.size), &points);
    }
    drawn + "</svg>\n"
}

/// Bandwidth over the size of messages: on average, and at its peak.
fn bandwidth(results: &[(Plan, Measured)]) -> String {
    let logs = || results.iter().map(|(plan, _)| (plan.size as f64).log2());
    let (first, last) =
        (logs().fold(f64::MAX, f64::min).floor(), logs().fold(0.0, f64::max).ceil());
    let last = last.max(first + 1.0);
    let peak = results.iter().map(|(_, measured)| measured.peak).fold(0.0, f64::max) / MEGABYTE;
    // Some five rows, of 1, 2 or 5 times a power of ten.
    let power = 10_f64.powf((peak / 5.0).max(1e-3).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| peak / step <= 5.0).unwrap_or(steps[3]);
    let top = (peak / step).ceil().max(1.0);
    let x = |size: usize| FRAME.x(((size as f64).log2() - first) / (last - first));
    let y = |megabytes: f64| FRAME.y(megabytes / step / top);
    let mut drawn = FRAME.page("bytes of a message", "MB/s (of 1,048,576 bytes)", 2.0 * NAME);
    for exponent in first as u32..=last as u32 {
        let size = 1_usize << exponent;
        let label = match exponent {
            0..10 => size.to_string(),
            10..20 => format!("{} Ki", size >> 10),
            _ => format!("{} Mi", size >> 20),
        };
        FRAME.column(&mut drawn, x(size), &label);
    }
    for count in 0..=top as u32 {
        let megabytes = f64::from(count) * step;
        // No more digits than the step has.
        let digits = (-power.log10()).max(0.0) as usize;
        FRAME.row(&mut drawn, y(megabytes), &format!("{megabytes:.digits$}"));
    }
    let points = |of: &dyn Fn(&Measured) -> f64| -> Vec<(f64, f64)> {
        results.iter().map(|(plan, measured)| (x(plan.size), y(of(measured) / MEGABYTE))).collect()
    };
    line(&mut drawn, 0, "average", &points(&average));
    line(&mut drawn, 1, "peak", &points(&|measured| measured.peak));
    drawn + "</svg>\n"
}
