//! What carries messages to the other members: links between masters, or a bus (`cluster_bus`).

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use crypto::MemberKey;
use links::Links;
use peers::members::Members;
use peers::status::{LinkStatus, WaitingMember};
use peers::target::Target;
use rt::Rt;
use share::{Carrier, Incoming, Lane, Node, SendResult, To};

use super::settings::Settings;
use crate::Error;

/// The carrier of one member.
pub enum SetCarrier {
    /// TLS from master to master.
    Links(Links),
    /// NATS.
    Bus(Bus),
}

/// What the carrier reports.
pub enum Reports {
    /// Those of links.
    Links(links::Reports),
    /// Those of a bus.
    Bus(bus::Reports),
}

/// The servers of the bus, for people.
pub struct BusServers<'a> {
    /// Their addresses.
    pub servers: &'a str,
    /// Why none of them has let this master in, `None` if one has.
    pub problem: Option<String>,
}

impl SetCarrier {
    /// Starts the carrier that the options ask for.
    ///
    /// # Errors
    /// When the port for other masters cannot be listened on, or when a file that the options of the bus name cannot be used.
    pub async fn start(
        rt: Rt,
        settings: &Settings,
        key: MemberKey,
        members: Arc<dyn Members>,
    ) -> Result<(SetCarrier, Reports), Error> {
        match &settings.bus {
            Some(servers) => {
                let started = Bus::start(rt, servers, settings.on_bus(key, servers), members).await;
                let (bus, reports) = started.map_err(|error| Error::NotSharing(crate::chain(&error)))?;
                Ok((SetCarrier::Bus(bus), Reports::Bus(reports)))
            }
            None => {
                let (links, reports) = Links::start(rt, settings.links(key), members).await.map_err(not_linked)?;
                Ok((SetCarrier::Links(links), Reports::Links(reports)))
            }
        }
    }

    /// Sets the addresses that are dialled. On a bus nobody is.
    pub fn set_addresses(&self, targets: &[Target]) {
        if let SetCarrier::Links(links) = self {
            links.set_addresses(targets);
        }
    }

    /// Ends links with nodes that were removed from the set, and tries again at once whoever was refused before.
    pub fn members_changed(&self) {
        match self {
            SetCarrier::Links(links) => links.members_changed(),
            SetCarrier::Bus(bus) => bus.members_changed(),
        }
    }

    /// Returns what is known of all other members.
    pub fn status(&self) -> Vec<LinkStatus> {
        match self {
            SetCarrier::Links(links) => links.status(),
            SetCarrier::Bus(bus) => bus.status(),
        }
    }

    /// Returns the newcomers that wait until a person accepts them.
    pub fn waiting(&self) -> Vec<WaitingMember> {
        match self {
            SetCarrier::Links(links) => links.waiting(),
            SetCarrier::Bus(bus) => bus.waiting(),
        }
    }

    /// Returns this member's clock that never jumps, in milliseconds.
    pub fn steady(&self) -> u64 {
        match self {
            SetCarrier::Links(links) => links.steady(),
            SetCarrier::Bus(bus) => bus.steady(),
        }
    }

    /// Returns how long ago a linked member sent something at a time of its clock that never jumps.
    pub fn age(&self, node: Node, sent: u64) -> Option<Duration> {
        match self {
            SetCarrier::Links(links) => links.age(node, sent),
            SetCarrier::Bus(bus) => bus.age(node, sent),
        }
    }

    /// Returns how many bytes wait to be sent to a linked member in a lane.
    pub fn queued(&self, node: Node, lane: Lane) -> usize {
        match self {
            SetCarrier::Links(links) => links.queued(node, lane),
            SetCarrier::Bus(bus) => bus.queued(node, lane),
        }
    }

    /// Returns the servers of the bus, if there is one.
    pub fn bus(&self) -> Option<BusServers<'_>> {
        match self {
            SetCarrier::Links(_) => None,
            SetCarrier::Bus(bus) => Some(BusServers { servers: bus.servers(), problem: bus.problem() }),
        }
    }

    /// Says goodbye to all members, and ends.
    pub async fn stop(&self) {
        match self {
            SetCarrier::Links(links) => links.stop().await,
            SetCarrier::Bus(bus) => bus.stop().await,
        }
    }
}

impl Carrier for SetCarrier {
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult {
        match self {
            SetCarrier::Links(links) => links.send(to, lane, message),
            SetCarrier::Bus(bus) => bus.send(to, lane, message),
        }
    }
}

impl Reports {
    /// Waits for the next report.
    pub async fn next(&mut self) -> Incoming {
        match self {
            Reports::Links(reports) => reports.next().await,
            Reports::Bus(reports) => reports.next().await,
        }
    }
}

fn not_linked(error: links::StartError) -> Error {
    match error {
        links::StartError::Listen(address, source) => {
            Error::Listen { address, purpose: "links with other masters", option: "cluster_pool_port", source }
        }
        other => Error::NotSharing(crate::chain(&other)),
    }
}
