//! Charts: latencies on common logarithmic axes, goodput window by window, bars.

use std::fmt::Write as _;

use super::Run;
use crate::svg::{self, Frame};

/// Of static, ecmp and snin: to be told apart on white and on black.
pub(super) const COLOURS: [&str; 3] = ["#d1583c", "#dfa32a", "#1f8fa6"];
const FRAME: Frame =
    Frame { left: 90.0, top: 24.0, width: 1_000.0, height: 300.0, foot: 56.0, side: 120.0 };
/// The height of a run's name.
const NAME: f64 = 22.0;
/// The least share that is drawn: one packet in a million.
const LEAST: f64 = 1e-6;
/// Points nearer than this are one.
const NEAR: f64 = 0.7;
/// With more windows than this, lines show goodput better than bars.
const MOST_BARS: u32 = 40;

fn page(across: &str, upwards: &str) -> String {
    FRAME.page(across, upwards, NAME * COLOURS.len() as f64)
}

/// The names of the runs in their colours, right of the chart.
fn legend(svg: &mut String, runs: &[Run; 3]) {
    for ((run, colour), row) in runs.iter().zip(COLOURS).zip(0..) {
        let (x, y) = (FRAME.x(1.0) + 24.0, FRAME.y(1.0) + 12.0 + NAME * f64::from(row));
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

/// 1, 2 and 5 times the powers of ten, in nanoseconds: the last up to `least`, the first from `most` on, and
/// those between.
fn ticks(least: f64, most: f64) -> Vec<f64> {
    let all = (0..=12).flat_map(|exponent| [1.0, 2.0, 5.0].map(|n| n * 10_f64.powi(exponent)));
    let all: Vec<f64> = all.collect();
    let first = all.partition_point(|&tick| tick <= least).saturating_sub(1);
    let last = all.partition_point(|&tick| tick < most).clamp(first + 1, all.len() - 1);
    all[first..=last].to_vec()
}

fn tick_text(nanoseconds: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let fits = units.into_iter().find(|&(unit, _)| nanoseconds >= unit);
    fits.map_or_else(String::new, |(unit, name)| format!("{} {name}", nanoseconds / unit))
}

/// For every latency the share of packets that took longer, on common logarithmic axes.
pub(super) fn latency(runs: &[Run; 3]) -> String {
    let of = |run: &Run| run.statistics.as_ref().map(|found| found.latency_ns.clone());
    let histograms: Vec<_> = runs.iter().map(of).collect();
    let recorded = || histograms.iter().flatten().filter(|histogram| !histogram.is_empty());
    let least = recorded().map(|histogram| histogram.min()).min().unwrap_or(1).max(1) as f64;
    let most = recorded().map(|histogram| histogram.max()).max().unwrap_or(1) as f64;
    let ticks = ticks(least, most);
    let (from, to) = (ticks[0].log10(), ticks[ticks.len() - 1].log10());
    let x = |ns: f64| FRAME.x((ns.log10() - from) / (to - from));
    let height = |share: f64| FRAME.y(1.0 - share.max(LEAST).log10() / LEAST.log10());

    let mut svg = page("latency of a packet", "share of packets that took longer");
    let shares = ["100 %", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %", "0.0001 %"];
    for (exponent, label) in (0..).zip(shares) {
        FRAME.row(&mut svg, height(10_f64.powi(-exponent)), label);
    }
    for tick in ticks {
        FRAME.column(&mut svg, x(tick), &tick_text(tick));
    }
    for ((histogram, run), colour) in histograms.iter().zip(runs).zip(COLOURS) {
        let Some(histogram) = histogram else { continue };
        let all = histogram.len().max(1) as f64;
        let mut slower = histogram.len();
        let mut last = (FRAME.left, height(1.0));
        let mut path = format!("M{:.1} {:.1}", last.0, last.1);
        for value in histogram.iter_recorded() {
            slower -= value.count_at_value();
            let share = slower as f64 / all;
            // The end of a bucket may lie beyond the greatest value.
            let value = value.value_iterated_to().min(histogram.max()).max(1);
            let point = (x(value as f64), height(share));
            // The last step goes down to the axis.
            if slower == 0 || point.0 - last.0 > NEAR || point.1 - last.1 > NEAR {
                let _ = write!(path, "H{:.1}V{:.1}", point.0, point.1);
                last = point;
            }
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"2.5\" fill=\"none\"><title>{}</title>\
             </path>",
            run.name
        );
    }
    legend(&mut svg, runs);
    svg + "</svg>\n"
}

/// Of every window that a run carried: bars, or lines where there are many.
pub(super) fn goodput(runs: &[Run; 3]) -> String {
    let mut svg = page("window", "goodput");
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        FRAME.row(&mut svg, FRAME.y(share), &format!("{share:.2}"));
    }
    let mut windows: Vec<u32> = runs.iter().flat_map(|run| run.goodput.keys().copied()).collect();
    windows.sort_unstable();
    windows.dedup();
    let pitch = FRAME.width / windows.len().max(1) as f64;
    let middle = |window: u32| {
        FRAME.left + pitch * (windows.partition_point(|&other| other < window) as f64 + 0.5)
    };
    let bars = windows.len() <= MOST_BARS as usize;
    for ((run, colour), place) in runs.iter().zip(COLOURS).zip(0..) {
        if bars {
            draw_bars(&mut svg, run, colour, (place, pitch), middle);
        } else {
            draw_line(&mut svg, run, colour, middle);
        }
    }
    // Where windows are close together only some have room for their numbers.
    let every = (30.0 / pitch).ceil().max(1.0) as usize;
    for &window in windows.iter().step_by(every) {
        FRAME.number(&mut svg, middle(window), &format!("{}", window + 1));
    }
    legend(&mut svg, runs);
    svg + "</svg>\n"
}

fn draw_bars(
    svg: &mut String,
    run: &Run,
    colour: &str,
    (place, pitch): (u32, f64),
    middle: impl Fn(u32) -> f64,
) {
    let bar = (pitch / 4.0).min(40.0);
    for (&window, &share) in &run.goodput {
        let left = middle(window) + bar * (f64::from(place) - 1.5);
        let Some(share) = share else {
            // Nothing was to be sent: no bar, which would say that nothing arrived.
            let (x, y) = (left + bar * 0.46, FRAME.y(0.0) - 4.0);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"{colour}\">\u{2013}<title>{} in \
                 window {}: idle</title></text>",
                run.name,
                window + 1
            );
            continue;
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{} in \
             window {}: {share:.3}</title></rect>",
            FRAME.y(share),
            bar * 0.92,
            FRAME.height * share,
            run.name,
            window + 1
        );
        if bar >= 30.0 {
            let (x, y) = (left + bar * 0.46, FRAME.y(share) - 4.0);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{share:.2}</text>"
            );
        }
    }
}

