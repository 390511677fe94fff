//! The lab's page as a browser shows it: headless Chromium lays it out, and what must be there is looked for
//! in its document and in its picture. Not pixels: places and colours.

mod browser;

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::browser::{Browser, WIDTH};

const LAB: [&str; 8] = ["lab", "clos:6,4,4", "--windows", "3", "--samples", "2", "--slice", "20us"];
/// Of static, ecmp and snin, as the charts have them.
const RUNS: [(&str, [u8; 3]); 3] =
    [("static", [0xd1, 0x58, 0x3c]), ("ecmp", [0xdf, 0xa3, 0x2a]), ("snin", [0x1f, 0x8f, 0xa6])];
/// Of a link that carries at most one connection, and of those that carry more.
const SINGLE: [u8; 3] = [0x5f, 0xb7, 0x9a];
const CROWDED: [[u8; 3]; 3] = [[0xe9, 0xa2, 0x3b], [0xdd, 0x5f, 0x2a], [0xc2, 0x18, 0x5b]];
/// Where anti-aliasing and thin lines leave few pixels as they were meant.
const NEAR: u8 = 12;

impl Browser {
    /// What it looks like, all of it.
    fn picture(&self, page: &Path, height: u64, theme: &[&str]) -> Picture {
        let file: PathBuf = self.0.path().join("picture.png");
        let size = format!("--window-size={WIDTH},{height}");
        let to = format!("--screenshot={}", file.display());
        self.run(page, &[&[size.as_str(), to.as_str()], theme].concat());
        Picture::read(&fs::read(file).unwrap())
    }
}

/// Pixels, row by row.
struct Picture {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn read(file: &[u8]) -> Self {
        let mut decoder = png::Decoder::new(Cursor::new(file));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut bytes).unwrap();
        let samples = frame.color_type.samples();
        let pixel = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2]];
        let pixels = bytes[..frame.buffer_size()].chunks_exact(samples).map(pixel).collect();
        Self { width: frame.width as usize, pixels }
    }

    fn within(&self, place: &Value) -> impl Iterator<Item = [u8; 3]> + '_ {
        let [left, top, right, bottom] =
            [0, 1, 2, 3].map(|side| place[side].as_i64().unwrap().max(0) as usize);
        let rows = self.pixels.chunks(self.width).take(bottom).skip(top);
        rows.flat_map(move |row| row[left.min(row.len())..right.min(row.len())].iter().copied())
    }

    /// Pixels of a colour, or nearly so.
    fn count(&self, place: &Value, colour: [u8; 3]) -> usize {
        let near = |pixel: &[u8; 3]| pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) <= NEAR);
        self.within(place).filter(near).count()
    }

    /// Distinct colours.
    fn colours(&self, place: &Value) -> usize {
        let counted = self.within(place).fold(BTreeMap::new(), |mut counted, pixel| {
            *counted.entry(pixel).or_insert(0) += 1;
            counted
        });
        counted.len()
    }

    fn brightness(&self) -> f64 {
        let sum: u64 = self.pixels.iter().flatten().map(|&channel| u64::from(channel)).sum();
        sum as f64 / (3 * self.pixels.len()) as f64 / 255.0
    }
}

