//! The reconfiguration study as one HTML page that needs nothing else.

mod bars;
mod curves;
mod factors;
mod kind;
mod scale;
mod time_line;

use std::fmt::Write as _;

use snin_lab::reconfiguration::{Case, Cause, Change, Mechanism, Phase, Size, Study};

use crate::{page, svg};

/// Of baseline and ours: to be told apart on white and on black.
pub(crate) const COLOURS: [&str; 2] = ["#d1583c", "#1f8fa6"];
/// Of the phases, in order.
pub(crate) const PHASES: [&str; 5] = ["#9aa4ae", "#dfa32a", "#8f63b8", "#4a73c9", "#5a9e4b"];
/// Of the causes of losses, in order.
const CAUSES: [&str; 4] = ["#9aa4ae", "#d1583c", "#dfa32a", "#8f63b8"];
/// A sheet of A4 is some 720 pixels wide, and no table may leave it.
const STYLE: &str = "td b{font-weight:600}.wide th,.wide td{padding-left:1.6em}\
                     .wide td:first-child{white-space:nowrap}\
                     .words th,.words td{text-align:left;padding-left:1.6em;vertical-align:top}\
                     .words th:first-child,.words td:first-child{padding-left:0}\
                     :is(#sizes,#clos-table) :is(th,td):nth-child(-n+3),\
                     #scale :is(th,td):is(:nth-child(3),:nth-child(4)){text-align:left}\
                     @media print{body{max-width:none;margin:0}\
                     figure,tr,#numbers,section:has(>figure:only-of-type){break-inside:avoid}\
                     h2,h3{break-after:avoid}table{font-size:13px}.wide{font-size:9.5px}\
                     .wide th,.wide td{padding-left:1em}}";

/// The page of a study that was made so.
pub fn html(study: &Study, made: &str, command: &str) -> String {
    let mut page = String::from(page::HEAD);
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<title>snin study</title>\n<style>{}{STYLE}</style>", page::STYLE);
    let _ = writeln!(
        page,
        "<h1>A switch comes or goes</h1>\n<p><code>{}</code></p>\n<p>{}</p>",
        page::words(command.split(' ')),
        svg::escape(made)
    );
    let costs = &study.costs;
    let _ = writeln!(
        page,
        "<p><b>baseline</b>: the mechanism of \u{201c}Evaluation of a subnet management mechanism\u{201d} (the \
         seed). Every {} it asks all switches whether a port changed; then it discovers everything anew, computes \
         up*/down* routes, sets all ports to INITIALIZE, writes all tables, and sets all ports to ACTIVE. \
         <b>ours</b>: the shipping manager: traps, discovery of what changed, only blocks that differ, in an \
         order without loops, no port closed.</p>\n<p>Links carry {} Gbit/s; packets of {} bytes on {} VLs, {} \
         bytes of buffer each. An agent works {} at an SMP, the manager {}; an operation of a computation takes \
         {}. Management packets and data do not delay each other here. Our operations follow from the fabric's \
         size, the baseline's are counted.</p>",
        costs.sweep,
        costs.bits_per_second as f64 / 1e9,
        costs.packet,
        costs.lanes,
        costs.buffer,
        costs.agent,
        costs.manager,
        costs.operation,
    );
    if let Some(line) = &study.time_line {
        time_line::section(&mut page, line);
    }
    if !study.curves.is_empty() {
        curves::section(&mut page, &study.curves);
    }
    if !study.sizes.is_empty() {
        sizes(&mut page, study);
    }
    if !study.factors.is_empty() {
        factors::section(&mut page, study.factors_of, &study.factors);
    }
    if !study.clos.is_empty() {
        clos(&mut page, &study.clos);
    }
    if !study.scale.is_empty() {
        scale::section(&mut page, &study.scale);
    }
    if !study.sizes.is_empty() {
        kind::section(&mut page, study);
    }
    page.push_str("</html>\n");
    page
}

fn section(page: &mut String, (id, title): (&str, &str), what: &str, seed: &str, picture: &str) {
    let _ = writeln!(
        page,
        "<section id=\"{id}\">\n<h2>{title}</h2>\n<p>{what}</p>\n<p><b>The seed:</b> {seed}</p>\n\
         <figure>{picture}</figure>\n</section>"
    );
}

