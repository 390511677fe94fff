//! One change under traffic as a time line, as the seed's figure 12.

use std::fmt::Write as _;

use snin_lab::reconfiguration::{Bin, Carried, Cause, Outcome, Phase, TimeLine};

use super::bars::{number, round_up};
use super::{COLOURS, PHASES, key, thousands};
use crate::svg::{escape, head};

const LEFT: f64 = 110.0;
const WIDTH: f64 = 1_000.0;
const SIDE: f64 = 30.0;
/// Of one row, and between rows.
const HEIGHT: f64 = 92.0;
const GAP: f64 = 30.0;
/// Of a strip of phases.
const STRIP: f64 = 16.0;

/// What a row shows of a slice.
type Value = fn(&Bin) -> f64;

const ROWS: [(&str, Value); 5] = [
    ("SMPs", |bin| bin.smps as f64),
    ("delay, us", |bin| bin.latency_ns as f64 / bin.received.max(1) as f64 / 1e3),
    ("lost", |bin| bin.lost.values().sum::<u64>() as f64),
    ("sent", |bin| bin.sent as f64),
    ("received", |bin| bin.received as f64),
];

pub(super) fn section(page: &mut String, line: &TimeLine) {
    let _ = writeln!(
        page,
        "<section id=\"time-line\">\n<h2>A switch is removed: the time line (figure 12)</h2>\n<p>{} of {} \
         switches and {} hosts goes at 0 ms; every host sends {} packets a second, of {} that the fabric carries. \
         Each row is a quantity a millisecond; above the rows the phases of each mechanism.</p>\n<p><b>The \
         seed:</b> 8 switches, 7 hosts, 300,000 packets a second and host; detection about 0.08 s after the \
         change, a gap of about 0.005 s in what is received, more than 75,000 packets lost. <b>Why not the \
         same:</b> the change is put 80 ms before the baseline's next sweep. The gap is shorter here since \
         agents take 10 us an SMP and switches pass on directed SMPs in hardware. {}</p>",
        escape(&line.switch),
        line.switches,
        line.hosts,
        thousands(line.rate),
        thousands(line.saturation),
        why_so_many(line)
    );
    let names = COLOURS.into_iter().zip(line.outcomes.iter().map(|o| o.mechanism.name()));
    page.push_str(&key(names));
    page.push_str(&key(PHASES.into_iter().zip(Phase::TASKS.map(Phase::name))));
    let _ = writeln!(page, "<figure>{}</figure>", drawing(line));
    let _ = writeln!(
        page,
        "<p>From detection to the end, enlarged:</p>\n<figure>{}</figure>",
        enlarged(&line.outcomes)
    );
    numbers(page, line);
    page.push_str("</section>\n");
}

/// Packets that the seed lost, in so many ms until detection, of so many hosts with so many packets a second each.
const SEED: (f64, f64, f64, f64) = (75_000.0, 80.0, 7.0, 300_000.0);

/// Nearly all that the baseline loses is what leads over the switch until the loss is detected: which switch goes
/// decides.
fn why_so_many(line: &TimeLine) -> String {
    let detection = line.outcomes.first().and_then(|outcome| outcome.phases.get(&Phase::Detection));
    let seconds = detection.map_or(0, |time| time.nanos()) as f64 / 1e9;
    let lost = |carried: &Carried| carried.over as f64 * seconds;
    let share = |carried: &Carried| 100.0 * carried.over as f64 / carried.all.max(1) as f64;
    let least = line.carried.iter().min_by(|a, b| lost(a).total_cmp(&lost(b)));
    let most = line.carried.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)));
    let this = line.carried.iter().find(|carried| carried.switch == line.switch);
    let (Some(least), Some(most), Some(this)) = (least, most, this) else { return String::new() };
    let (packets, ms, hosts, rate) = SEED;
    format!(
        "What is lost until detection is what leads over the switch: rate times {:.0} ms times its share of the \
         traffic. {} carries {:.0} % of what hosts of other switches send, {} packets in that time. Of the {} \
         switches that can go here, the least costs {} packets ({:.0} %) and the most {} ({:.0} %). The seed's \
         75,000 are {:.0} % of what its hosts sent in 0.08 s; its fabric is another, and which switch it \
         removed is not readable.",
        seconds * 1e3,
        escape(&this.switch),
        share(this),
        thousands(lost(this) as u64),
        line.carried.len(),
        thousands(lost(least) as u64),
        share(least),
        thousands(lost(most) as u64),
        share(most),
        100.0 * packets / (hosts * rate * ms / 1e3),
    )
}

