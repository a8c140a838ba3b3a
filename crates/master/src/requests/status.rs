//! `saltern_status`: programs on this host ask how the master is.

use value::map;

use super::{Answer, Ask, held};

/// Tells what the master did and holds, to users who may do everything.
pub fn handle(ask: Ask) -> Answer {
    match held::admit(ask) {
        Ok((shared, _)) => map! { "status" => crate::exporter::status(&shared) }.into(),
        Err(refused) => refused.into(),
    }
}