/// Rows of a key: colours with their names.
pub(crate) fn key<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let entry = |(colour, name): (&str, &str)| {
        format!("<span class=\"key\" style=\"background:{colour}\"></span>{name}")
    };
    format!("<p>{}</p>\n", entries.into_iter().map(entry).collect::<String>())
}

/// With a comma before every three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}

/// `part` of each of `of`.
fn mean(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

fn pick(size: &Size, mechanism: Mechanism, change: Change) -> Option<&Case> {
    size.cases.iter().find(|case| (case.mechanism, case.change) == (mechanism, change))
}

/// A picture of stacked bars: a group a size, in it a bar for each mechanism and change.
fn stacks<const N: usize>(
    sizes: &[Size],
    upwards: &str,
    colours: [&'static str; N],
    parts: impl Fn(&Case) -> [f64; N],
) -> String {
    let mut groups = Vec::new();
    for size in sizes {
        let mut group = bars::Group { name: size.name.clone(), bars: Vec::new() };
        for change in Change::ALL {
            for mechanism in Mechanism::ALL {
                let Some(case) = pick(size, mechanism, change) else { continue };
                let parts = colours.into_iter().zip(parts(case)).collect();
                let name = format!("{} {}", mechanism.name(), change.name());
                group.bars.push(bars::Bar { name, parts });
            }
        }
        groups.push(group);
    }
    bars::stacked(
        &groups,
        "switches; bars: removal baseline, ours; addition baseline, ours",
        upwards,
    )
}

fn sizes(page: &mut String, study: &Study) {
    let sizes = &study.sizes;
    let ms = |case: &Case, phase: &Phase| {
        let time = case.phases.get(phase).map_or(0, |time| time.nanos());
        mean(time, case.changes) / 1e6
    };
    let tasks = PHASES.into_iter().zip(Phase::TASKS.map(Phase::name));
    let time = stacks(sizes, "ms after detection", PHASES, |case| {
        let mut parts = Phase::TASKS.map(|phase| ms(case, &phase));
        parts[0] = 0.0;
        parts
    });
    section(
        page,
        ("time", "Time to assimilate a change, by task (figure 7)"),
        "From detection to the last port, on average; what is computed is priced.",
        "discovery, computation and distribution summed; readable are only the kinds: it grows with size.",
        &(key(tasks.clone()) + &time),
    );
    let whose = |case: &Case, value: f64| match case.mechanism {
        Mechanism::Baseline => [value, 0.0],
        Mechanism::Ours => [0.0, value],
    };
    let operation = study.costs.operation.nanos() as f64 / 1e3;
    let mechanisms = COLOURS.into_iter().zip(Mechanism::ALL.map(Mechanism::name));
    let operations = stacks(sizes, "us of computation", COLOURS, |case| {
        whose(case, operation * mean(case.operations, case.changes))
    });
    section(
        page,
        ("computation", "Computation (figure 8a)"),
        "Links looked at, entries written and compared: operations, priced as said above. Ours computes \
         everything whole too; it may compute more than once where one change is told in several traps.",
        "quadratic in the number of switches; the processor was of little effect.",
        &(key(mechanisms.clone()) + &operations),
    );
    let entries = stacks(sizes, "% of entries in use", COLOURS, |case| {
        whose(case, 100.0 * mean(case.entries.0, case.entries.1))
    });
    section(
        page,
        ("entries", "Entries of forwarding tables that change (figure 8b)"),
        "Of the switches that were there before and after, for the addresses that are there after.",
        "under 2 %, of tables of 1,024 entries; here of the entries in use, which are far fewer.",
        &(key(mechanisms) + &entries),
    );
    let smps = stacks(sizes, "SMPs", PHASES, |case| {
        Phase::TASKS.map(|phase| mean(case.smps.get(&phase).copied().unwrap_or(0), case.changes))
    });
    section(
        page,
        ("smps", "SMPs by task (figure 9)"),
        "Of one change, on average.",
        "discovery and distribution dominate; an addition takes more than a removal.",
        &(key(tasks) + &smps),
    );
    if sizes.iter().flat_map(|size| &size.cases).any(|case| case.under_traffic > 0) {
        let causes = CAUSES.into_iter().zip(Cause::ALL.map(Cause::name));
        section(
            page,
            ("lost", "Packets lost by a change, by cause (figure 10)"),
            "With a quarter of each fabric's measured saturation. Hosts go on sending to a removed host until the \
             change is assimilated.",
            "those lost at the removed switch dominate those lost at inactive ports.",
            &(key(causes) + &lost(sizes)),
        );
    }
    table(page, "sizes", "All sizes", sizes);
}

fn lost(sizes: &[Size]) -> String {
    stacks(sizes, "packets lost", CAUSES, |case| {
        let of = |cause| case.lost.get(&cause).copied().unwrap_or(0);
        Cause::ALL.map(|cause| mean(of(cause), case.under_traffic))
    })
}

fn clos(page: &mut String, switches: &[Size]) {
    let causes = CAUSES.into_iter().zip(Cause::ALL.map(Cause::name));
    section(
        page,
        ("clos", "The Clos of 7 switches and 4 hosts, by switch (figure 11)"),
        "4 leaves with a host each, 3 spines. A leaf takes its host with it, a spine no host; the manager's own \
         leaf stays.",
        "two switches (GUIDs 103 and 104) are special; which place they have is not readable. Here two are: of \
         the three spines the baseline's up*/down* rule takes all routes over the root's nearest, so the other \
         two carry nothing, and their loss costs only the pause in which ports are closed. The third spine's \
         loss costs what is on all routes until the next sweep finds it. A leaf's loss costs what is for its \
         own host.",
        &(key(causes) + &lost(switches)),
    );
    table(page, "clos-table", "The Clos, by switch", switches);
}

/// Everything as numbers, with the factor between the two mechanisms.
fn table(page: &mut String, id: &str, title: &str, sizes: &[Size]) {
    let _ = writeln!(
        page,
        "<section id=\"{id}\">\n<h2>{title}</h2>\n<p>Each on average of one change; the factor is the baseline's \
         over ours.</p>\n<table class=\"wide\"><tr><th>switches</th><th>change</th><th></th>\
         <th>baseline</th><th>ours</th>\
         <th>factor</th></tr>"
    );
    for size in sizes {
        for change in Change::ALL {
            let [Some(base), Some(ours)] = Mechanism::ALL.map(|m| pick(size, m, change)) else {
                continue;
            };
            let ms =
                |time: snin_protocol::Time, case: &Case| mean(time.nanos(), case.changes) / 1e6;
            let mut rows = vec![
                ("time, ms", ms(base.time, base), ms(ours.time, ours)),
                (
                    "after detection, ms",
                    ms(base.after_detection(), base),
                    ms(ours.after_detection(), ours),
                ),
                ("SMPs", mean(base.all_smps(), base.changes), mean(ours.all_smps(), ours.changes)),
                (
                    "blocks written",
                    mean(base.blocks, base.changes),
                    mean(ours.blocks, ours.changes),
                ),
            ];
            if base.under_traffic > 0 {
                let lost = |case: &Case| mean(case.all_lost(), case.under_traffic);
                rows.push(("packets lost", lost(base), lost(ours)));
            }
            for (what, base, ours) in rows {
                let factor = match ours > 0.0 {
                    true => format!("{:.1}", base / ours),
                    false => "\u{2013}".to_owned(),
                };
                let _ = writeln!(
                    page,
                    "<tr><td>{}</td><td>{}</td><td>{what}</td><td>{base:.1}</td><td>{ours:.1}</td>\
                     <td>{factor}</td></tr>",
                    svg::escape(&size.name),
                    change.name()
                );
            }
        }
    }
    let _ = writeln!(page, "</table>\n</section>");
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_told_apart() {
        let said = [0, 999, 1_000, 802_190, 12_000_007].map(super::thousands);
        assert_eq!(said, ["0", "999", "1,000", "802,190", "12,000,007"]);
    }
}
