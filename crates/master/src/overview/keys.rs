//! Pages of keys with their fingerprints.

use crypto::{HashType, pem_finger};
use keys::Bank;
use value::{Map, map};
use wire::MinionId;

use super::question::KeyFilter;
use super::{Refused, page as in_page};
use crate::Shared;

const BANKS: [(Bank, &str); 4] =
    [(Bank::Accepted, "accepted"), (Bank::Denied, "denied"), (Bank::Pending, "pending"), (Bank::Rejected, "rejected")];

/// Returns a page of keys, in the order of ids. An id can have a denied key beside another one.
///
/// # Errors
/// When the keys cannot be read.
pub fn page(shared: &Shared, filter: &KeyFilter) -> Result<Map, Refused> {
    let store = &shared.stores.keys;
    let listing = store.list().map_err(|error| Refused::unreadable(&error))?;
    let wanted = |state: &str| filter.state.as_deref().is_none_or(|wanted| wanted == state);
    let mut all: Vec<(&MinionId, &str, Bank)> = BANKS
        .into_iter()
        .filter(|(_, state)| wanted(state))
        .flat_map(|(bank, state)| listing.ids(bank).iter().map(move |id| (id, state, bank)))
        .filter(|(id, ..)| filter.id.as_deref().is_none_or(|wanted| wanted == id.as_str()))
        .filter(|(id, ..)| filter.q.as_deref().is_none_or(|part| id.as_str().contains(part)))
        .filter(|(id, state, _)| filter.after.as_deref().is_none_or(|after| cursor(id, state).as_str() > after))
        .collect();
    all.sort_unstable_by_key(|(id, state, _)| cursor(id, state));
    let more = all.len() > filter.limit;
    all.truncate(filter.limit);
    let next = all.last().filter(|_| more).map(|(id, state, _)| cursor(id, state));
    let hash = shared.stores.config.keys.hash_type.parse().unwrap_or(HashType::Sha256);
    let row = |(id, state, bank): (&MinionId, &str, Bank)| -> Map {
        let text = store.store().read(bank, id).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        });
        let fingerprint = text.map(|text| pem_finger(text.as_bytes(), hash));
        map! { "id" => id.as_str(), "state" => state, "fingerprint" => fingerprint }
    };
    Ok(in_page(all.into_iter().map(row).collect(), next))
}

/// Returns the cursor of a key. No id has a slash.
fn cursor(id: &MinionId, state: &str) -> String {
    format!("{id}/{state}")
}
