//! Large fabrics.

use std::time::Instant;

use crate::support::Lab;

/// 1,620 switches and 11,664 hosts in three stages, at LMC 0. The checkers alone take longer than the
/// manager, so tables are only compared with what was planned: tests of smaller fabrics walk them.
#[test]
fn eleven_thousand_hosts_come_up() {
    let mut lab = Lab::new("fattree:36", 0);
    let begin = Instant::now();
    let took = lab.bring_up();
    let wall = begin.elapsed();
    println!("{} SMPs, {took} of virtual, {wall:?} of real time", lab.smps());
    assert_eq!(lab.missing(), []);
    assert_eq!(lab.view().routing().hosts.len(), 11_664);
    lab.check_held();
}