/// Across: milliseconds from the change on.
struct Across {
    from: f64,
    to: f64,
}

impl Across {
    fn of(line: &TimeLine) -> Self {
        let before = line.outcomes.iter().map(|o| o.before.nanos()).max().unwrap_or(0) as f64 / 1e6;
        let length = |o: &Outcome| (o.bins.len() as u64 * o.bin.nanos()) as f64 / 1e6 - before;
        let to = line.outcomes.iter().map(length).fold(f64::INFINITY, f64::min);
        Self { from: -before, to: if to.is_finite() { to } else { 1.0 } }
    }

    fn x(&self, ms: f64) -> f64 {
        let share = (ms - self.from) / (self.to - self.from);
        LEFT + WIDTH * share.clamp(0.0, 1.0)
    }
}

fn drawing(line: &TimeLine) -> String {
    let across = Across::of(line);
    let strips = (STRIP + 6.0) * line.outcomes.len() as f64 + 12.0;
    let height = strips + (HEIGHT + GAP) * ROWS.len() as f64 + 24.0;
    let mut svg = head(LEFT + WIDTH + SIDE, height);
    for (outcome, place) in line.outcomes.iter().zip(0..) {
        strip(&mut svg, &across, outcome, 4.0 + (STRIP + 6.0) * f64::from(place));
    }
    for ((name, value), place) in ROWS.into_iter().zip(0..) {
        let top = strips + (HEIGHT + GAP) * f64::from(place) + 8.0;
        row(&mut svg, (&across, top), line, (name, value));
    }
    let step = 10.0;
    let mut tick = (across.from / step).ceil() * step;
    while tick <= across.to {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"middle\">{tick} ms</text>",
            across.x(tick),
            height - 8.0
        );
        tick += step;
    }
    svg + "</svg>\n"
}

/// The phases after detection, of every mechanism from its own detection on.
fn enlarged(outcomes: &[Outcome]) -> String {
    let ms = |time: snin_protocol::Time| time.nanos() as f64 / 1e6;
    let late: Vec<Outcome> = outcomes.iter().map(after_detection).collect();
    let to = round_up(late.iter().map(|outcome| ms(outcome.time)).fold(0.0, f64::max));
    let across = Across { from: 0.0, to };
    let bottom = 4.0 + (STRIP + 6.0) * late.len() as f64;
    let mut svg = head(LEFT + WIDTH + SIDE, bottom + 24.0);
    for (outcome, place) in late.iter().zip(0..) {
        strip(&mut svg, &across, outcome, 4.0 + (STRIP + 6.0) * f64::from(place));
    }
    for quarter in 0..=4 {
        let tick = to * f64::from(quarter) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"middle\">{} ms</text>",
            across.x(tick),
            bottom + 14.0,
            number(tick)
        );
    }
    svg + "</svg>\n"
}

fn after_detection(outcome: &Outcome) -> Outcome {
    let begin = outcome.marks.iter().find(|mark| mark.0 != Phase::Detection);
    let begin = begin.map_or(snin_protocol::Time::ZERO, |mark| mark.1);
    let marks = outcome.marks.iter().filter(|mark| mark.1 >= begin);
    let marks = marks.map(|&(phase, at)| (phase, at - begin)).collect();
    Outcome { marks, time: outcome.time - begin, ..outcome.clone() }
}

