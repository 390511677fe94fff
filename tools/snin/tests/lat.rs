//! `snin lat` in the virtual machine: everything that it can measure, between two devices, with perftest beside
//! it as the judge of its columns; and its files as those read them for whom they are. The kernel's RMPP is asked
//! in the same machine, and adapters what they say of their ports.
#![cfg(feature = "verbs")]
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

mod browser;
#[path = "lat/changes.rs"]
mod changes;
#[path = "lat/rmpp.rs"]
mod rmpp;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::browser::Browser;

const SNIN: &str = env!("CARGO_BIN_EXE_snin");
const MESSAGES: u64 = 30;
/// Of a bandwidth: links of the machine carry some 20 MB/s.
const FEW: u64 = 3;

/// What is measured, and what the document has to say of it: operation, carrier, messages of each size.
const LATENCIES: [(&str, &str, &str, u64); 13] = [
    ("", "send", "rc", MESSAGES),
    ("--operation write", "write", "rc", MESSAGES),
    ("--operation read", "read", "rc", MESSAGES),
    ("--depth 1", "send", "rc", MESSAGES),
    ("--transport uc", "send", "uc", MESSAGES),
    ("--transport uc --operation write", "write", "uc", MESSAGES),
    ("--transport ud", "send", "ud", MESSAGES),
    ("--rate 200", "send", "rc", MESSAGES),
    ("--rate 200 --operation write", "write", "rc", MESSAGES),
    ("--rate 200 --operation read", "read", "rc", MESSAGES),
    ("--flows 4 --offset 0,1,2,3", "send", "rc", 4 * MESSAGES),
    ("--flows 4 --offset 0,1,2,3 --rate 100", "send", "rc", 4 * MESSAGES),
    ("--congestor 64k", "send", "rc", MESSAGES),
];
const BANDWIDTHS: [(&str, &str, &str, u64); 5] = [
    ("--all --operation send", "send", "rc", FEW),
    ("--all --operation write", "write", "rc", FEW),
    ("--all --operation read", "read", "rc", FEW),
    ("--size 64k --transport uc --flows 2", "send", "uc", 2 * FEW),
    ("--all --transport ud", "send", "ud", FEW),
];

