//! Rates by their codes, which are not in the order of speed (IBA 15.2.5.16, PathRecord:Rate).

use snin_fabric::{LinkRate, Speed};

/// Code and Gbit/s times 10, line coding included as the specification names them.
const RATES: [(u8, u32); 23] = [
    (2, 25),
    (5, 50),
    (3, 100),
    (11, 140),
    (6, 200),
    (15, 250),
    (19, 280),
    (4, 300),
    (7, 400),
    (20, 500),
    (12, 560),
    (8, 600),
    (9, 800),
    (16, 1_000),
    (13, 1_120),
    (10, 1_200),
    (14, 1_680),
    (17, 2_000),
    (18, 3_000),
    (21, 4_000),
    (22, 6_000),
    (23, 8_000),
    (24, 12_000),
];

/// How fast a code is, for comparison; `None` of a code that means nothing.
pub(super) fn speed(code: u8) -> Option<u32> {
    RATES.iter().find(|(known, _)| *known == code).map(|(_, speed)| *speed)
}

/// The code of a link's rate: of one without a code, the next slower one's.
pub(super) fn code(rate: LinkRate) -> u8 {
    // By the names that the specification gives: 2.5, 5, 10, 14, 25 ... a lane.
    let lane = match rate.speed {
        Speed::Sdr => 25,
        Speed::Ddr => 50,
        Speed::Qdr | Speed::Fdr10 => 100,
        Speed::Fdr => 140,
        Speed::Edr => 250,
        Speed::Hdr => 500,
        Speed::Ndr => 1_000,
        Speed::Xdr => 2_000,
    };
    let all = lane * u32::from(rate.width.lanes());
    let slower = RATES.iter().rev().find(|(_, speed)| *speed <= all);
    slower.map_or(2, |(code, _)| *code)
}

#[cfg(test)]
mod tests {
    use snin_fabric::Width;

    use super::*;

    #[test]
    fn rates_are_ordered_by_speed() {
        assert!(RATES.windows(2).all(|pair| pair[0].1 < pair[1].1));
        let of = |text: &str| code(text.parse().unwrap());
        let codes =
            ["1xSDR", "4xSDR", "4xDDR", "4xQDR", "4xFDR10", "4xFDR", "4xEDR", "4xHDR", "4xNDR"];
        assert_eq!(codes.map(of), [2, 3, 6, 7, 7, 12, 16, 17, 21]);
        assert_eq!(
            ["1xFDR", "1xEDR", "1xHDR", "4xXDR", "8xNDR", "12xXDR"].map(of),
            [11, 15, 20, 23, 23, 24]
        );
        assert!(speed(4) < speed(7) && speed(11) < speed(4), "14 and 30 Gbit/s");
        assert_eq!((speed(0), speed(63)), (None, None));
        for &speed in Speed::ALL {
            for lanes in [1, 2, 4, 8, 12] {
                let rate = LinkRate { width: Width::new(lanes).unwrap(), speed };
                assert!(super::speed(code(rate)).is_some());
            }
        }
    }
}
