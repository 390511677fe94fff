//! The rate of a link, which PortInfo spreads over four fields and a vendor over a fifth.

use snin_fabric::{LinkRate, Speed, Width};

use crate::port::{
    LinkSpeeds, LinkSpeedsExt, LinkSpeedsExt2, LinkWidths, PortInfo, VendorPortInfo, VendorSpeeds,
};

const WIDTHS: [(LinkWidths, u8); 5] = [
    (LinkWidths::X1, 1),
    (LinkWidths::X4, 4),
    (LinkWidths::X8, 8),
    (LinkWidths::X12, 12),
    (LinkWidths::X2, 2),
];

/// Each speed as (LinkSpeed, LinkSpeedExt, LinkSpeedExt2, vendor's) *Active shows it.
const SPEEDS: [(Speed, [u8; 4]); 9] = [
    (Speed::Sdr, [1, 0, 0, 0]),
    (Speed::Ddr, [2, 0, 0, 0]),
    (Speed::Qdr, [4, 0, 0, 0]),
    // As if it were QDR, to whom does not know the vendor's attribute.
    (Speed::Fdr10, [4, 0, 0, 1]),
    (Speed::Fdr, [0, 1, 0, 0]),
    (Speed::Edr, [0, 2, 0, 0]),
    (Speed::Hdr, [0, 4, 0, 0]),
    (Speed::Ndr, [0, 8, 0, 0]),
    (Speed::Xdr, [0, 0, 1, 0]),
];

impl PortInfo {
    /// The rate of the link, `None` where the fields do not say a known one. Without the vendor's attribute
    /// FDR10 looks like QDR.
    pub fn rate(&self, vendor: Option<&VendorPortInfo>) -> Option<LinkRate> {
        let lanes = WIDTHS.iter().find(|(bit, _)| *bit == self.width_active)?.1;
        let vendor = vendor.map_or(0, |vendor| vendor.speed_active.0);
        let (base, ext, ext2) =
            (self.speed_active.0, self.speed_ext_active.0, self.speed_ext2_active.0);
        // The newest field that says anything holds; the older ones are what older managers see.
        let fields = match (ext2, ext) {
            (0, 0) => [base, 0, 0, vendor],
            (0, _) => [0, ext, 0, 0],
            _ => [0, 0, ext2, 0],
        };
        let speed = SPEEDS.iter().find(|(_, shown)| *shown == fields)?.0;
        Some(LinkRate { width: Width::new(lanes)?, speed })
    }

    /// The greatest width and the greatest speed that this port and the one at the other end of its cable support
    /// and have enabled; `None` where they have none in common. FDR10 counts as QDR.
    pub fn best_rate(&self, other: &Self) -> Option<LinkRate> {
        let widths = self.widths() & other.widths();
        let lanes = WIDTHS.iter().filter(|(bit, _)| bit.0 & widths != 0).map(|(_, lanes)| *lanes);
        let (one, other) = (self.speeds(), other.speeds());
        let both: [u8; 3] = std::array::from_fn(|field| one[field] & other[field]);
        let can = |shown: &[u8; 4]| (0..3).any(|field| shown[field] & both[field] != 0);
        let speeds = SPEEDS.iter().filter(|(speed, _)| *speed != Speed::Fdr10);
        let speed = speeds.filter(|(_, shown)| can(shown)).map(|(speed, _)| *speed).max()?;
        Some(LinkRate { width: Width::new(lanes.max()?)?, speed })
    }

    /// Widths that are supported and enabled.
    const fn widths(&self) -> u8 {
        self.width_supported.0 & self.width_enabled.0
    }

    /// Speeds that are supported and enabled, by field: the older, the extended, the second extended ones.
    const fn speeds(&self) -> [u8; 3] {
        // 30: extended speeds are turned off (IBA 14.2.5.6).
        let extended = match self.speed_ext_enabled.0 {
            30 => 0,
            enabled => enabled & self.speed_ext_supported.0,
        };
        [
            self.speed_supported.0 & self.speed_enabled.0,
            extended,
            self.speed_ext2_supported.0 & self.speed_ext2_enabled.0,
        ]
    }

