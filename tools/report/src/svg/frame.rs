//! A chart's frame: where it lies on its page, its axes with their names, numbers and lines across.

use std::fmt::Write as _;

use super::head;

/// Where a chart lies on its page.
pub struct Frame {
    /// From the left of the page.
    pub left: f64,
    /// From its top.
    pub top: f64,
    /// Across.
    pub width: f64,
    /// Upwards.
    pub height: f64,
    /// Below it, for the axis' numbers and name.
    pub foot: f64,
    /// Right of it, for the names of what is drawn.
    pub side: f64,
}

impl Frame {
    /// Where a share of the width lies, from the left.
    pub const fn x(&self, share: f64) -> f64 {
        self.left + self.width * share
    }

    /// Where a share of the height lies, from the top.
    pub const fn y(&self, share: f64) -> f64 {
        self.top + self.height * (1.0 - share)
    }

    /// A page with both axes and their names. What has to be written right of the chart has that height.
    pub fn page(&self, across: &str, upwards: &str, beside: f64) -> String {
        let Self { left, top, width, height, foot, side } = *self;
        let mut svg = head(left + width + side, top + height.max(beside) + foot);
        let (centre, middle) = (self.x(0.5), self.y(0.5));
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<path class=\"axis\" d=\"M{left} {top}v{height}h{width}\" stroke=\"#888\" fill=\"none\"/>\
             <text x=\"{centre:.1}\" y=\"{:.1}\" font-size=\"13\" text-anchor=\"middle\">{across}</text>\
             <text x=\"20\" y=\"{middle:.1}\" font-size=\"13\" text-anchor=\"middle\" \
             transform=\"rotate(-90 20 {middle:.1})\">{upwards}</text>",
            top + height + foot - 12.0
        );
        svg
    }

    /// A line across at `y`, and its number.
    pub fn row(&self, svg: &mut String, y: f64, label: &str) {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{} {y:.1}h{}\" stroke=\"#e6e6e6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            self.left,
            self.width,
            self.left - 8.0,
            y + 4.0
        );
    }

    /// A line upwards at `x`, and its number.
    pub fn column(&self, svg: &mut String, x: f64, label: &str) {
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {}v{}\" stroke=\"#e6e6e6\"/>",
            self.top, self.height
        );
        self.number(svg, x, label);
    }

    /// A number below the chart.
    pub fn number(&self, svg: &mut String, x: f64, label: &str) {
        let y = self.y(0.0) + 18.0;
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>");
    }
}