/// Two devices with four addresses each, `snin lat` waiting at one of them, and `ask` to call it from the other;
/// each side on a processor of its own.
const MACHINE: &str = "
    rxe-pair 4
    ulimit -l unlimited
    ask() { taskset -c 0 snin lat --device rxe0 --peer 127.0.0.1 --warm-up 5 \"$@\"; }
    snin lat --peer 127.0.0.1 2>$OUT/nobody; echo $? >>$OUT/nobody
    taskset -c 1 snin lat --device rxe1 --keep 2>$OUT/server & server=$!
    until grep -q waiting $OUT/server; do sleep 0.05; done
";
/// Datagrams to one who stands still after the first hundred until all were sent: without a new process, so that
/// it is soon seen that they came.
const LOST: &str = "
    came() { read -r packets </sys/class/net/host1/statistics/rx_packets; }
    came; before=$packets
    { ask --bandwidth --transport ud --size 1k --iterations 20000 --json $OUT/lost >/dev/null 2>$OUT/lost-said
      echo $? >>$OUT/lost-said; } & client=$!
    until came; [ $packets -gt $((before + 100)) ]; do :; done
    kill -STOP $server
    for turn in {1..600}; do came; [ $packets -ge $((before + 20000)) ] && break; sleep 0.1; done
    kill -CONT $server
    wait $client
";
/// What cannot be, each with what is said of it.
const REFUSED: [(&str, &str); 6] = [
    ("--transport ud --size 8k", "8192 bytes: a datagram is one packet, at most 4096 here"),
    ("--transport ud --operation write", "datagrams cannot write"),
    ("--transport uc --operation read", "only reliable connections can read"),
    ("--transport ud --rate 10", "only RC has one"),
    ("--offset 9", "the own port has no address"),
    ("--ib-port 3", "rxe0 has no port 3: its ports are 1 to 1"),
];

/// The program that speaks with the kernel's queue pair 1, made with the compiler that links everything here.
fn umad(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vm/programs/umad.c");
    let program = folder.join("umad");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
    assert!(compile.status().expect("cc").success());
    program
}

/// Runs a shell script in the virtual machine; gives what it said and where what it left is.
fn in_machine(script: &str) -> (Output, TempDir) {
    let out = TempDir::new().unwrap();
    let run = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../vm/run");
    let mut machine = Command::new(run);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let limit =
        600 + 10 * number("SNIN_SEEDS").unwrap_or(0) + number("SNIN_SEGMENTS").unwrap_or(0) / 100;
    machine.args(["--limit", &limit.to_string(), "--memory", "1024", "--out"]).arg(out.path());
    machine.args(["--with", SNIN, "--with", "/usr/bin/taskset", "--with", "/usr/bin/setpriv"]);
    machine.arg("--with").arg(std::env::current_exe().unwrap()).arg("--with").arg(umad(out.path()));
    (machine.args(["--", "bash", "-c", script]).output().expect("tools/vm/run"), out)
}

fn text(out: &TempDir, name: &str) -> String {
    fs::read_to_string(out.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn documents(out: &TempDir, name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(&text(out, name)).expect("it is JSON");
    all.as_array().expect("a document a size").clone()
}

#[test]
fn everything_is_measured_in_the_virtual_machine() {
    let mut script = MACHINE.to_owned();
    for (number, (options, ..)) in LATENCIES.iter().enumerate() {
        script += &format!(
            "ask {options} --iterations {MESSAGES} --size 2,64 --json $OUT/latency{number} >/dev/null || exit 1\n"
        );
    }
    for (number, (options, ..)) in BANDWIDTHS.iter().enumerate() {
        script += &format!(
            "ask --bandwidth {options} --iterations {FEW} --json $OUT/bandwidth{number} \
             --svg $OUT/bandwidth{number}.svg >$OUT/bandwidth || exit 1\n"
        );
    }
    let all = format!("ask --iterations {MESSAGES}");
    script += &format!(
        "{all} --size 2,64,4k --hgrm $OUT/out.hgrm --svg $OUT/out.svg >$OUT/latency || exit 1\n"
    );
    script += &format!("{all} --size 64 --json - >$OUT/alone || exit 1\n");
    script += LOST;
    for (number, (options, _)) in REFUSED.iter().enumerate() {
        script += &format!(
            "ask {options} >/dev/null 2>$OUT/refused{number}; echo $? >>$OUT/refused{number}\n"
        );
    }
    script += "(ulimit -l 64; setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock snin lat --device rxe0 \
                   --peer 127.0.0.1 --size 1M >/dev/null 2>$OUT/memory; echo $? >>$OUT/memory)
               for kind in lat bw; do
                   ib_send_$kind -d rxe1 -x 1 -n 100 >/dev/null 2>&1 & perftest=$!
                   until grep -q ':4853 .* 0A ' /proc/net/tcp; do kill -0 $perftest || exit 1; sleep 0.05; done
                   ib_send_$kind -d rxe0 -x 1 -n 100 127.0.0.1 >$OUT/perftest-$kind || exit 1
               done\n";
    let own = std::env::current_exe().unwrap();
    let own = own.file_name().unwrap().to_str().unwrap();
    let size = |name: &str| {
        std::env::var(name).map(|value| format!("{name}={value} ")).unwrap_or_default()
    };
    let sizes = size("SNIN_SEGMENTS") + &size("SNIN_SEEDS");
    script += &format!(
        "{sizes}{own} --ignored --nocapture the_kernel_is >$OUT/rmpp 2>&1; echo $? >>$OUT/rmpp\n\
         {own} --ignored --nocapture changes:: >$OUT/changes 2>&1; echo $? >>$OUT/changes\n"
    );
    let (output, out) = in_machine(&script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for test in ["rmpp", "changes"] {
        let said = text(&out, test);
        assert!(said.ends_with("\n0\n") && said.contains("1 passed"), "{said}");
        println!("{said}");
    }

    for (number, (options, operation, carrier, messages)) in LATENCIES.iter().enumerate() {
        let documents = documents(&out, &format!("latency{number}"));
        assert_eq!(documents.len(), 2, "{options}");
        for (document, size) in documents.iter().zip([2, 64]) {
            is_as_asked(document, (operation, carrier), size, *messages);
            let names = ["min", "median", "p99", "p999", "p9999", "max"];
            let values = names.map(|name| document["latency_ns"][name].as_u64().unwrap());
            assert!(values[0] > 0 && values.is_sorted(), "{options}: {document:#}");
        }
    }
    for (number, (options, operation, carrier, messages)) in BANDWIDTHS.iter().enumerate() {
        let documents = documents(&out, &format!("bandwidth{number}"));
        let sizes: Vec<u64> = match *carrier {
            "rc" => (10..=23).map(|exponent| 1 << exponent).collect(),
            "ud" => vec![1024, 2048, 4096],
            _ => vec![65_536],
        };
        assert_eq!(documents.len(), sizes.len(), "{options}");
        for (document, size) in documents.iter().zip(sizes) {
            is_as_asked(document, (operation, carrier), size, *messages);
            let rate = |name: &str| document["bandwidth"][name].as_f64().unwrap();
            let (average, peak) = (rate("bytes_per_second"), rate("peak_bytes_per_second"));
            assert!(average > 0.0 && peak >= average, "{options}: {document:#}");
        }
    }
    is_as_asked(
        &serde_json::from_str::<Value>(&text(&out, "alone")).unwrap()[0],
        ("send", "rc"),
        64,
        30,
    );
    let lost = &documents(&out, "lost")[0];
    let (came, lost) = (lost["messages"].as_u64().unwrap(), lost["lost"].as_u64().unwrap());
    assert!(lost > 0 && came >= 100 && came + lost == 20_000, "{came} came, {lost} were lost");
    assert_eq!(text(&out, "lost-said"), format!("snin: {lost} messages were lost\n1\n"));
    has_the_columns_of_perftest(&out);
    for size in [2, 64, 4096] {
        can_be_plotted(&text(&out, &format!("out-{size}.hgrm")), MESSAGES);
    }
    can_be_seen(&out.path().join("out.svg"), &["2 B", "64 B", "4096 B", "99.99 %"], 3);
    can_be_seen(&out.path().join("bandwidth0.svg"), &["average", "peak", "1 Ki", "8 Mi"], 2);
    can_be_seen(&out.path().join("bandwidth3.svg"), &["average", "64 Ki"], 2);

    for (number, (options, why)) in REFUSED.iter().enumerate() {
        is_refused(&text(&out, &format!("refused{number}")), options, why);
    }
    is_refused(&text(&out, "nobody"), "nobody waits", "does `snin lat` wait there?");
    is_refused(&text(&out, "memory"), "no memory may be locked", "ulimit -l unlimited");
}

fn is_as_asked(document: &Value, how: (&str, &str), size: u64, messages: u64) {
    let plan = &document["plan"];
    assert_eq!((plan["operation"].as_str(), plan["carrier"].as_str()), (Some(how.0), Some(how.1)));
    assert_eq!(
        (plan["size"].as_u64(), document["lost"].as_u64()),
        (Some(size), Some(0)),
        "{document:#}"
    );
    assert_eq!(document["messages"].as_u64(), Some(messages), "{document:#}");
}

/// One line on stderr, then the exit code.
fn is_refused(said: &str, what: &str, why: &str) {
    let lines: Vec<&str> = said.lines().collect();
    assert!(matches!(lines[..], [line, "3"] if line.contains(why)), "{what}: {said}");
}

/// The same columns in the same order, and rows of as many numbers.
fn has_the_columns_of_perftest(out: &TempDir) {
    for (ours, theirs, own) in [("latency", "perftest-lat", 1), ("bandwidth", "perftest-bw", 0)] {
        let (ours, theirs) = (text(out, ours), text(out, theirs));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut perftest =
            theirs.lines().skip_while(|line| !line.starts_with(" #bytes")).map(words);
        let (header, row) = (perftest.next().expect("perftest's header"), perftest.next().unwrap());
        let mut rows = ours.lines().map(words);
        assert_eq!(rows.next().unwrap()[..header.len()], header);
        for numbers in rows {
            assert!(numbers.iter().all(|word| word.parse::<f64>().is_ok()), "{numbers:?}");
            assert_eq!(numbers.len(), row.len() + own, "{numbers:?} beside {row:?}");
        }
    }
}

/// As HdrHistogram's plotter reads it: of each line with four numbers, value over 1 / (1 - quantile).
fn can_be_plotted(hgrm: &str, messages: u64) {
    let rows: Vec<Vec<f64>> = hgrm
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .collect();
    let points: Vec<&Vec<f64>> = rows.iter().filter(|row| row.len() == 4).collect();
    assert!(points.len() > 10, "{hgrm}");
    assert!(points.is_sorted_by(|a, b| a[0] <= b[0] && a[1] < b[1] && a[2] <= b[2]), "{hgrm}");
    assert!(points.iter().all(|row| (row[3] * (1.0 - row[1]) - 1.0).abs() < 0.01), "{hgrm}");
    let last = rows.iter().rfind(|row| row.len() == 3).expect("the whole of it");
    assert_eq!((last[1], last[2]), (1.0, messages as f64), "{hgrm}");
}

/// Chromium finds these texts in the picture, none beyond its edge, and so many lines with a length.
fn can_be_seen(drawing: &Path, texts: &[&str], lines: u64) {
    let page = drawing.with_extension("html");
    let svg = fs::read_to_string(drawing).unwrap();
    fs::write(&page, format!("<!doctype html><body><div id=\"chart\">{svg}</div>")).unwrap();
    let seen = Browser::new().measure(&page);
    let found = seen["texts"]["chart"].as_str().unwrap();
    assert!(texts.iter().all(|text| found.contains(text)), "{texts:?} in {found}");
    assert_eq!(seen["outside"].as_array().unwrap().len(), 0, "{seen:#}");
    assert_eq!(svg.matches("<polyline").count() as u64, lines);
    // Every point lies within the axes.
    for points in svg.split("points=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').expect("x,y");
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((80.0..=780.0).contains(&x) && (30.0..=330.0).contains(&y), "{point}");
        }
    }
}
