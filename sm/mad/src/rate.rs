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

    /// Shows `rate` as negotiated, and that and everything slower as supported and enabled: what an agent
    /// answers for a port whose link runs at it. FDR10 shows as QDR; see [`VendorPortInfo::set_rate`].
    pub fn set_rate(&mut self, rate: LinkRate) {
        let lanes = rate.width.lanes();
        let width = WIDTHS.iter().find(|(_, l)| *l == lanes).map_or(LinkWidths(0), |(bit, _)| *bit);
        self.width_active = width;
        self.width_supported = width.with(LinkWidths::X1);
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
        let [base, ext, ext2, _] = active(rate.speed);
        self.speed_active = LinkSpeeds(base);
        self.speed_ext_active = LinkSpeedsExt(ext);
        self.speed_ext2_active = LinkSpeedsExt2(ext2);
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
