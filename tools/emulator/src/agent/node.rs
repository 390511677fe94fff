//! Attributes of a node: NodeDescription, NodeInfo, Notice, LedInfo, VendorDiag.

use snin_fabric::{NodeKind, PortIndex, PortNum};
use snin_mad::{
    Attribute, LedInfo, NodeDescription, NodeInfo, NodeType, Notice, Status, VendorDiag,
};
use snin_mad::{Hex16, Hex32};

use super::{Outcome, Request};
use crate::fabric::Fabric;

impl Fabric {
    /// IBA 14.2.5.2. Only an operator at the node itself renames it.
    pub(super) fn node_description(&self, request: &mut Request<'_>) -> Outcome {
        request.only_get()?;
        request.only_one()?;
        let node = &self.nodes[request.node as usize];
        if !node.application {
            return Err(Status::BAD_METHOD_ATTRIBUTE);
        }
        let text = node.description;
        request.mad.put(&NodeDescription { text });
        Ok(())
    }

    /// IBA 14.2.5.3.
    pub(super) fn node_info(&self, request: &mut Request<'_>) -> Outcome {
        request.only_get()?;
        request.only_one()?;
        let info = self.node_info_at(PortIndex(request.end), PortIndex(request.by));
        request.mad.put(&info);
        Ok(())
    }

    /// NodeInfo of a node that is managed by `end`, as it is answered by way of port `by`.
    pub fn node_info_at(&self, end: PortIndex, by: PortIndex) -> NodeInfo {
        let node = self.node_of(end.0);
        let node_type = match node.kind {
            NodeKind::Switch => NodeType::Switch,
            NodeKind::Adapter => NodeType::ChannelAdapter,
            NodeKind::Router => NodeType::Router,
        };
        let end = &self.ports[end.index()];
        NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type,
            num_ports: node.ports,
            system_image_guid: node.system_image,
            node_guid: node.guid,
            port_guid: if node.is_switch() { node.guid } else { end.guid },
            partition_cap: node.partition_cap,
            device_id: Hex16(node.device as u16),
            revision: Hex32(0),
            local_port: PortNum(self.ports[by.index()].num),
            vendor_id: Hex32(node.vendor & 0xff_ffff),
        }
    }

    /// IBA 13.4.8.2, 13.4.10.
    pub(super) fn notice(&mut self, request: &mut Request<'_>) -> Outcome {
        request.only_one()?;
        if request.set {
            let toggle = Notice::view(Notice::data(&request.mad.0)).toggle();
            self.clear_notice(request.end, toggle);
        }
        request.mad.put(&self.first_notice(request.end));
        Ok(())
    }

    /// IBA 14.2.5.15.
    pub(super) fn led_info(&mut self, request: &mut Request<'_>) -> Outcome {
        let node = &mut self.nodes[request.node as usize];
        if request.modifier > node.ports.into() {
            return Err(Status::BAD_VALUE);
        }
        if request.set {
            node.led = LedInfo::view(LedInfo::data(&request.mad.0)).led();
        }
        request.mad.put(&LedInfo { led: node.led });
        Ok(())
    }

    /// IBA 14.2.5.14: one page, nothing wrong.
    pub(super) fn vendor_diag(&self, request: &mut Request<'_>) -> Outcome {
        request.only_get()?;
        request.only_one()?;
        request.mad.put(&VendorDiag::default());
        Ok(())
    }
}
