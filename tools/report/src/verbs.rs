//! The results of the lab on real verbs: as lines, as a table, and as one HTML page.

use std::fmt::Write as _;

use snin_lab::verbs::{Document, Moved, Way};

use super::page::{HEAD, STYLE};
use super::time;
use crate::svg::escape;

/// Of what is as it should be, and of what is not.
const RIGHT: &str = "#5aa05a";
const WRONG: &str = "#d9534f";

/// Everything but the two flows, a line each.
pub fn facts(document: &Document) -> Vec<(&'static str, String)> {
    let Document { crossings, exclusive, rearrangement, .. } = document;
    let links = document.bandwidth as f64 / 1e6;
    let fabric = format!(
        "{}: {} hosts, {} trees, {links} Mbit/s a link; tables by {} SMPs",
        document.fabric, document.hosts, document.trees, document.smps
    );
    let paths = format!(
        "{} of {} flows (every pair of hosts, every tree) crossed the root of their tree and no other spine",
        crossings.right, crossings.flows
    );
    let windows = &exclusive.windows;
    let shared = windows.iter().filter(|window| !window.shared.is_empty()).count();
    let under_snin = format!(
        "{} permutations in {} windows of {}, {} of them full: in {shared} windows a link carried two flows; \
         {} of {} messages arrived in time",
        exclusive.patterns,
        windows.len(),
        time(exclusive.window_ns),
        exclusive.full,
        exclusive.arrived,
        exclusive.due
    );
    let agents = &document.agents;
    let agents = format!(
        "{} messages by {} queue pairs that they exchanged themselves; leases confirmed: {}, changes of tree: {}",
        agents.messages, agents.pairs, agents.leases, agents.changes
    );
    let mut facts = vec![
        ("fabric", fabric),
        ("agents", agents),
        ("paths", paths),
        ("windows", under_snin),
        ("rearranged", format!("{} out of service", rearrangement.cable)),
    ];
    facts.extend(rearrangement.moved.iter().map(|moved| ("", describe_moved(moved))));
    let busy = document.busy.iter();
    let busy: Vec<String> =
        busy.map(|busy| format!("{:.0} % during {}", busy.share * 100.0, busy.during)).collect();
    facts.push(("busy", busy.join(", ")));
    facts
}

fn describe_moved(moved: &Moved) -> String {
    let Moved { source, destination, before, after } = moved;
    let (before, after) = (before.join(", "), after.join(", "));
    format!("host {source} to host {destination}: frames crossed {before} before, {after} after")
}

/// The two flows side by side, a heading first.
pub fn table(document: &Document) -> Vec<[String; 3]> {
    let uplink = &document.uplink;
    let row = |name: &str, cell: &dyn Fn(&Way) -> String| {
        [name.to_owned(), cell(&uplink.forced), cell(&uplink.snin)]
    };
    let heading = format!("two flows of {:.0} % of a link", uplink.load * 100.0);
    vec![
        [heading, "one uplink".to_owned(), "snin".to_owned()],
        row("links that both crossed", &|way| way.shared.len().to_string()),
        row("messages that arrived in time", &|way| format!("{:.1} %", way.in_time * 100.0)),
        row("goodput", &|way| format!("{:.2} Mbit/s", way.goodput / 1e6)),
        row("latency p50", &|way| time(way.p50_ns)),
        row("latency p99", &|way| time(way.p99_ns)),
        row("latency max", &|way| time(way.max_ns)),
    ]
}

/// The page.
pub fn html(document: &Document) -> String {
    let mut page = String::from(HEAD);
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<title>snin lab --verbs</title>\n<style>{STYLE}</style>");
    let _ = writeln!(page, "<h1>Real verbs across the emulated fabric</h1>");
    let _ = writeln!(page, "<p><code>snin lab --verbs {}</code></p>", escape(&document.fabric));
    verdict(document, &mut page);
    let _ = writeln!(page, "<dl>");
    for (key, value) in facts(document) {
        let _ = writeln!(page, "<dt>{key}</dt><dd>{}</dd>", escape(&value));
    }
    let _ = writeln!(page, "</dl>");
    cards(document, &mut page);
    uplink(document, &mut page);
    windows(document, &mut page);
    page.push_str("</html>\n");
    page
}