    /// Shows `rate` as negotiated, and leaves what is supported and enabled: what an agent answers for a port
    /// whose link trained to it. FDR10 shows as QDR.
    pub fn set_active_rate(&mut self, rate: LinkRate) {
        let lanes = rate.width.lanes();
        self.width_active =
            WIDTHS.iter().find(|(_, l)| *l == lanes).map_or(LinkWidths(0), |(bit, _)| *bit);
        let [base, ext, ext2, _] = active(rate.speed);
        self.speed_active = LinkSpeeds(base);
        self.speed_ext_active = LinkSpeedsExt(ext);
        self.speed_ext2_active = LinkSpeedsExt2(ext2);
    }

    /// Shows `rate` as negotiated, and that and everything slower as supported and enabled: what an agent
    /// answers for a port whose link runs at it. FDR10 shows as QDR; see [`VendorPortInfo::set_rate`].
    pub fn set_rate(&mut self, rate: LinkRate) {
        self.set_active_rate(rate);
        self.width_supported = self.width_active.with(LinkWidths::X1);
        self.width_enabled = self.width_supported;
        let slower = SPEEDS.iter().filter(|(speed, _)| *speed <= rate.speed);
        let [base, ext, ext2, _] =
            slower.fold([0; 4], |all, (_, shown)| std::array::from_fn(|i| all[i] | shown[i]));
        self.speed_supported = LinkSpeeds(base);
        self.speed_enabled = LinkSpeeds(base);
        self.speed_ext_supported = LinkSpeedsExt(ext);
        self.speed_ext_enabled = LinkSpeedsExt(ext);
        self.speed_ext2_supported = LinkSpeedsExt2(ext2);
        self.speed_ext2_enabled = LinkSpeedsExt2(ext2);
    }
}

impl VendorPortInfo {
    /// What an agent that knows FDR10 answers for a port whose link runs at `rate`.
    pub fn set_rate(&mut self, rate: LinkRate) {
        let known = u8::from(rate.speed >= Speed::Fdr10);
        self.speed_supported = VendorSpeeds(known);
        self.speed_enabled = VendorSpeeds(known);
        self.speed_active = VendorSpeeds(active(rate.speed)[3]);
    }
}

fn active(speed: Speed) -> [u8; 4] {
    SPEEDS.iter().find(|(s, _)| *s == speed).map_or([0; 4], |(_, shown)| *shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(rate: &str) -> PortInfo {
        let mut info = PortInfo::default();
        info.set_rate(rate.parse().unwrap());
        info
    }

    #[test]
    fn a_link_can_what_both_ends_can() {
        for (one, other, best) in [
            ("4xHDR", "4xHDR", "4xHDR"),
            ("4xXDR", "4xHDR", "4xHDR"),
            ("4xNDR", "1xNDR", "1xNDR"),
            ("4xQDR", "4xEDR", "4xQDR"),
            ("4xFDR10", "4xFDR10", "4xQDR"),
        ] {
            let (one, other) = (port(one), port(other));
            assert_eq!(one.best_rate(&other).unwrap().to_string(), best);
            assert_eq!(other.best_rate(&one).unwrap().to_string(), best);
        }
        let mut slow = port("4xHDR");
        slow.set_active_rate("1xSDR".parse().unwrap());
        assert_eq!(slow.rate(None).unwrap().to_string(), "1xSDR");
        assert_eq!(slow.best_rate(&port("4xHDR")).unwrap().to_string(), "4xHDR");
    }

    #[test]
    fn what_is_turned_off_counts_for_nothing() {
        let mut one = port("4xHDR");
        one.speed_ext_enabled = LinkSpeedsExt(30);
        assert_eq!(one.best_rate(&port("4xHDR")).unwrap().to_string(), "4xQDR");
        one.width_enabled = LinkWidths::X1;
        assert_eq!(one.best_rate(&port("4xHDR")).unwrap().to_string(), "1xQDR");
        assert_eq!(one.best_rate(&PortInfo::default()), None);
    }
}
