//! MADs of subnet and performance management: building, answering, taking apart.

use std::fmt;

use serde_json::{Value, json};
use snin_fabric::Lid;

use crate::attribute::{Attribute, Payload, data_at, layout};
use crate::error::{BadField, Error};
use crate::header::{
    AttributeId, Class, Directed, Header, LidRouted, Method, Status, TransactionId,
};
use crate::mad::Mad;
use crate::notice::Notice;
use crate::path::{DrPath, PERMISSIVE, Route};
use crate::sa::SaHeader;
use crate::table::Table;
use crate::wire::{Hex32, MKey, Octets};

/// What is asked, of whom, by whom: all of an SMP but its attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Smp {
    /// What to do, or that it was done.
    pub method: Method,
    /// How it went; zero in requests.
    pub status: Status,
    /// Pairs the answer with the request.
    pub transaction_id: TransactionId,
    /// Which attribute.
    pub attribute: AttributeId,
    /// Which instance of it.
    pub modifier: u32,
    /// The key of the managed port.
    pub m_key: MKey,
    /// Which way.
    pub route: Route,
    /// How far on the directed part it is.
    pub hop_pointer: u8,
    /// On its way back (IBA 14.2.2).
    pub returning: bool,
    /// By which ports it came: the way back. As long as the path; 0 for the hops yet to come.
    pub return_path: DrPath,
}

impl Smp {
    /// Asks for an attribute.
    pub const fn get(attribute: AttributeId, modifier: u32, route: Route) -> Self {
        let return_path = match route {
            Route::Lid => DrPath::HERE,
            Route::Directed { path, .. } => path.blank(),
        };
        Self {
            method: Method::Get,
            status: Status::OK,
            transaction_id: TransactionId(0),
            attribute,
            modifier,
            m_key: MKey(0),
            route,
            hop_pointer: 0,
            returning: false,
            return_path,
        }
    }

    /// Writes an attribute, whose value goes into the MAD with [`Mad::put`].
    pub const fn set(attribute: AttributeId, modifier: u32, route: Route) -> Self {
        Self { method: Method::Set, ..Self::get(attribute, modifier, route) }
    }

    /// Tells a manager that something happened; the [`Notice`] goes into the MAD with [`Mad::put`]. Traps
    /// are routed by LID, to MasterSMLID (IBA 14.2.3).
    pub const fn trap() -> Self {
        Self { method: Method::Trap, ..Self::get(Notice::ID, 0, Route::Lid) }
    }

    /// With this transaction id.
    pub const fn transaction(self, transaction_id: TransactionId) -> Self {
        Self { transaction_id, ..self }
    }

    /// With this key.
    pub const fn m_key(self, m_key: MKey) -> Self {
        Self { m_key, ..self }
    }

    /// The MAD, its attribute all zeros.
    pub fn mad(&self) -> Mad {
        let mut mad = Mad::ZERO;
        self.write(&mut mad.0);
        mad
    }

    /// Writes all of `bytes`, the attribute as zeros.
    pub fn emit(&self, bytes: &mut [u8; 256]) {
        bytes.fill(0);
        self.write(bytes);
    }

    fn write(&self, bytes: &mut [u8; 256]) {
        let class = match self.route {
            Route::Lid => Class::Subnet,
            Route::Directed { .. } => Class::DirectedSubnet,
        };
        Header::edit(bytes)
            .base_version(1)
            .class(class)
            .class_version(1)
            .method(self.method)
            .status(self.status)
            .transaction_id(self.transaction_id)
            .attribute(self.attribute)
            .modifier(Hex32(self.modifier));
        LidRouted::edit(bytes).m_key(self.m_key);
        if let Route::Directed { from, path, to } = self.route {
            Directed::edit(bytes)
                .returning(self.returning)
                .hop_pointer(self.hop_pointer)
                .hop_count(path.hops() as u8)
                .dr_slid(from.unwrap_or(PERMISSIVE))
                .dr_dlid(to.unwrap_or(PERMISSIVE))
                .initial_path(Octets(*path.bytes()))
                .return_path(Octets(*self.return_path.bytes()));
        }
    }

    /// Takes an SMP apart. What is no SMP, or breaks a rule of the headers, is named in the error.
    pub fn parse(bytes: &[u8; 256]) -> Result<Self, Error> {
        let header = Header::parse(bytes)?;
        let smp = Self {
            method: header.method,
            status: header.status,
            transaction_id: header.transaction_id,
            attribute: header.attribute,
            modifier: header.modifier.0,
            m_key: LidRouted::view(bytes).m_key(),
            route: Route::Lid,
            hop_pointer: 0,
            returning: false,
            return_path: DrPath::HERE,
        };
        match header.class {
            Class::Subnet => Ok(smp),
            Class::DirectedSubnet => Ok(smp.along(bytes)?),
            other => Err(BadField {
                table: "MAD",
                field: "MgmtClass",
                value: other.code().into(),
                reason: "neither class of subnet management (IBA 14.2.1)",
            }
            .into()),
        }
    }

