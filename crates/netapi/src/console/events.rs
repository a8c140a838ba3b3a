//! The events of the master, live.

use maud::html;

use super::view::View;
use super::{Answer, layout};
use crate::failure::Failure;

/// Shows the page. The script fills it.
///
/// # Errors
/// When the master does not answer.
pub async fn show(view: &View<'_>) -> Result<Answer, Failure> {
    // Without the master there is no stream.
    view.api.link.bus.ready().await?;
    let all = view.api.sees_all_events(&view.caller.session);
    let body = html! {
        (layout::headline(&html! { "Events" }, &html! {
            div.line {
                input.js id="filter" type="search" placeholder="Tag: salt/job/*" aria-label="Filter by tag" size="26";
                button.js id="pause" type="button" { "Pause" }
                button.js id="clear" type="button" { "Clear" }
            }
        }))
        @if !all { div.notice { "You see the events of jobs that you have started here. The entry " code { "@events" } " in external_auth shows those of everybody." } }
        section.card {
            div.empty id="silence" { "Events appear here as they happen." noscript { " This page needs JavaScript; " code { "salt-run state.event pretty=True" } " shows the same." } }
            ol.events id="events" aria-label="Events, the latest first" {}
        }
    };
    Ok(layout::framed(&view.frame("Events", "/events"), &body).into())
}
