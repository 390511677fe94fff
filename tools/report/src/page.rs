//! The report as one HTML page that needs nothing else.

use std::fmt::Write as _;

use super::{Last, Made, Report, chart, facts, table};
use crate::svg;

pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2329;--soft:#5a646e;--paper:#fff}
:root{--panel:#f5f6f7;--line:#e3e6e8;--idle:#d5d9dc}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa4ae;--paper:#14181c;--panel:#1e2429}
:root{--line:#2d343a;--idle:#3d454c}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
body{max-width:1300px;margin:2em auto;padding:0 1.5em}
h1{font-size:1.7em;margin-bottom:.3em}h2{font-size:1.25em;margin:2.2em 0 .2em}h3{font-size:1em;margin:1em 0 .2em}
p{margin:.3em 0 .8em;color:var(--soft)}
code{background:var(--panel);color:var(--ink);padding:.2em .5em;border-radius:4px}
code span{display:inline-block;max-width:100%;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:7em 1fr;margin:1em 0}dt{color:var(--soft)}dd{margin:0}
.runs{display:grid;grid-template-columns:repeat(3,1fr);gap:1em;margin:1.5em 0}
.run{background:var(--panel);border-left:6px solid;border-radius:6px;padding:.8em 1.2em}
.run b{display:block;font-size:2.1em;line-height:1.2;font-variant-numeric:tabular-nums}
.run span{color:var(--soft)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.3em 0 .3em 3em;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;padding-left:0}
figure{margin:0;overflow-x:auto}svg{max-width:100%;height:auto;display:block;fill:var(--ink)}
.paper{fill:var(--paper)}.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.idle{stroke:var(--idle)}
.cells{fill:var(--idle)}.switch{fill:var(--paper);stroke:var(--soft)}.halo{stroke:var(--paper)}
.key{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin:0 .35em 0 1em;vertical-align:-.1em}
.key:first-child{margin-left:0}
@media(max-width:700px){body{padding:0 1em;margin:1em auto}h1{font-size:1.4em}
.runs{grid-template-columns:1fr}dl{grid-template-columns:1fr}dt{margin-top:.4em}
section{overflow-x:auto}th,td{padding-left:1em}svg{max-width:none;min-width:640px}}";

/// What comes before a page's title: on a narrow screen it is as wide as that.
pub(super) const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

/// A command whose lines end between words only, not at their hyphens.
pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let word = |word| format!("<span>{}</span>", svg::escape(word));
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The page.
pub fn html(report: &Report<'_>) -> String {
    let mut page = String::from(HEAD);
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<title>snin lab</title>\n<style>{STYLE}</style>");
    let _ = writeln!(page, "<h1>The same traffic, three ways</h1>");
    let command = words(report.command.iter().map(AsRef::as_ref));
    let _ = writeln!(page, "<p><code>{command}</code></p>");
    let Made { version, date, fabric: name, traffic, seed } = &report.made;
    let made = [
        ("made", format!("{date}, by snin {version}")),
        ("traffic", format!("{traffic}, seed {seed}, on {name}")),
    ];
    let _ = writeln!(page, "<dl>");
    for (key, value) in made {
        let _ = writeln!(page, "<dt>{key}</dt><dd>{}</dd>", svg::escape(&value));
    }
    for (key, value) in facts(report.document, report.facts, report.patterns) {
        let _ = writeln!(page, "<dt>{key}</dt><dd>{}</dd>", svg::escape(&value));
    }
    let _ = writeln!(page, "</dl>");
    cards(report, &mut page);
    summary(report, &mut page);

    section(
        &mut page,
        ("latency", "Latency"),
        "From a packet's turn at the source's adapter to its last byte at the destination.",
        &chart::latency(report.runs),
    );
    section(
        &mut page,
        ("goodput", "Goodput of each window"),
        "Payload that arrived by the end of the slice and the time of the longest path, of what the sources \
         could have sent.",
        &chart::goodput(report.runs),
    );
    fabric(report, &mut page);
    let Last { window, demands, plan, .. } = report.last;
    let matrix = svg::matrix(report.topology, report.routing, demands, plan);
    if !matrix.is_empty() {
        let what = format!(
            "Window {}: in no row and no column is a tree twice, so no link has two owners.",
            window + 1
        );
        section(&mut page, ("matrix", "Paull's matrix of the last window"), &what, &matrix);
    }
    section(
        &mut page,
        ("smps", "SMPs of the bring-up"),
        "Subnet management packets that the manager sent, by method and attribute.",
        &chart::bars(report.smps),
    );
    page.push_str("</html>\n");
    page
}

fn section(page: &mut String, (id, title): (&str, &str), what: &str, picture: &str) {
    let _ = writeln!(
        page,
        "<section id=\"{id}\">\n<h2>{title}</h2>\n<p>{what}</p>\n<figure>{picture}</figure>\n</section>"
    );
}

/// What each run comes to, large.
fn cards(report: &Report<'_>, page: &mut String) {
    let _ = writeln!(page, "<div class=\"runs\">");
    for ((name, run), colour) in report.document.traffic.runs().into_iter().zip(chart::COLOURS) {
        let _ = writeln!(
            page,
            "<div class=\"run\" id=\"{name}\" style=\"border-color:{colour}\">{name}<b>{:.1} %</b><span>of \
             what the sources could have sent; queueing p99 {}</span></div>",
            run.goodput * 100.0,
            super::time(run.queueing_ns.p99)
        );
    }
    let _ = writeln!(page, "</div>");
}

fn summary(report: &Report<'_>, page: &mut String) {
    let _ = writeln!(
        page,
        "<section id=\"summary\">\n<h2>Summary</h2>\n<p><b>static</b>: D-mod-K tables. <b>ecmp</b>: a random \
         tree a flow. <b>snin</b>: the tree that was granted. Queueing is a packet's wait inside the fabric; \
         slowdown is a message's completion against an idle fabric.</p>\n<table>"
    );
    for (number, row) in table(report.document).iter().enumerate() {
        let cell = if number == 0 { "th" } else { "td" };
        let cells = row.iter().map(|text| format!("<{cell}>{text}</{cell}>"));
        let _ = writeln!(page, "<tr>{}</tr>", cells.collect::<String>());
    }
    let _ = writeln!(page, "</table>\n</section>");
}

/// The fabric three times, with the load of the last sampled window.
fn fabric(report: &Report<'_>, page: &mut String) {
    let _ = writeln!(
        page,
        "<section id=\"load\">\n<h2>Load of every link</h2>\n<p>What a link between switches had to carry in \
         window {}, of what it can carry in the slice. A line, or in a large fabric a cell, is one direction of \
         a cable: of two lines the left one leads up, the right one down.</p>\n<p class=\"keys\">",
        report.last.sampled + 1
    );
    let names = ["up to 1", "up to 2", "up to 3", "more"];
    let keys = svg::LOADS.iter().map(|&(_, colour)| colour).zip(names);
    for (colour, name) in keys.chain([("var(--idle)", "idle")]) {
        let _ = write!(page, "<span class=\"key\" style=\"background:{colour}\"></span>{name}");
    }
    let _ = writeln!(page, "</p>");
    for (run, load) in report.runs.iter().zip(&report.last.loads) {
        let busiest = load.iter().copied().fold(0.0, f64::max);
        let drawing = svg::loads(report.topology, report.routing, load);
        let name = run.name;
        let _ = writeln!(
            page,
            "<h3>{name}: at most {busiest:.2}</h3>\n<figure id=\"load-{name}\">{drawing}</figure>"
        );
    }
    let _ = writeln!(page, "</section>");
}
