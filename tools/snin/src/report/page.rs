//! The report as one HTML page that needs nothing else.

use std::fmt::Write as _;

use super::{Report, chart, facts, table};
use crate::svg;

pub(super) const STYLE: &str = "\
:root{color-scheme:light}
body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff}
body{max-width:1320px;margin:2em auto;padding:0 1.5em}
h1{font-size:1.6em;margin-bottom:.2em}h2{font-size:1.2em;margin:2em 0 .3em}h3{font-size:1em;margin:1em 0 0}
p{margin:.3em 0 .8em;color:#444}code{background:#f3f3f3;padding:.15em .4em;border-radius:3px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25em 1.2em .25em 0;text-align:right;border-bottom:1px solid #e4e4e4}
th:first-child,td:first-child{text-align:left}dl{display:grid;grid-template-columns:7em 1fr;margin:.8em 0}
dt{color:#666}dd{margin:0}svg{max-width:100%;height:auto;display:block}
.key{display:inline-block;width:.9em;height:.9em;border-radius:2px}
.key{margin:0 .35em 0 1em;vertical-align:-.1em}";

/// The page.
pub(crate) fn html(report: &Report<'_>) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<title>snin lab</title>\n<style>{STYLE}</style>");
    let _ = writeln!(page, "<h1>The same traffic, three ways</h1>");
    let _ = writeln!(page, "<p><code>{}</code></p>\n<dl>", svg::escape(&report.command));
    for (key, value) in facts(report.document, report.patterns) {
        let _ = writeln!(page, "<dt>{key}</dt><dd>{}</dd>", svg::escape(&value));
    }
    let _ = writeln!(page, "</dl>");
    summary(report, &mut page);

    section(
        &mut page,
        "Latency",
        "Share of packets that took longer, over how long they took: from a packet's turn at the source's \
         adapter to its last byte at the destination.",
        &chart::latency(report.runs),
    );
    section(
        &mut page,
        "Goodput of each sampled window",
        "Payload that arrived by the end of the slice and the time of the longest path, of what the sources \
         could have sent.",
        &chart::goodput(report.runs),
    );
    fabric(report, &mut page);
    if let Some(window) = &report.last.window {
        let matrix = svg::matrix(report.topology, report.routing, &window.demands, &window.plan);
        let what = format!(
            "Window {}: in no row and no column is a tree twice, so no link has two owners.",
            window.number + 1
        );
        section(&mut page, "Paull's matrix of the last window", &what, &matrix);
    }
    section(
        &mut page,
        "SMPs of the bring-up",
        "Subnet management packets that the manager sent, by method and attribute.",
        &chart::bars(report.smps),
    );
    page.push_str("</html>\n");
    page
}

fn section(page: &mut String, title: &str, what: &str, picture: &str) {
    let _ = writeln!(page, "<h2>{title}</h2>\n<p>{what}</p>\n{picture}");
}

fn summary(report: &Report<'_>, page: &mut String) {
    let _ = writeln!(
        page,
        "<h2>Summary</h2>\n<p><b>static</b>: D-mod-K tables. <b>ecmp</b>: a random tree a flow. <b>snin</b>: \
         the tree that was granted. Queueing is a packet's wait inside the fabric; slowdown is a message's \
         completion against an idle fabric.</p>\n<table>"
    );
    for (number, row) in table(report.document).iter().enumerate() {
        let cell = if number == 0 { "th" } else { "td" };
        let cells = row.iter().map(|text| format!("<{cell}>{text}</{cell}>"));
        let _ = writeln!(page, "<tr>{}</tr>", cells.collect::<String>());
    }
    let _ = writeln!(page, "</table>");
}

/// The fabric three times, with the load of the last sampled window.
fn fabric(report: &Report<'_>, page: &mut String) {
    let _ = writeln!(
        page,
        "<h2>Load of every link</h2>\n<p>What a link had to carry in window {}, of what it can carry in the \
         slice; left of a cable up, right down.",
        report.last.sampled + 1
    );
    let names = ["up to 1", "up to 2", "up to 3", "more"];
    let keys = svg::LOADS.iter().map(|&(_, colour)| colour).zip(names);
    for (colour, name) in keys.chain([("#d8d8d8", "idle")]) {
        let _ = write!(page, "<span class=\"key\" style=\"background:{colour}\"></span>{name}");
    }
    let _ = writeln!(page, "</p>");
    for (run, load) in report.runs.iter().zip(&report.last.loads) {
        let busiest = load.iter().copied().fold(0.0, f64::max);
        let drawing = svg::loads(report.topology, report.routing, load);
        let _ = writeln!(page, "<h3>{}: at most {busiest:.2}</h3>\n{drawing}", run.name);
    }
}
