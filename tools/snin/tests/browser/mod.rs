//! Headless Chromium, which lays pages out and says what it sees.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The width of its window.
pub(crate) const WIDTH: u32 = 1_400;
/// A4 within its margins, at 96 pixels an inch; a browser's window is no narrower than 500.
#[allow(dead_code, reason = "not every test prints")]
pub(crate) const PAPER: u32 = 720;

/// Says where everything is that has a name, and how many curves, bars and links were understood as such.
const MEASURE: &str = "<script>
const found = {height: document.documentElement.scrollHeight, width: document.documentElement.scrollWidth};
found.shapes = {};
found.texts = {};
found.places = {};
for (const element of document.querySelectorAll('[id]')) {
  const place = element.getBoundingClientRect();
  found.places[element.id] = [place.left, place.top, place.right, place.bottom].map(Math.round);
  found.shapes[element.id] = element.querySelectorAll('path, rect, line, polyline').length;
  found.texts[element.id] = element.textContent;
}
const outside = [...document.querySelectorAll('text')].filter(text => {
  const [inner, outer] = [text.getBoundingClientRect(), text.closest('svg').getBoundingClientRect()];
  return inner.left < outer.left - 1 || inner.right > outer.right + 1;
});
found.outside = outside.map(text => text.textContent);
document.body.innerHTML = '<pre>' + btoa(unescape(encodeURIComponent(JSON.stringify(found)))) + '</pre>';
</script>";

/// A browser with a profile that is its own.
pub(crate) struct Browser(pub(crate) TempDir);

impl Browser {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn run(&self, page: &Path, arguments: &[&str]) -> Vec<u8> {
        let quiet = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--hide-scrollbars",
        ];
        let output = Command::new("chromium")
            .args(quiet)
            .arg(format!("--user-data-dir={}", self.0.path().display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("Chromium, which is missing (make deps installs it)");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "Chromium: {}\n{said}", output.status);
        output.stdout
    }

    /// What the page says of itself.
    pub(crate) fn measure(&self, page: &Path) -> Value {
        self.measure_text(page, &fs::read_to_string(page).unwrap(), WIDTH)
    }

    /// What it says as it is printed, on A4.
    #[allow(dead_code, reason = "not every test prints")]
    pub(crate) fn measure_print(&self, page: &Path) -> Value {
        let text = fs::read_to_string(page).unwrap().replace("@media print", "@media all");
        self.measure_text(page, &text, PAPER)
    }

    fn measure_text(&self, page: &Path, text: &str, width: u32) -> Value {
        let copy = page.with_extension("measured.html");
        fs::write(&copy, text.to_owned() + MEASURE).unwrap();
        let size = format!("--window-size={width},1000");
        let dom = String::from_utf8(self.run(&copy, &[&size, "--dump-dom"])).unwrap();
        let coded = dom.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
        serde_json::from_slice(&decode(coded.expect("what the script wrote"))).unwrap()
    }
}

/// Base 64, in which the script writes what a document's text could not hold.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte| DIGITS.iter().position(|&digit| digit == byte).map(|place| place as u32);
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let word = (0..4).fold(0, |word, n| word << 6 | four.get(n).copied().unwrap_or(0));
        let [_, bytes @ ..] = word.to_be_bytes();
        bytes.into_iter().take(four.len() - 1)
    });
    bytes.collect()
}
