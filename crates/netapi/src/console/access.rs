//! What the user may do, and what this is.

use maud::html;

use super::text::inline;
use super::view::{View, part};
use super::{Answer, drift, layout};
use crate::failure::Failure;
use crate::fleet::Whoami;

/// Shows the page.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>) -> Result<Answer, Failure> {
    let frame = view.frame_of_set("Access", "/access").await?;
    let known = part(view.fleet.whoami().await, |whoami| whoami_cards(view, &whoami))?;
    // A master alone, and users without the right to see the others, have nothing to compare.
    let compared = match frame.masters.is_empty() {
        true => None,
        false => Some(part(view.fleet.drift(Some("acl")).await, |found| drift::differences(&found))?),
    };
    let body = html! {
        (layout::headline(&html! { "Access" }, &html! {}))
        (known)
        @if let Some(compared) = compared {
            section.card id="drift" {
                header { h2 { "Access control on the masters" } span.more.muted { "external_auth, publisher_acl, peer, nodegroups" } }
                (compared)
            }
            br;
        }
        section.card {
            header { h2 { "About" } }
            div.body { dl.facts {
                dt { "Saltern" } dd { (env!("CARGO_PKG_VERSION")) }
                dt { "Keyboard" } dd { kbd { "?" } " lists the shortcuts" }
                dt { "API" } dd { "on this port, at " code { (view.api.options.prefix) "/" } }
            } }
        }
    };
    Ok(layout::framed(&frame, &body).into())
}

fn whoami_cards(view: &View<'_>, whoami: &Whoami) -> maud::Markup {
    html! {
        div.grid {
            section.card.third {
                header { h2 { "You" } }
                div.body { dl.facts {
                    dt { "User" } dd { (inline(&whoami.user)) }
                    dt { "Backend" } dd { (inline(&whoami.eauth)) }
                    @if !whoami.groups.is_empty() { dt { "Groups" } dd { (inline(&whoami.groups.join(", "))) } }
                    dt { "Session ends" } dd { (view.when(&whoami.expires)) }
                    dt { "Events" } dd { @if whoami.all_events { "of everybody" } @else { "of your own jobs" } }
                } }
            }
            section.card.two {
                header { h2 { "What external_auth grants you" } }
                @if whoami.grants.is_empty() { div.empty { "Nothing." } }
                div.scroll { table {
                    thead { tr { th { "Means" } th { "Entry" } } }
                    tbody { @for grant in &whoami.grants { tr { td { (inline(&grant.text)) } td { code { (inline(&grant.entry.to_string())) } } } } }
                } }
            }
        }
        br;
    }
}