fn verdict(document: &Document, page: &mut String) {
    if document.failures.is_empty() {
        let _ = writeln!(page, "<p><b>All of it is as it should be.</b></p>");
        return;
    }
    for failure in &document.failures {
        let _ = writeln!(page, "<p><b style=\"color:{WRONG}\">Wrong:</b> {}</p>", escape(failure));
    }
}

fn cards(document: &Document, page: &mut String) {
    let Document { crossings, uplink, .. } = document;
    let goodput = |way: &Way| format!("{:.1} Mbit/s", way.goodput / 1e6);
    let paths = format!("{} of {}", crossings.right, crossings.flows);
    let all = if crossings.right == crossings.flows { RIGHT } else { WRONG };
    let cards = [
        (all, paths, "flows crossed the root of their tree and no other spine"),
        (WRONG, goodput(&uplink.forced), "of two flows that are on one uplink"),
        (RIGHT, goodput(&uplink.snin), "of the same two on the trees that were granted"),
    ];
    let _ = writeln!(page, "<div class=\"runs\">");
    for (colour, figure, what) in cards {
        let _ = writeln!(
            page,
            "<div class=\"run\" style=\"border-color:{colour}\"><b>{figure}</b><span>{what}</span></div>"
        );
    }
    let _ = writeln!(page, "</div>");
}

fn uplink(document: &Document, page: &mut String) {
    let _ = writeln!(
        page,
        "<h2>Two flows, one uplink</h2>\n<p>Two hosts of a leaf send to two others. <b>One uplink</b>: both \
         on the same tree. <b>snin</b>: on the trees that the controller granted. Latency is from when a \
         message was due; what had not arrived at the end counts with its age.</p>\n<table>"
    );
    for (number, row) in table(document).iter().enumerate() {
        let cell = if number == 0 { "th" } else { "td" };
        let cells = row.iter().map(|text| format!("<{cell}>{}</{cell}>", escape(text)));
        let _ = writeln!(page, "<tr>{}</tr>", cells.collect::<String>());
    }
    let _ = writeln!(page, "</table>");
}

/// A square a window: how many connections, and whether any two of them met.
fn windows(document: &Document, page: &mut String) {
    const SIDE: usize = 18;
    const ROW: usize = 40;
    let all = &document.exclusive.windows;
    let height = all.len().div_ceil(ROW) * SIDE;
    let _ = writeln!(
        page,
        "<h2>Every window under SNIN</h2>\n<p>By the counters of the links. The number is of connections that \
         carried data.</p>\n<p><span class=\"key\" style=\"background:{RIGHT}\"></span>no link carried two \
         flows<span class=\"key\" style=\"background:{WRONG}\"></span>a link carried two, or a frame crossed \
         a wrong spine</p>\n<svg width=\"{0}\" height=\"{height}\" viewBox=\"0 0 {0} {height}\">",
        ROW * SIDE
    );
    for (number, window) in all.iter().enumerate() {
        let (x, y) = (number % ROW * SIDE, number / ROW * SIDE);
        let wrong: Vec<&str> =
            window.shared.iter().chain(&window.astray).map(String::as_str).collect();
        let colour = if wrong.is_empty() { RIGHT } else { WRONG };
        let side = SIDE - 2;
        let title = format!(
            "window {}, permutation {} {}",
            number + 1,
            window.pattern + 1,
            wrong.join("; ")
        );
        let _ = writeln!(
            page,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" \
             fill=\"{colour}\"/><text x=\"{}\" y=\"{}\" font-size=\"10\" text-anchor=\"middle\" \
             fill=\"#fff\">{}</text></g>",
            escape(&title),
            x + side / 2,
            y + side / 2 + 4,
            window.connections
        );
    }
    let _ = writeln!(page, "</svg>");
}
