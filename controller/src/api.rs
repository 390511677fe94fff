//! The API: commands of the control socket by HTTP.

use snin_daemon::http::Verb::{Delete, Get, Post, Put};
use snin_daemon::http::{Route, Verb};

const fn route(
    verb: Verb,
    path: &'static str,
    command: &'static str,
    about: &'static str,
) -> Route {
    let numbers = &["count", "since", "uid", "id"];
    Route { verb, path, command, numbers, flags: &["follow"], about }
}

/// Every route. At a Unix socket a user may do what it may do at the control socket; by TLS operators, launchers
/// and agents may do what their certificates say; over plain TCP a program only looks.
pub const ROUTES: [Route; 24] = [
    Route::ANY,
    route(Get, "/v1/status", "status", "The controller, its fabric, its counters."),
    route(Get, "/v1/windows", "windows", "The last windows, `?count=` of them."),
    route(Get, "/v1/grants", "grants", "Every grant in force."),
    route(Get, "/v1/fabric", "fabric", "Hosts, trees, and which of them cannot be used."),
    route(Get, "/v1/policy", "policy", "The policy."),
    route(Put, "/v1/policy", "policy", "Another policy: {\"set\": \"strict\"}."),
    route(Get, "/v1/path", "path", "The way `?from=h3&to=h7`."),
    route(
        Get,
        "/v1/why",
        "why",
        "Whether what is asked for `?from=h3&to=h7` is granted, and why not.",
    ),
    route(Get, "/v1/owner", "owner", "Whose the directed link is that leaves `?port=leaf3/20`."),
    route(
        Post,
        "/v1/link-tests",
        "link_test",
        "Messages over a host's link: {\"port\": \"h3\", \"messages\": 1000}.",
    ),
    route(Get, "/v1/link-tests/{id}", "link_tested", "What came of them."),
    route(
        Get,
        "/v1/events",
        "events",
        "The events after number `?since=`; with `&follow` every later one too, each a line.",
    ),
    route(Get, "/v1/slices", "slices", "Every slice."),
    route(
        Post,
        "/v1/slices",
        "slice_create",
        "A slice: {\"owner\": ..., \"count\": ...} or \"hosts\".",
    ),
    route(Get, "/v1/slices/{*owner}", "slice_explain", "What that slice is like."),
    route(
        Put,
        "/v1/slices/{*owner}",
        "slice_resize",
        "Other hosts: {\"count\": ...} or {\"hosts\": [...]}.",
    ),
    route(Delete, "/v1/slices/{*owner}", "slice_delete", "The slice is given back."),
    route(
        Get,
        "/v1/room",
        "slice_explain",
        "Where a slice of `?count=` hosts would go, or why nowhere.",
    ),
    route(
        Put,
        "/v1/collectives/{*owner}",
        "collective",
        "Another collective of that slice, or none: {\"kind\": \"ring\"}.",
    ),
    route(Get, "/v1/trees", "slice_trees", "What the nodes of `?owner=` read, for user `?uid=`."),
    route(Get, "/v1/requests", "requests", "Every request that is not over."),
    route(
        Post,
        "/v1/requests",
        "request",
        "A request: {\"from\": ..., \"to\": ..., \"windows\": ...} or \"for_ns\"; \"at_ns\" for later.",
    ),
    route(Delete, "/v1/requests/{id}", "release", "The request is given back."),
];
