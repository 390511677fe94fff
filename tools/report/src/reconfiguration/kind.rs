//! What the seed found, and what is found here: a table, and what is judged on paper.

use std::fmt::Write as _;

use snin_lab::reconfiguration::{Case, Cause, Change, Mechanism, Phase, Size, Study};

use super::{mean, pick};

pub(super) fn section(page: &mut String, study: &Study) {
    let _ = writeln!(
        page,
        "<section id=\"kind\">\n<h2>The seed's results, in kind</h2>\n<p>Of the baseline, from the smallest \
         size to the largest; a switch goes unless said otherwise.</p>\n\
         <table class=\"words\"><tr><th>the seed</th>\
         <th>here</th><th>why it differs, where it does</th></tr>"
    );
    let series = |of: &dyn Fn(&Size, &Case) -> String| {
        let of =
            |size: &Size| pick(size, Mechanism::Baseline, Change::Removal).map(|c| of(size, c));
        study.sizes.iter().filter_map(of).collect::<Vec<_>>().join(", ")
    };
    let detection = |_: &Size, case: &Case| {
        let time = case.phases.get(&Phase::Detection).map_or(0, |time| time.nanos());
        format!("{:.1}", mean(time, case.changes) / 1e6)
    };
    let sweep = study.costs.sweep.nanos() as f64 / 2e6;
    row(
        page,
        &format!("detection takes about half a sweep ({sweep} ms)"),
        &format!("{} ms", series(&detection)),
        "the change falls at random between two sweeps, and a sweep takes no time beside its period",
    );
    let share = |_: &Size, case: &Case| {
        let of = |task| case.smps.get(&task).copied().unwrap_or(0);
        let both = of(Phase::Discovery) + of(Phase::Distribution);
        format!("{:.0}", 100.0 * mean(both, case.all_smps()))
    };
    row(
        page,
        "discovery and distribution dominate the SMPs",
        &format!("{} % of them", series(&share)),
        "the rest opens ports, a task that the seed counts as distribution",
    );
    let both = |size: &Size| {
        let of = |change| pick(size, Mechanism::Baseline, change);
        let of = |change| of(change).map_or(0.0, |case| mean(case.all_smps(), case.changes));
        format!("{:.0} and {:.0}", of(Change::Addition), of(Change::Removal))
    };
    let both: Vec<String> = study.sizes.iter().map(both).collect();
    row(page, "an addition takes more SMPs than a removal", &both.join(", "), "");
    row(
        page,
        "computation quadratic in the number of switches",
        &format!(
            "{} operations",
            series(&|_, case| format!("{:.0}", mean(case.operations, case.changes)))
        ),
        "counted: links looked at and entries written, at every destination from every switch",
    );
    let used =
        |_: &Size, case: &Case| format!("{:.1}", 100.0 * mean(case.entries.0, case.entries.1));
    let whole = |size: &Size, case: &Case| {
        let entries = (size.switches as u64 - 1) * case.changes * 1_024;
        format!("{:.2}", 100.0 * mean(case.entries.0, entries))
    };
    row(
        page,
        "under 2 % of a table's entries change",
        &format!("{} % of tables of 1,024; {} % of entries in use", series(&whole), series(&used)),
        "the seed's switches have tables of 1,024 entries; few of them are in use",
    );
    let lost = |_: &Size, case: &Case| {
        let of = |cause| mean(case.lost.get(&cause).copied().unwrap_or(0), case.under_traffic);
        format!(
            "{:.0} and {:.0}",
            of(Cause::SwitchGone) + of(Cause::HostGone),
            of(Cause::PortInactive)
        )
    };
    row(
        page,
        "the removed switch costs more packets than inactive ports",
        &series(&lost),
        "with more switches fewer routes lead over one of them, and closing all ports takes longer",
    );
    let _ = writeln!(page, "</table>\n</section>");
    paper(page);
}

fn row(page: &mut String, seed: &str, here: &str, why: &str) {
    let _ = writeln!(page, "<tr><td>{seed}</td><td>{here}</td><td>{why}</td></tr>");
}

/// Figures of a fabric of 11,664 hosts: 1,620 switches, 46,656 entries at most, 35,000 links.
fn paper(page: &mut String) {
    let _ = writeln!(
        page,
        "<section id=\"paper\">\n<h2>On paper: distributed computation</h2>\n<p>A switch that computes its own \
         row needs the topology and one search from itself: at 11,664 hosts about 0.2 million steps, 4 ms at \
         20 ns each, in place of 155 million steps at the manager, which our manager does in 0.36 s on one \
         core. It saves the writing of tables: up to 190 blocks to each of 1,620 switches, 308,000 SMPs. In \
         return every switch is told the change (1,620 SMPs) and keeps 35,000 links (280 KB). No management \
         agent of the architecture offers it, no checker sees tables before they forward, and an order without \
         loops needs a second round of messages. A cable that fails changes few blocks as it is. Not \
         built.</p>\n</section>"
    );
}
