//! Bits on the wire, counted one way.
//!
//! Bit 0 is the most significant bit of byte 0; bit `n` is bit `7 - n % 8` of byte `n / 8`: the order in
//! which the bits leave the port. The specification counts attribute fields this way (IBA 14.2.5), but in
//! its MAD header figures (IBA 13.4.2) it counts within each 32-bit word from the least significant bit:
//! what it calls bits 31-24 of word 0 are bits 0-7 here.

/// Where a field lies: its first bit, its width, and for arrays the distance from one element to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first (most significant) bit.
    pub offset: usize,
    /// The number of bits of the field, or of one element.
    pub width: usize,
    /// From the first bit of an element to the first bit of the next.
    pub step: usize,
}

impl Place {
    /// A field, or an array whose elements touch.
    pub const fn new(offset: usize, width: usize) -> Self {
        Self { offset, width, step: width }
    }

    /// The same array with room between its elements.
    pub const fn step(self, step: usize) -> Self {
        Self { step, ..self }
    }

    /// The place of element `index`.
    #[inline(always)]
    pub const fn element(self, index: usize) -> Self {
        Self { offset: self.offset + index * self.step, ..self }
    }

    /// The first byte, of a field that is whole bytes.
    #[inline(always)]
    pub(crate) const fn byte(self) -> usize {
        debug_assert!(self.offset.is_multiple_of(8));
        self.offset / 8
    }
}

/// Reads at most 64 bits within eight bytes; what lies beyond `data` reads as 0.
///
/// `offset` and `width` are constants wherever this is called on the hot path, so that after inlining a
/// load, a shift and a mask are left.
#[inline(always)]
pub(crate) fn get(data: &[u8], place: Place) -> u64 {
    let (first, end) = (place.offset / 8, place.offset + place.width);
    let last = (end - 1) / 8;
    let mut bits = 0;
    let mut i = first;
    while i <= last {
        bits = bits << 8 | u64::from(if i < data.len() { data[i] } else { 0 });
        i += 1;
    }
    (bits >> (7 - (end - 1) % 8)) & mask(place.width)
}

/// Writes the low `width` bits of `value` and leaves every other bit as it is.
#[inline(always)]
pub(crate) fn set(data: &mut [u8], place: Place, value: u64) {
    let (first, end) = (place.offset / 8, place.offset + place.width);
    let last = (end - 1) / 8;
    let shift = 7 - (end - 1) % 8;
    let (mut value, mut keep) =
        ((value & mask(place.width)) << shift, !(mask(place.width) << shift));
    let mut i = last + 1;
    while i > first {
        i -= 1;
        if i < data.len() {
            data[i] = data[i] & keep as u8 | value as u8;
        }
        value >>= 8;
        keep >>= 8;
    }
}

#[inline(always)]
const fn mask(width: usize) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_top_of_the_first_byte() {
        let data = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0];
        assert_eq!(get(&data, Place::new(0, 4)), 0x1);
        assert_eq!(get(&data, Place::new(4, 8)), 0x23);
        assert_eq!(get(&data, Place::new(12, 20)), 0x45678);
        assert_eq!(get(&data, Place::new(0, 64)), 0x1234_5678_9abc_def0);
        assert_eq!(get(&data, Place::new(63, 1)), 0);
        assert_eq!(get(&data, Place::new(4, 4).step(16).element(2)), 0xa);
    }

    #[test]
    fn a_write_touches_its_own_bits_only() {
        for offset in 0..64 {
            for width in 1..=64 - offset {
                let place = Place::new(offset, width);
                let mut data = [0xa5; 8];
                set(&mut data, place, 0);
                assert_eq!(get(&data, place), 0);
                let others =
                    u64::from_be_bytes([0xa5; 8]) & !(mask(width) << (64 - offset - width));
                assert_eq!(u64::from_be_bytes(data), others);
                set(&mut data, place, u64::MAX);
                assert_eq!(get(&data, place), mask(width));
            }
        }
    }

    #[test]
    fn beyond_the_data_there_are_zeros() {
        let mut data = [0xff; 2];
        assert_eq!(get(&data, Place::new(8, 16)), 0xff00);
        set(&mut data, Place::new(8, 16), 0x1234);
        assert_eq!(data, [0xff, 0x12]);
    }
}