fn page(directory: &TempDir) -> PathBuf {
    let page = directory.path().join("lab.html");
    let output = Command::new(env!("CARGO_BIN_EXE_snin"))
        .args(LAB)
        .args(["--html".as_ref(), page.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

#[test]
fn a_browser_shows_what_must_be_there() {
    let directory = tempfile::tempdir().unwrap();
    let (page, browser) = (page(&directory), Browser::new());
    let found = browser.measure(&page);
    let number = |path: &str| found.pointer(path).and_then(Value::as_u64);
    assert!(number("/width") <= Some(u64::from(WIDTH)), "wider than the window: {found:#}");
    assert_eq!(found["outside"], Value::Array(Vec::new()), "texts that leave their pictures");
    check_document(&found);

    let height = number("/height").unwrap();
    let picture = browser.picture(&page, height, &[]);
    assert_eq!(picture.width, WIDTH as usize);
    assert!((0.75..0.99).contains(&picture.brightness()), "{}", picture.brightness());
    check_picture(&found["places"], &picture);

    let dark = browser.picture(&page, height, &["--force-dark-mode"]);
    assert!((0.03..0.35).contains(&dark.brightness()), "{}", dark.brightness());
    check_picture(&found["places"], &dark);
}

/// What a page says of its width on a telephone: a frame of 390 pixels, since a browser's window is no narrower
/// than 500.
fn width_at_390(browser: &Browser, page: &Path) -> u64 {
    let say = "<script>parent.document.body.innerHTML = \
               '<pre>' + document.documentElement.scrollWidth + '</pre>';</script>";
    let text = fs::read_to_string(page).unwrap() + say;
    let frame = page.with_extension("frame.html");
    let quoted = text.replace('&', "&amp;").replace('"', "&quot;");
    fs::write(&frame, format!("<iframe width=390 height=900 srcdoc=\"{quoted}\"></iframe>"))
        .unwrap();
    let dom = browser.run(&frame, &["--virtual-time-budget=5000", "--dump-dom"]);
    let dom = String::from_utf8(dom).unwrap();
    let said = dom.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    said.expect("what the script wrote").parse().unwrap()
}

#[test]
fn pages_fit_a_telephone_and_pictures_follow_the_dark() {
    let directory = tempfile::tempdir().unwrap();
    let (page, browser) = (page(&directory), Browser::new());
    let width = width_at_390(&browser, &page);
    assert!(width <= 390, "{width} pixels wide");

    let svg = directory.path().join("plan.svg");
    let mut plan = Command::new(env!("CARGO_BIN_EXE_snin"));
    plan.args(["plan", "clos:6,4,4", "--traffic", "permutation", "--svg"]).arg(&svg);
    assert!(plan.output().unwrap().status.success());
    let paper = |theme: &[&str]| {
        let picture = browser.picture(&svg, 400, theme);
        picture.count(&serde_json::json!([0, 0, WIDTH, 400]), [0x14, 0x18, 0x1c])
    };
    let [light, dark] = [paper(&[]), paper(&["--force-dark-mode"])];
    assert!(light < 1_000 && dark > 50_000, "dark pixels: {light} and {dark}");
}

/// Every part is there, with as many shapes as it must have, and says what it must.
fn check_document(found: &Value) {
    let shapes = |id: &str| found["shapes"][id].as_u64().unwrap_or_else(|| panic!("no #{id}"));
    let text = |id: &str| found["texts"][id].as_str().unwrap_or_else(|| panic!("no #{id}"));
    let runs = ["static", "ecmp", "snin"];
    for (id, words) in [
        ("summary", &["goodput", "queueing p99", "latency p50", "slowdown max", "1.000"][..]),
        ("latency", &["share of packets that took longer", "latency of a packet", "us", "0.1 %"]),
        ("goodput", &["goodput", "window", "0.50"]),
        ("load", &["up to 1", "up to 2", "more", "idle", "snin: at most 1.00"]),
        ("matrix", &["Paull's matrix", "leaf", "tree"]),
        ("smps", &["Get(NodeInfo)", "Set(LinearForwardingTable)", "Set(PortInfo)"]),
    ] {
        words.iter().for_each(|word| assert!(text(id).contains(word), "no `{word}` in #{id}"));
        if !matches!(id, "matrix" | "smps") {
            runs.iter().for_each(|run| assert!(text(id).contains(run), "no {run} in #{id}"));
        }
    }
    // Three curves besides axes; three bars a sampled window; every leaf's and spine's box, and links.
    assert!(shapes("latency") > 3 + 1 + 7 && shapes("goodput") >= 3 * 2);
    for run in runs {
        assert!(text(run).contains('%'));
        let links = shapes(&format!("load-{run}"));
        assert!(links >= 6 + 4 + 6 * 4, "{links} shapes of {run}");
    }
    assert!(shapes("matrix") >= 12 && shapes("smps") >= 5);
}

/// Every picture has the colours it must have, and none that it must not.
fn check_picture(places: &Value, picture: &Picture) {
    for (run, colour) in RUNS {
        for id in ["latency", "goodput"] {
            let pixels = picture.count(&places[id], colour);
            assert!(pixels > 300, "{run} has {pixels} pixels in #{id}");
        }
    }
    let [by_static, _, snin] = RUNS.map(|(_, colour)| picture.count(&places["goodput"], colour));
    assert!(snin > by_static, "snin's bars are the highest");
    let crowded = |run: &str| {
        let place = &places[format!("load-{run}").as_str()];
        assert!(picture.count(place, SINGLE) > 500, "links of {run}");
        CROWDED.iter().map(|&colour| picture.count(place, colour)).sum::<usize>()
    };
    assert_eq!(crowded("snin"), 0);
    assert!(crowded("static") > 100 && crowded("ecmp") > 100);
    assert!(picture.count(&places["smps"], RUNS[2].1) > 5_000);
    // A colour a tree, and what lies between them.
    assert!(picture.colours(&places["matrix"]) > 20);
}
