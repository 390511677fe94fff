//! Charts: latencies on logarithmic axes, goodput window by window, bars.

use std::fmt::Write as _;

use super::Run;
use crate::svg;

/// Of static, ecmp and snin.
const COLOURS: [&str; 3] = ["#c8553d", "#d99a1c", "#1f7a8c"];
const LEFT: f64 = 70.0;
const TOP: f64 = 30.0;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;
/// Below the axis, for its numbers and name.
const FOOT: f64 = 50.0;
/// The least share that is drawn: one packet in a million.
const LEAST: f64 = 1e-6;
/// Points nearer than this are one.
const NEAR: f64 = 0.7;

/// Where a share of the height lies, from the top.
fn y(share: f64) -> f64 {
    TOP + HEIGHT * (1.0 - share)
}

fn canvas() -> String {
    let mut svg = svg::head(LEFT + WIDTH + 110.0, TOP + HEIGHT + FOOT);
    let _ =
        writeln!(svg, "<path d=\"M{LEFT} {TOP}v{HEIGHT}h{WIDTH}\" stroke=\"#888\" fill=\"none\"/>");
    svg
}

/// The names of the runs in their colours, right of the chart.
fn legend(svg: &mut String, runs: &[Run; 3]) {
    for ((run, colour), row) in runs.iter().zip(COLOURS).zip(0..) {
        let (x, y) = (LEFT + WIDTH + 20.0, TOP + 10.0 + 20.0 * f64::from(row));
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{y}\" font-size=\"13\">{}</text>",
            y - 10.0,
            x + 18.0,
            run.name
        );
    }
}

/// A power of ten of nanoseconds.
fn tick(exponent: i32) -> String {
    let unit = ["ns", "us", "ms", "s"][(exponent / 3).clamp(0, 3) as usize];
    format!("{} {unit}", 10_u32.pow((exponent % 3).max(0) as u32))
}

fn row_line(svg: &mut String, y: f64, label: &str) {
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {y:.1}h{WIDTH}\" stroke=\"#e6e6e6\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
        LEFT - 8.0,
        y + 4.0
    );
}

fn column_text(svg: &mut String, x: f64, label: &str) {
    let at = TOP + HEIGHT + 18.0;
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{at:.1}\" text-anchor=\"middle\">{label}</text>");
}

/// For every latency the share of packets that took longer, on common logarithmic axes.
pub(super) fn latency(runs: &[Run; 3]) -> String {
    let histograms: Vec<_> =
        runs.iter().filter_map(|run| Some(&run.statistics.as_ref()?.latency_ns)).collect();
    let least = histograms.iter().map(|h| h.min()).min().unwrap_or(1).max(1) as f64;
    let most = histograms.iter().map(|h| h.max()).max().unwrap_or(1).max(2) as f64;
    let (from, to) = (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    let x = |ns: f64| LEFT + WIDTH * (ns.log10() - from) / (to - from);
    let height = |share: f64| y(1.0 - share.max(LEAST).log10() / LEAST.log10());

    let mut svg = canvas();
    for (exponent, label) in (0..).zip(["100 %", "10 %", "1 %", "0.1 %", "0.01 %", "1e-5", "1e-6"])
    {
        row_line(&mut svg, height(10_f64.powi(-exponent)), label);
    }
    for exponent in from as i32..=to as i32 {
        let at = x(10_f64.powi(exponent));
        let _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}v{HEIGHT}\" stroke=\"#e6e6e6\"/>");
        column_text(&mut svg, at, &tick(exponent));
    }
    for (histogram, colour) in histograms.iter().zip(COLOURS) {
        let all = histogram.len().max(1) as f64;
        let mut slower = histogram.len();
        let mut last = (LEFT, height(1.0));
        let mut path = format!("M{:.1} {:.1}", last.0, last.1);
        for value in histogram.iter_recorded() {
            slower -= value.count_at_value();
            let share = slower as f64 / all;
            let point = (x(value.value_iterated_to().max(1) as f64), height(share));
            // The last step goes down to the axis.
            if slower == 0 || point.0 - last.0 > NEAR || point.1 - last.1 > NEAR {
                let _ = write!(path, "H{:.1}V{:.1}", point.0, point.1);
                last = point;
            }
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"/>"
        );
    }
    legend(&mut svg, runs);
    svg + "</svg>\n"
}

/// Three bars a sampled window.
pub(super) fn goodput(runs: &[Run; 3]) -> String {
    let mut svg = canvas();
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        row_line(&mut svg, y(share), &format!("{share:.2}"));
    }
    let windows = runs[0].goodput.len();
    let pitch = WIDTH / windows.max(1) as f64;
    let bar = (pitch / 4.0).min(40.0);
    // With many windows only some have room for their numbers.
    let every = (30.0 / pitch).ceil().max(1.0) as usize;
    for place in 0..windows {
        let middle = LEFT + pitch * (place as f64 + 0.5);
        for ((run, colour), n) in runs.iter().zip(COLOURS).zip(0..) {
            let (window, share) = run.goodput[place];
            let left = middle + bar * (f64::from(n) - 1.5);
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>\
                 {} in window {}: {share:.3}</title></rect>",
                y(share),
                bar * 0.92,
                HEIGHT * share,
                run.name,
                window + 1
            );
            if bar >= 30.0 {
                let (x, y) = (left + bar * 0.46, y(share) - 4.0);
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{share:.2}</text>"
                );
            }
        }
        if place % every == 0 {
            column_text(&mut svg, middle, &format!("{}", runs[0].goodput[place].0 + 1));
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">window</text>",
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 38.0
    );
    legend(&mut svg, runs);
    svg + "</svg>\n"
}

/// A bar a name, longest first.
pub(super) fn bars(counts: &[(String, u64)]) -> String {
    const NAMES: f64 = 270.0;
    const PITCH: f64 = 24.0;
    let mut counts: Vec<&(String, u64)> = counts.iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name));
    let most = counts.first().map_or(1, |(_, count)| *count).max(1) as f64;
    let mut svg = svg::head(LEFT + WIDTH + 110.0, PITCH * counts.len() as f64 + 10.0);
    for ((name, count), row) in counts.iter().zip(0..) {
        let top = PITCH * f64::from(row) + 5.0;
        let length = (LEFT + WIDTH - NAMES) * *count as f64 / most;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\">{count}</text>",
            NAMES - 8.0,
            top + 14.0,
            svg::escape(name),
            PITCH - 5.0,
            COLOURS[2],
            NAMES + length + 6.0,
            top + 14.0
        );
    }
    svg + "</svg>\n"
}