/// A line, and a dot a window: a run may have carried few of them. Where it had nothing to send the line has a
/// gap.
fn draw_line(svg: &mut String, run: &Run, colour: &str, middle: impl Fn(u32) -> f64) {
    let (mut line, mut dots, mut begins) = (String::new(), String::new(), true);
    for (&window, &share) in &run.goodput {
        let Some(share) = share else {
            begins = true;
            continue;
        };
        let (x, y) = (middle(window), FRAME.y(share));
        let to = if std::mem::take(&mut begins) { 'M' } else { 'L' };
        let _ = write!(line, "{to}{x:.1} {y:.1}");
        let _ = write!(dots, "M{x:.1} {y:.1}h0");
    }
    let _ = writeln!(
        svg,
        "<path d=\"{line}\" stroke=\"{colour}\" stroke-width=\"1.5\" fill=\"none\"/>\
         <path d=\"{dots}\" stroke=\"{colour}\" stroke-width=\"5\" stroke-linecap=\"round\"/>"
    );
}

/// A bar a name, longest first.
pub(super) fn bars(counts: &[(String, u64)]) -> String {
    const NAMES: f64 = 270.0;
    const PITCH: f64 = 24.0;
    let mut counts: Vec<&(String, u64)> = counts.iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name));
    let most = counts.first().map_or(1, |(_, count)| *count).max(1) as f64;
    let mut svg = svg::head(FRAME.x(1.0) + FRAME.side, PITCH * counts.len() as f64 + 10.0);
    for ((name, count), row) in counts.iter().zip(0..) {
        let top = PITCH * f64::from(row) + 5.0;
        let length = (FRAME.x(1.0) - NAMES) * *count as f64 / most;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{:.1}\" rx=\"2\" \
             fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\">{count}</text>",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_enclose_what_is_drawn() {
        assert_eq!(ticks(883.0, 18_750.0), [500.0, 1e3, 2e3, 5e3, 1e4, 2e4]);
        assert_eq!(ticks(1.0, 1.0), [1.0, 2.0]);
        assert_eq!(ticks(1e3, 2e3), [1e3, 2e3]);
        let texts = [1.0, 500.0, 2e3, 5e7, 1e9].map(tick_text);
        assert_eq!(texts, ["1 ns", "500 ns", "2 us", "50 ms", "1 s"]);
    }
}