    fn along(self, bytes: &[u8; 256]) -> Result<Self, BadField> {
        let directed = Directed::parse(bytes)?;
        let lid = |lid: Lid| if lid == PERMISSIVE { None } else { Some(lid) };
        // `parse` refused paths of more than 63 hops.
        let path = |bytes: Octets<64>| {
            DrPath::from_bytes(&bytes.0, directed.hop_count).unwrap_or(DrPath::HERE)
        };
        Ok(Self {
            status: directed.status,
            route: Route::Directed {
                from: lid(directed.dr_slid),
                path: path(directed.initial_path),
                to: lid(directed.dr_dlid),
            },
            hop_pointer: directed.hop_pointer,
            returning: directed.returning,
            return_path: path(directed.return_path),
            ..self
        })
    }
}

impl Mad {
    /// All zeros: no MAD yet.
    pub const ZERO: Self = Self([0; 256]);

    /// A request of performance management (IBA 16.1).
    pub fn performance(
        method: Method,
        attribute: AttributeId,
        modifier: u32,
        id: TransactionId,
    ) -> Self {
        let mut mad = Self::ZERO;
        Header::edit(&mut mad.0)
            .base_version(1)
            .class(Class::Performance)
            .class_version(1)
            .method(method)
            .transaction_id(id)
            .attribute(attribute)
            .modifier(Hex32(modifier));
        mad
    }

    /// From a buffer of unknown length.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, Error> {
        bytes.try_into().map(Self).map_err(|_| Error::Length(bytes.len()))
    }

    /// The common header, unjudged.
    #[inline(always)]
    pub const fn header(&self) -> crate::View<'_, Header> {
        Header::view(&self.0)
    }

    /// The directed-route header, unjudged; without meaning in other classes.
    #[inline(always)]
    pub const fn directed(&self) -> crate::View<'_, Directed> {
        Directed::view(&self.0)
    }

    /// The status, without the direction bit of directed routes.
    pub fn status(&self) -> Status {
        match self.header().class() {
            Class::DirectedSubnet => self.directed().status(),
            _ => self.header().status(),
        }
    }

    /// The attribute, if the header says it is an `A`.
    #[inline]
    pub fn attribute<A: Attribute>(&self) -> Result<A, Error> {
        let (class, id) = (self.header().class(), self.header().attribute());
        if id != A::ID || !A::belongs_to(class) {
            return Err(Error::OtherAttribute {
                expected: A::LAYOUT.name,
                got: id.0,
                class: class.code(),
            });
        }
        Ok(A::parse(A::data(&self.0))?)
    }

    /// The payload, of the attribute that the header says.
    pub fn payload(&self) -> Result<Payload, Error> {
        Payload::parse(self.header().class(), self.header().attribute(), &self.0)
    }

    /// Writes the attribute's bytes and nothing else: the header must say the same already.
    #[inline]
    pub fn put<A: Attribute>(&mut self, value: &A) {
        value.emit(A::data_mut(&mut self.0));
    }

    /// With the attribute `value`.
    pub fn with<A: Attribute>(mut self, value: &A) -> Self {
        self.put(value);
        self
    }

    /// Makes a request its own answer, in place: the method's response, `status`, and on directed routes
    /// the direction bit (IBA 14.2.2.3). All else stays, the attribute too; put the value before or after.
    /// `false`, and nothing changed, if the method has no answer.
    pub fn answer(&mut self, status: Status) -> bool {
        let Some(method) = self.header().method().response() else {
            return false;
        };
        let class = self.header().class();
        Header::edit(&mut self.0).method(method);
        match class {
            Class::DirectedSubnet => {
                Directed::edit(&mut self.0).status(status).returning(true);
            }
            _ => {
                Header::edit(&mut self.0).status(status);
            }
        }
        true
    }

    /// Everything by the specification's names: headers, then the attribute if its table is known.
    pub fn json(&self) -> Value {
        let class = self.header().class();
        let mut all = json!({ "MAD": self.header().json() });
        match class {
            Class::Subnet => all["SMP"] = LidRouted::view(&self.0).json(),
            Class::DirectedSubnet => all["DRSMP"] = self.directed().json(),
            Class::Administration => {
                all["RMPP"] = self.rmpp().json();
                all["SA"] = SaHeader::view(&self.0).json();
            }
            _ => {}
        }
        if let Some(layout) = layout(class, self.header().attribute()) {
            all[layout.name] = layout.json(&self.0[data_at(class)..]);
        }
        all
    }
}

impl fmt::Display for Mad {
    /// On one line, or with `{:#}` one field a line. Never fails, for any bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.header().class();
        let separator = if f.alternate() { "\n" } else { "; " };
        self.header().fmt(f)?;
        match class {
            Class::Subnet => {
                f.write_str(separator)?;
                LidRouted::view(&self.0).fmt(f)?;
            }
            Class::DirectedSubnet => {
                f.write_str(separator)?;
                self.directed().fmt(f)?;
            }
            Class::Administration => {
                f.write_str(separator)?;
                self.rmpp().fmt(f)?;
                f.write_str(separator)?;
                SaHeader::view(&self.0).fmt(f)?;
            }
            _ => {}
        }
        if let Some(layout) = layout(class, self.header().attribute()) {
            f.write_str(separator)?;
            layout.show(&self.0[data_at(class)..]).fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
