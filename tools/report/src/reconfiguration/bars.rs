//! Stacked bars in groups.

use std::fmt::Write as _;

use crate::svg::{self, Frame};

/// Of bars and curves.
pub(super) const FRAME: Frame =
    Frame { left: 90.0, top: 24.0, width: 1_000.0, height: 260.0, foot: 56.0, side: 30.0 };

/// Bars that belong together.
pub(super) struct Group {
    /// Below them.
    pub(super) name: String,
    /// From left to right.
    pub(super) bars: Vec<Bar>,
}

/// Parts on top of each other.
pub(super) struct Bar {
    /// Shown by a pointer.
    pub(super) name: String,
    /// Colours and heights, from below.
    pub(super) parts: Vec<(&'static str, f64)>,
}

impl Bar {
    fn height(&self) -> f64 {
        self.parts.iter().map(|part| part.1).sum()
    }
}

/// The least of 1, 2, 5 and 10 times a power of ten that is no less.
pub(super) fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|&top| top >= value).unwrap_or(value)
}

/// A number of an axis.
pub(super) fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e4 => format!("{}k", value / 1e3),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// The picture.
pub(super) fn stacked(groups: &[Group], across: &str, upwards: &str) -> String {
    let bars = groups.iter().flat_map(|group| &group.bars);
    let top = round_up(bars.map(Bar::height).fold(0.0, f64::max));
    let mut svg = FRAME.page(across, upwards, 0.0);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        FRAME.row(&mut svg, FRAME.y(share), &number(share * top));
    }
    let pitch = FRAME.width / groups.len().max(1) as f64;
    for (group, place) in groups.iter().zip(0..) {
        let left = FRAME.left + pitch * f64::from(place);
        let width = (pitch * 0.8 / group.bars.len().max(1) as f64).min(46.0);
        let begin = left + (pitch - width * group.bars.len() as f64) / 2.0;
        for (bar, number) in group.bars.iter().zip(0..) {
            let mut base = 0.0;
            for &(colour, height) in &bar.parts {
                let x = begin + width * f64::from(number);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>{}, \
                     {}: {height:.3} of {:.3}</title></rect>",
                    FRAME.y((base + height) / top),
                    width * 0.9,
                    FRAME.height * height / top,
                    svg::escape(&group.name),
                    svg::escape(&bar.name),
                    bar.height(),
                );
                base += height;
            }
        }
        FRAME.number(&mut svg, left + pitch / 2.0, &svg::escape(&group.name));
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, top) in [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (2_100.0, 5_000.0), (51.0, 100.0)]
        {
            assert!((round_up(value) - top).abs() < 1e-9, "{value}");
        }
        let said = [0.0, 0.25, 500.0, 12_500.0, 2e6].map(number);
        assert_eq!(said, ["0", "0.25", "500", "12.5k", "2M"]);
    }
}
