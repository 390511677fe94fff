//! The bugs: a file below `controller/core/src/`, an expression or statement that it holds once, and what is there
//! instead when the bug is planted.

/// A bug.
pub(crate) type Bug = (&'static str, &'static str, &'static str);

/// In the packer.
pub(crate) const PACKING: [Bug; 21] = [
    // Free links.
    ("packing/matrix.rs", "free_down[down] ^= first;", ""),
    (
        "packing/matrix.rs",
        "free_up[last] = free;\n        edges.truncate(left);",
        "edges.truncate(left);",
    ),
    ("packing/matrix.rs", "side.free.copy_from_slice(&self.links);", ""),
    ("packing/matrix.rs", "self.down.other[place + down] = NO_ROW;", ""),
    ("packing/state.rs", "free & allowed", "free"),
    // Chains.
    ("packing/matrix.rs", "owners.swap(came_by, left_by);", ""),
    ("packing/matrix.rs", "(row, side == Side::Down)", "(row, true)"),
    ("packing/chain.rs", "(side == Side::Down) == even", "(side == Side::Down) != even"),
    ("packing/chain.rs", "even ^= round;", ""),
    (
        "packing/chain.rs",
        "self.at_up == NO_ROW && is_free(matrix.free_down(down.into()), self.a)",
        "self.at_up == NO_ROW",
    ),
    (
        "packing/chain.rs",
        "self.begin(matrix, ends, wanted, usize::MAX);",
        "self.begin(matrix, ends, wanted, 1);",
    ),
    (
        "packing/rearrange.rs",
        "!state.get(other).pinned() && may_use(state, other, to)",
        "may_use(state, other, to)",
    ),
    ("packing/state.rs", "self.bound += usize::from(c.is_bound());", ""),
    // Whole patterns.
    ("packing/cold.rs", "used |= *tree ^ NO_TREE;", ""),
    ("packing/cold.rs", "limits |= Cold::limits(request);", ""),
    ("packing/cold.rs", "all_plain && some_within", "false"),
    // Three stages.
    ("packing/parts.rs", "in_part.min(*tree)", "in_part"),
    ("packing/state.rs", "add(self.pods[group].owner_down(down, column));", ""),
    ("packing/rearrange.rs", "state.exchange_pods(group, chain);", ""),
    // What is taken back, and what is told.
    ("packing/state.rs", "self.set_tree(id, before);", ""),
    ("packing/mod.rs", "self.state.lift_if_packed(id.0);", ""),
];

/// In admission.
pub(crate) const ADMISSION: [Bug; 20] = [
    // The busiest lanes.
    (
        "admission/cover.rs",
        "goal.degrees[side as usize][lane as usize] == greatest",
        "goal.degrees[side as usize][lane as usize] == greatest && lane != 1",
    ),
    ("admission/cover.rs", "Side::BOTH", "[Side::Sends; 2]"),
    (
        "admission/cover.rs",
        "self.goal.degrees[self.side as usize][lane as usize] < self.greatest",
        "self.goal.degrees[self.side as usize][lane as usize] <= self.greatest",
    ),
    ("admission/cover.rs", "before == NONE", "before != id"),
    (
        "admission/cover.rs",
        "*seen == room.search || self.matching.is_locked(other, across)",
        "*seen != 0 || self.matching.is_locked(other, across)",
    ),
    (
        "admission/cover.rs",
        "self.table.arrival(id) > self.goal.until",
        "self.table.arrival(id) > self.goal.until + 1",
    ),
    // The oldest first.
    (
        "admission/fill.rs",
        "table.arrival(id) < table.arrival(held)",
        "table.arrival(id) > table.arrival(held)",
    ),
    ("admission/fill.rs", "matching.free(Side::Sends, lane);", ""),
    ("admission/turn.rs", "self.up_to_start(next)", "self.up_to_start(self.start)"),
    // Those that have waited too long.
    (
        "admission.rs",
        "oldest != NONE && self.is_overdue(oldest, window)",
        "oldest == NONE && self.is_overdue(oldest, window)",
    ),
    (
        "admission.rs",
        "window.saturating_sub(self.table.arrival(id)) >= self.overdue_after",
        "window.saturating_sub(self.table.arrival(id)) > self.overdue_after",
    ),
    ("admission.rs", "window.saturating_sub(self.overdue_after)", "oldest"),
    ("admission/table.rs", "self.cohort == oldest", "self.cohort.is_some()"),
    // Counting.
    ("admission/table.rs", "self.count(id, |degree| *degree -= 1);", ""),
    ("admission/table.rs", "self.count(id, |degree| *degree -= left);", ""),
    ("admission.rs", "*cursor = self.table.next(side, id);", ""),
    // Rates.
    (
        "admission/matching.rs",
        "self.room[side][hosts[side] as usize] >= rate",
        "self.room[side][hosts[side] as usize] > 0",
    ),
    (
        "admission/matching.rs",
        "self.room[side as usize][links.host_of(lane) as usize] -= links.unit();",
        "",
    ),
    ("admission/matching.rs", "room..count", "count..count"),
    (
        "admission.rs",
        "lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize])",
        "lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize] * 0)",
    ),
];

/// In slices.
pub(crate) const SLICES: [Bug; 12] = [
    // What a job needs.
    ("slices/condition.rs", "count.min(all - count)", "count.min(all)"),
    ("slices/condition.rs", "missing_twice |= missing & !place.free;", ""),
    ("slices/condition.rs", "at_others & free & by_all", "at_others & by_all"),
    (
        "slices/condition.rs",
        "lowest(at_others & by_others & !part, most - need)",
        "lowest(at_others & by_others & !part, 0)",
    ),
    ("slices/condition.rs", "at_others.count_ones() < most", "at_others.count_ones() <= most"),
    ("slices/assign.rs", "pods.groups(None, groups)", "groups"),
    (
        "slices/assign.rs",
        "by_all | pods.groups(Some(pods.of_place[left_over]), groups & !by_all)",
        "by_all & pods.groups(Some(pods.of_place[left_over]), groups & !by_all)",
    ),
    // What is free.
    ("slices/layout.rs", "!reaches(l, group) || layout.is_usable(l, tree)", "reaches(l, group)"),
    ("slices.rs", "self.links.toggle_pod(pod, group, set)", "self.links.toggle_pod(pod, group, 0)"),
    ("slices.rs", "self.links.toggle_leaf(leaf, set)", "self.links.toggle_leaf(leaf, set & 1)"),
    // What is tried.
    (
        "slices/exhaust.rs",
        "if alike { taken } else { u32::MAX }",
        "if !alike { taken } else { u32::MAX }",
    ),
    (
        "slices/exhaust.rs",
        "(0..=self.view.free(leaf).min(hosts).min(at_most))",
        "(1..=self.view.free(leaf).min(hosts).min(at_most))",
    ),
];

/// In the window loop, where it keeps slices and everything else apart.
pub(crate) const WINDOW: [Bug; 5] = [
    // Whose links are whose.
    ("window/domains.rs", "slices.reserve(&mut outside);", ""),
    ("window/domains.rs", "!pairs.contains(&(leaf, tree))", "false"),
    (
        "window/slicing.rs",
        "slices.job_of(ends.0).filter(|&job| slices.job_of(ends.1) == Some(job))",
        "slices.job_of(ends.0)",
    ),
    // Slices that change.
    (
        "window/slicing.rs",
        "self.slicing.version += 1;\n        self.stale = true;",
        "self.slicing.version += 1;",
    ),
    ("window/slicing.rs", "self.forget_ways();", ""),
];

/// All of them; a bug's number is its place here.
pub(crate) fn all() -> impl Iterator<Item = Bug> {
    PACKING.into_iter().chain(ADMISSION).chain(SLICES).chain(WINDOW)
}
