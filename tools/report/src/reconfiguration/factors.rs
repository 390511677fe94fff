//! What ours does, one by one and together, in the baseline: a table.

use std::fmt::Write as _;

use snin_lab::reconfiguration::{Case, Change, Phase, Rung};

use super::mean;
use crate::svg;

pub(super) fn section(page: &mut String, switches: u32, rungs: &[Rung]) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<section id=\"factors\">\n<h2>One by one, and together</h2>\n<p>The baseline on fabrics of {switches} \
         switches with one thing of ours; then (\u{2026}) with that and all above it from traps on; last ours, \
         which writes in an order without loops besides, and follows its own routes. Each on average of one \
         change. Overlapped means: ports are closed while tables are computed, and a switch's ports opened as \
         soon as its own table is there. Up to 64 addresses are one block, so writing blocks that \
         differ saves nothing there. A trap that was lost over the removed switch comes again later, and without \
         region-only discovery everything is done once more for it. Where no port is closed and nothing is \
         ordered, tables that are half written lead packets in circles. A controller that is told first stops the \
         flows without a way a window (16.7 ms) later, and 2 ms after that the mechanism goes on: what is then \
         held back is not lost. Alternative paths in hosts (APM) are no row: they need a second address with a \
         route of its own, and the baseline gives a port one address. They are measured with our four \
         addresses a host, in failures at scale. <b>The seed:</b> names these as future work, without numbers.</p>"
    );
    let (relayed, hardware): (Vec<&Rung>, Vec<&Rung>) = rungs.iter().partition(|rung| rung.relayed);
    for change in Change::ALL {
        let _ = writeln!(page, "<h3>{}</h3>", change.name());
        table(page, change, &hardware);
    }
    if !relayed.is_empty() {
        let _ = writeln!(
            page,
            "</section>\n<section id=\"relayed\">\n<h2>SMPs by LID</h2>\n<p>Here agents pass directed SMPs on in \
             software, as long as they work at one of their own, so the manager's own switch works at all of \
             them. An SMP by LID passes switches in hardware. It needs tables that still lead there and back: \
             the old ones, where they lead over what was found in this discovery. Mixed SMPs go by LID to the \
             last such switch on their way, and are directed from there. Tables themselves are written by \
             directed SMPs. <b>everything</b>: with all factors above. <b>The seed:</b> names an initial part \
             by LID as future work, without numbers.</p>"
        );
        for change in Change::ALL {
            let _ = writeln!(page, "<h3>{}</h3>", change.name());
            table(page, change, &relayed);
        }
    }
    let _ = writeln!(page, "</section>");
}

fn table(page: &mut String, change: Change, rungs: &[&Rung]) {
    let lossy = rungs.iter().flat_map(|rung| &rung.cases).any(|case| case.under_traffic > 0);
    let lost = if lossy { "<th>packets lost</th><th>held back</th>" } else { "" };
    let _ = writeln!(
        page,
        "<table class=\"wide\"><tr><th></th><th>detection, ms</th><th>after it, ms</th><th>SMPs: discovery</th>\
         <th>all</th><th>operations</th><th>blocks</th><th>states with a loop</th>{lost}</tr>"
    );
    for rung in rungs {
        if let Some(case) = rung.cases.iter().find(|case| case.change == change) {
            row(page, &rung.name, case);
        }
    }
    let _ = writeln!(page, "</table>");
}

fn row(page: &mut String, name: &str, case: &Case) {
    let detection = case.phases.get(&Phase::Detection).map_or(0, |time| time.nanos());
    let discovery = case.smps.get(&Phase::Discovery).copied().unwrap_or(0);
    let of = |sum: u64| mean(sum, case.changes);
    let lost = match case.under_traffic {
        0 => String::new(),
        changes => format!(
            "<td>{:.0}</td><td>{:.0}</td>",
            mean(case.all_lost(), changes),
            mean(case.held, changes)
        ),
    };
    let _ = writeln!(
        page,
        "<tr><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{:.0}</td><td>{:.0}</td><td>{:.0}</td><td>{:.1}</td>\
         <td>{:.1}</td>{lost}</tr>",
        svg::escape(name),
        of(detection) / 1e6,
        of(case.after_detection().nanos()) / 1e6,
        of(discovery),
        of(case.all_smps()),
        of(case.operations),
        of(case.blocks),
        of(case.looping_states),
    );
}
