//! Making a proven connection part of a link.

use std::sync::Arc;

use crate::connection;
use crate::hub::{Hub, Offer};
use crate::met::Met;
use peers::failed::Failed;
use peers::kind::Frame;
use peers::status::PeerInfo;

/// Makes a proven connection part of the link, if both members agree.
pub(crate) async fn welcome(hub: &Arc<Hub>, mut met: Met) -> Result<(), Failed> {
    let (node, lane, dialled) = (met.node, met.hello.lane, met.dialled);
    let decides = hub.node < node;
    let (decisions, report) = (hub.members.decisions(), hub.members.self_report(node));
    if !decides {
        met.send(&Frame::Welcome { number: 0, decisions: decisions.clone(), report }).await?;
    }
    let Frame::Welcome { number, decisions: theirs, report: their_report } = met.receive().await? else {
        return Err(Failed::Unexpected("frame before welcome"));
    };
    hub.members.learn(node, theirs);
    let info = PeerInfo { report: Some(their_report), ..met.hello.info() };
    let (boot, lost, address) = (met.hello.boot, met.hello.lost, met.address);
    let offer = Offer { node, lane, dialled, boot, lost, address, info };
    let refused = hub.join(offer, number, met, |(id, number), link, met| {
        let first = decides.then_some(Frame::Welcome { number, decisions, report });
        hub.rt.spawn(connection::run(hub.clone(), link, (id, lane), met, first)).abort_handle()
    });
    match refused {
        None => Ok(()),
        Some(mut met) => {
            met.send(&Frame::Bye(Failed::Linked.to_string())).await?;
            Err(Failed::Linked)
        }
    }
}