/// The phases of one mechanism.
fn strip(svg: &mut String, across: &Across, outcome: &Outcome, y: f64) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        y + 12.0,
        outcome.mechanism.name()
    );
    for pair in outcome.marks.windows(2) {
        let Some(place) = Phase::TASKS.iter().position(|&task| task == pair[0].0) else { continue };
        let [from, to] = [pair[0].1, pair[1].1].map(|time| time.nanos() as f64 / 1e6);
        // What is shorter than a dot is drawn as one.
        let width = (across.x(to) - across.x(from)).max(1.5);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{STRIP}\" fill=\"{}\"><title>{}: {} \
             from {from:.3} ms to {to:.3} ms</title></rect>",
            across.x(from),
            PHASES[place],
            outcome.mechanism.name(),
            pair[0].0.name()
        );
    }
}

fn row(
    svg: &mut String,
    (across, top): (&Across, f64),
    line: &TimeLine,
    (name, value): (&str, Value),
) {
    let bins = line.outcomes.iter().flat_map(|outcome| &outcome.bins);
    let most = round_up(bins.map(value).fold(1.0, f64::max));
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {top:.1}v{HEIGHT}h{WIDTH}\" stroke=\"#888\" fill=\"none\"/>\
         <path class=\"axis\" d=\"M{:.1} {top:.1}v{HEIGHT}\" stroke=\"#888\" stroke-dasharray=\"3 3\"/>\
         <text x=\"14\" y=\"{:.1}\" font-size=\"13\">{name}</text>",
        across.x(0.0),
        top + HEIGHT / 2.0 + 4.0
    );
    for share in [0.5, 1.0] {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {0:.1}h{WIDTH}\" stroke=\"#e6e6e6\"/>\
             <text x=\"{1:.1}\" y=\"{2:.1}\" font-size=\"11\" text-anchor=\"end\">{3}</text>",
            y(most * share),
            LEFT - 6.0,
            y(most * share) + 4.0,
            number(most * share)
        );
    }
    for (outcome, colour) in line.outcomes.iter().zip(COLOURS) {
        let mut path = String::new();
        let width = outcome.bin.nanos() as f64 / 1e6;
        for (bin, place) in outcome.bins.iter().zip(0_u32..) {
            let from = across.from + width * f64::from(place);
            if from >= across.to {
                break;
            }
            let begin = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{begin}{:.1} {:.1}", across.x(from), y(value(bin)));
            let _ = write!(path, "H{:.1}", across.x(from + width));
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"1.6\" fill=\"none\"><title>{}</title></path>",
            outcome.mechanism.name()
        );
    }
}

/// The same as numbers.
fn numbers(page: &mut String, line: &TimeLine) {
    let row = |page: &mut String, name: &str, of: &dyn Fn(&Outcome) -> String| {
        let cells: String =
            line.outcomes.iter().map(|outcome| format!("<td>{}</td>", of(outcome))).collect();
        let _ = writeln!(page, "<tr><td>{name}</td>{cells}</tr>");
    };
    let heads: String =
        line.outcomes.iter().map(|o| format!("<th>{}</th>", o.mechanism.name())).collect();
    let _ = writeln!(page, "<table id=\"numbers\"><tr><th></th>{heads}</tr>");
    for phase in Phase::TASKS {
        row(page, &format!("{}, ms", phase.name()), &|outcome| {
            let time = outcome.phases.get(&phase).map_or(0, |time| time.nanos());
            format!("{:.3}", time as f64 / 1e6)
        });
    }
    row(page, "from the change to the end, ms", &|o| format!("{:.3}", o.time.nanos() as f64 / 1e6));
    row(page, "SMPs", &|o| o.smps.values().sum::<u64>().to_string());
    row(page, "blocks written", &|o| o.blocks.to_string());
    row(page, "operations", &|o| o.operations.to_string());
    row(page, "packets sent", &|o| thousands(o.sent));
    row(page, "packets received", &|o| thousands(o.received));
    for cause in Cause::ALL {
        row(page, &format!("lost {}", cause.name()), &|outcome| {
            outcome.lost.get(&cause).copied().unwrap_or(0).to_string()
        });
    }
    row(page, "states of the tables with a loop", &|o| o.looping_states.to_string());
    let _ = writeln!(page, "</table>");
}
