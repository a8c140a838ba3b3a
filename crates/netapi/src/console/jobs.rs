//! Jobs: the latest first, filters, pages by cursor.

use maud::html;

use super::form::{Fields, packed};
use super::text;
use super::view::{View, part};
use super::{Answer, layout, overview};
use crate::failure::Failure;
use crate::fleet::JobQuery;

/// The number of jobs of a page.
const ROWS: usize = 50;

/// The tabs.
const TABS: [(&str, &str); 4] = [("", "All"), ("running", "Running"), ("failed", "Failed or silent"), ("done", "Done")];

/// Shows a page of jobs.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>, fields: &Fields) -> Result<Answer, Failure> {
    let text = |name| fields.get(name).map(str::to_owned);
    let state = fields.get("state").filter(|state| TABS.iter().any(|(known, _)| known == state));
    let query = JobQuery {
        limit: ROWS,
        before: text("before").filter(|cursor| wire::Jid::is_valid(cursor)),
        fun: text("fun"),
        tgt: text("tgt"),
        user: text("user"),
        minion: text("minion"),
        since: text("since"),
        until: None,
        state: state.map(str::to_owned),
    };
    let mut frame = view.frame_of_set("Jobs", "/jobs").await?;
    if fields.get("before").is_none() {
        frame.live = "salt/job/*/new salt/job/*/ret/".to_owned();
    }
    // A filter for the function says itself which are meant.
    let all = fields.get("runners").is_some() || query.fun.is_some();
    let listed = part(view.fleet.jobs(&query).await, |page| {
        let found = page.items.len();
        let page = if all { page } else { overview::minions_only(page) };
        let hidden = found - page.items.len();
        html! {
            div.card id="jobs" data-part {
                (overview::jobs_table(view, &page.items))
                div.pages {
                    span.where { (text::count(page.items.len())) @if page.items.len() == 1 { " job" } @else { " jobs" } " on this page"
                        @if hidden > 0 { ", and " (text::count(hidden)) " of runners and wheel functions " a href={ (view.base) "/jobs?" (fields.with("runners", Some("1"))) } { "Show" } }
                        @else if fields.get("runners").is_some() { " " a href={ (view.base) "/jobs?" (fields.with("runners", None)) } { "Hide runners" } }
                    }
                    @if fields.get("before").is_some() { a.button href={ (view.base) "/jobs?" (fields.with("before", None)) } { "Latest" } }
                    @if let Some(next) = &page.next { a.button href={ (view.base) "/jobs?" (fields.with("before", Some(next))) } { "Older" } }
                }
            }
        }
    })?;
    let kept: Vec<(&str, &str)> = ["fun", "tgt", "user", "minion", "since", "runners"]
        .into_iter()
        .filter_map(|name| Some((name, fields.get(name)?)))
        .collect();
    let body = html! {
        (layout::headline(&html! { "Jobs" }, &html! {
            form.line method="get" role="search" {
                input type="hidden" name="state" value=(state.unwrap_or_default());
                input type="hidden" name="runners" value=(fields.get("runners").unwrap_or_default());
                input type="search" name="fun" placeholder="Function: state.*" aria-label="Function" size="16" value=(fields.get("fun").unwrap_or_default());
                input type="search" name="minion" placeholder="Minion" aria-label="Minion" size="12" value=(fields.get("minion").unwrap_or_default());
                input type="search" name="user" placeholder="User" aria-label="User" size="10" value=(fields.get("user").unwrap_or_default());
                input type="search" name="since" placeholder="Since: 2h" aria-label="Since" size="9" value=(fields.get("since").unwrap_or_default());
                button { "Filter" }
            }
        }))
        nav.tabs aria-label="States of jobs" {
            @for (name, title) in TABS {
                a href={ (view.base) "/jobs?" (packed(kept.iter().copied().chain([("state", name)]))) }
                    aria-current=[(name == state.unwrap_or_default()).then_some("page")] { (title) }
            }
        }
        (listed)
    };
    Ok(layout::framed(&frame, &body).into())
}
