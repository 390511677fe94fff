//! Failures in larger fabrics: a table.

use std::fmt::Write as _;

use snin_lab::reconfiguration::Survival;

use crate::svg;

pub(super) fn section(page: &mut String, survivals: &[Survival]) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<section id=\"scale\">\n<h2>Failures at scale</h2>\n<p>Random flows between hosts of different switches, \
         walked along tables and port states. <b>ordered</b>: a flow waits until the tables are repaired. \
         <b>grants moved first</b>: a controller moves it to another of its addresses one window (1/60 s) after \
         the manager has published what is unusable, if it has no way then. <b>hosts migrate</b>: no \
         controller; a host goes to the one alternative path that it was given (APM) once its retries are used \
         up, with usual timers (4.096 us times 2 to the 14, 8 times) or with the shortest (2 to the 8, twice). \
         Links carry 97 Gbit/s, an operation takes 2 ns, the baseline has 128 SMPs in flight and sweeps 50 ms \
         after the failure.</p>\n<p><b>The seed:</b> nothing of this size.</p>\n\
         <table class=\"wide\"><tr><th>fabric</th><th>hosts</th><th>fails</th><th></th>\
         <th>time, ms</th><th>SMPs</th><th>blocks</th><th>flows hit, %</th><th>without a way, ms: mean</th>\
         <th>most</th></tr>"
    );
    for one in survivals {
        let ms = |time: snin_protocol::Time| time.nanos() as f64 / 1e6;
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{}</td><td>{}</td><td>{:.2}</td>\
             <td>{:.2}</td><td>{:.2}</td></tr>",
            svg::escape(&one.fabric),
            one.hosts,
            svg::escape(&one.failure),
            one.way.name(),
            ms(one.time),
            one.smps,
            one.blocks,
            100.0 * one.hit as f64 / one.flows.max(1) as f64,
            ms(one.mean_outage),
            ms(one.longest_outage),
        );
    }
    let _ = writeln!(page, "</table>\n</section>");
}
