//! What the user may do, and what this is.

use maud::html;

use super::text::inline;
use super::view::{View, part};
use super::{Answer, layout};
use crate::failure::Failure;
use crate::fleet::Whoami;

/// Shows the page.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>) -> Result<Answer, Failure> {
    let known = part(view.fleet.whoami().await, |whoami| shown(view, &whoami))?;
    let body = html! {
        (layout::headline(&html! { "Access" }, &html! {}))
        (known)
        section.card {
            header { h2 { "About" } }
            div.body { dl.facts {
                dt { "Saltern" } dd { (env!("CARGO_PKG_VERSION")) }
                dt { "Keyboard" } dd { kbd { "?" } " lists the shortcuts" }
                dt { "API" } dd { "on this port, at " code { (view.api.options.prefix) "/" } }
            } }
        }
    };
    Ok(layout::framed(&view.frame("Access", "/access"), &body).into())
}

fn shown(view: &View<'_>, whoami: &Whoami) -> maud::Markup {
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
