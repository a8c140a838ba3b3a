//! The events of the master: the latest, and live with JavaScript.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value as Json;

use super::text::{self, brief, inline};
use super::view::View;
use super::{Answer, layout};
use crate::failure::Failure;
use crate::own_jobs::{Owner, Whose};
use crate::ring::Item;
use crate::rows;

/// The number of events that are shown, and of those that are looked at for them.
const SHOWN: usize = 50;
const LOOKED_AT: usize = 2000;

/// The largest data of an event that are shown, in bytes.
const MOST_DATA: usize = 8 << 10;

/// The fields that say what an event is about.
const GIST: [&str; 6] = ["id", "fun", "tgt", "act", "success", "retcode"];

/// Shows the page.
///
/// # Errors
/// When the master does not answer.
pub async fn show(view: &View<'_>) -> Result<Answer, Failure> {
    // Without the master there is no stream.
    view.api.link.bus.ready().await?;
    let session = &view.caller.session;
    let all = view.api.sees_all_events(session);
    let owner = Owner { user: session.user.clone(), backend: session.backend.clone() };
    let own = |item: &Item| item.jid().is_some_and(|jid| view.api.link.own_jobs.whose(jid, &owner) == Whose::Own);
    let ring = &view.api.link.bus.ring;
    // From now on events are kept for who comes again.
    ring.begin();
    let latest = ring.latest(LOOKED_AT).into_iter().filter(|(_, item)| all || own(item)).take(SHOWN);
    let rows: Vec<Markup> = latest.map(|(age, item)| row(view, age, &item)).collect();
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
            noscript { div.body { "These are the latest events. Load the page again for newer ones; " code { "salt-run state.event pretty=True" } " shows them as they happen." } }
            @if rows.is_empty() { div.empty id="silence" { "Events appear here as they happen." } }
            ol.events id="events" aria-label="Events, the latest first" { @for row in rows { (row) } }
        }
    };
    Ok(layout::framed(&view.frame_of_set("Events", "/events").await?, &body).into())
}

fn row(view: &View<'_>, age: Duration, item: &Item) -> Markup {
    // It was packed here.
    let packed: Json = serde_json::from_str(&item.data).unwrap_or_default();
    let data = packed.get("data").unwrap_or(&Json::Null);
    let came = view.now().checked_sub(age).map(rows::time).unwrap_or_default();
    let pretty = serde_json::to_string_pretty(data).unwrap_or_default();
    html! {
        li data-tag=(text::attribute(&item.tag)) {
            details {
                summary {
                    (view.when(&came))
                    code { (brief(&item.tag, 300)) }
                    span.gist.wide-only { (brief(&gist(data), 200)) }
                }
                pre.out tabindex="0" { (inline_lines(&pretty[..pretty.floor_char_boundary(MOST_DATA)])) @if pretty.len() > MOST_DATA { "\n… cut" } }
            }
        }
    }
}

fn inline_lines(text: &str) -> Markup {
    html! { @for (number, line) in text.lines().enumerate() { @if number > 0 { "\n" } (inline(line)) } }
}

/// Returns what an event is about, in short.
fn gist(data: &Json) -> String {
    let field = |name: &&str| Some(format!("{name}={}", data.get(name)?));
    GIST.iter().filter_map(field).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_in_short() {
        let data = json!({"id": "web1", "fun": "test.ping", "_stamp": "2026-11-26T16:05:11", "retcode": 0});
        assert_eq!(gist(&data), r#"id="web1" fun="test.ping" retcode=0"#);
        assert_eq!(gist(&Json::Null), "");
        assert_eq!(inline_lines("<b>\n\u{202e}").0, "&lt;b&gt;\n<span class=\"ctl\">\\u202e</span>");
    }
}
