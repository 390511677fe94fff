//! Components: the fields of a record that a request can ask for, a bit of its mask each (IBA 15.2.5).

use crate::bits::{self, Place};
use crate::sa::ComponentMask;
use crate::table::{Field, Layout, Table};

/// One bit of a component mask.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Which bit, 0 the least significant.
    pub bit: u8,
    /// The field.
    pub name: &'static str,
    /// Where it lies in the record.
    pub place: Place,
}

impl Component {
    /// Whether `mask` asks for it.
    pub const fn is_in(&self, mask: ComponentMask) -> bool {
        mask.0 >> self.bit & 1 != 0
    }

    /// Whether two records agree in it.
    pub fn agrees(&self, a: &[u8], b: &[u8]) -> bool {
        let Place { offset, width, .. } = self.place;
        if width <= 64 {
            return bits::get(a, self.place) == bits::get(b, self.place);
        }
        let range = offset / 8..(offset + width) / 8;
        match (a.get(range.clone()), b.get(range)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }
}

/// Whether `record` has the values of `wanted` in every component of `mask`. Bits without a component mean
/// nothing.
pub fn matches(
    components: &[Component],
    mask: ComponentMask,
    wanted: &[u8],
    record: &[u8],
) -> bool {
    mask.0 == 0
        || components
            .iter()
            .all(|component| !component.is_in(mask) || component.agrees(wanted, record))
}

/// A field of a record, by its name. Fails to compile where there is no such field.
pub(super) const fn field<R: Table>(bit: u8, name: &'static str) -> Component {
    Component { bit, name, place: find(R::LAYOUT, name).place.element(0) }
}

/// The `index`-th element of a record's array.
pub(super) const fn element<R: Table>(bit: u8, name: &'static str, index: usize) -> Component {
    Component { bit, name, place: find(R::LAYOUT, name).place.element(index) }
}

/// A field of the attribute `T`, which is the record's field `outer`.
pub(super) const fn inside<R: Table, T: Table>(
    bit: u8,
    outer: &'static str,
    name: &'static str,
) -> Component {
    let inner = find(T::LAYOUT, name).place;
    let offset = find(R::LAYOUT, outer).place.offset + inner.offset;
    Component { bit, name, place: Place { offset, ..inner } }
}

const fn find(layout: &'static Layout, name: &str) -> &'static Field {
    let mut n = 0;
    while n < layout.fields.len() {
        if same(layout.fields[n].name, name) {
            return &layout.fields[n];
        }
        n += 1;
    }
    panic!("no field has this name")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut n = 0;
    while n < a.len() {
        if a[n] != b[n] {
            return false;
        }
        n += 1;
    }
    true
}
