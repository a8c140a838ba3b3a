//! `saltern_status`: programs on this host request the master's metrics.

use value::map;

use super::{Answer, MasterRequest, held};

/// Answers users with all permissions with the metrics.
pub fn handle(ask: MasterRequest) -> Answer {
    match held::admit(ask) {
        Ok((shared, _)) => map! { "status" => crate::exporter::status(&shared) }.into(),
        Err(refused) => refused.into(),
    }
}
