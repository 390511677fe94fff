//! From the first question to the last answer: what one time of being busy came to.

use snin_protocol::Time;
use snin_protocol::operator::manager::{Activity, SweepKind};

use snin_sweep::Metrics;

/// What was done between two moments.
pub fn between(before: &Metrics, after: &Metrics, lasted: Time) -> Activity {
    let kind = if after.full_sweeps > before.full_sweeps {
        SweepKind::Full
    } else if after.local_probes > before.local_probes {
        SweepKind::Local
    } else {
        SweepKind::Light
    };
    Activity {
        kind,
        seconds: lasted.nanos() as f64 / 1e9,
        smps: after.smps() - before.smps(),
        sets: after.sets() - before.sets(),
        lft_blocks: after.blocks_written - before.blocks_written,
        retries: after.retries - before.retries,
        unanswered: after.unanswered - before.unanswered,
    }
}

/// A light sweep that found nothing: not worth an event.
pub fn is_quiet(activity: &Activity) -> bool {
    activity.kind == SweepKind::Light && activity.sets == 0 && activity.unanswered == 0
}
