//! Minions: search, a target as filter, pages by cursor.

use maud::{Markup, html};

use super::form::{Fields, packed};
use super::text::{self, brief, inline};
use super::view::{View, part};
use super::{Answer, layout};
use crate::failure::Failure;
use crate::fleet::{Highstate, MinionQuery, MinionRow, Page, Status};

/// The number of minions of a page.
const ROWS: usize = 200;

/// The tabs.
const TABS: [(&str, &str); 4] = [("", "All"), ("up", "Connected"), ("down", "Away"), ("pending", "Pending key")];

/// Shows a page of minions.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>, fields: &Fields) -> Result<Answer, Failure> {
    let text = |name| fields.get(name).map(str::to_owned);
    let status = fields.get("status").filter(|status| TABS.iter().any(|(known, _)| known == status));
    let query = MinionQuery {
        limit: ROWS,
        after: text("after"),
        q: text("q"),
        id: None,
        target: text("target"),
        status: status.map(str::to_owned),
        reverse: false,
    };
    let mut frame = view.frame_of_set("Minions", "/minions").await?;
    frame.live = "salt/auth salt/key salt/presence/ salt/minion/ saltern/member/".to_owned();
    let body = part(view.fleet.minions(&query).await, |page| listed(view, fields, &page))?;
    let keep = |status: &str| {
        packed([
            ("status", status),
            ("q", fields.get("q").unwrap_or_default()),
            ("target", fields.get("target").unwrap_or_default()),
        ])
    };
    let body = html! {
        (layout::headline(&html! { "Minions" }, &html! {
            form.line method="get" role="search" {
                input type="hidden" name="status" value=(status.unwrap_or_default());
                input type="search" name="q" placeholder="Part of an id" aria-label="Part of an id" value=(fields.get("q").unwrap_or_default());
                input type="search" name="target" placeholder="Target: G@os:Debian and web*" aria-label="Compound target"
                    value=(fields.get("target").unwrap_or_default()) size="28";
                button { "Filter" }
            }
        }))
        nav.tabs aria-label="States of minions" {
            @for (state, title) in TABS {
                a href={ (view.base) "/minions?" (keep(state)) } aria-current=[(state == status.unwrap_or_default()).then_some("page")] { (title) }
            }
        }
        (body)
    };
    Ok(layout::framed(&frame, &body).into())
}

fn listed(view: &View<'_>, fields: &Fields, page: &Page<MinionRow>) -> Markup {
    if page.items.is_empty() && page.next.is_none() {
        return html! { div.card id="minions" data-part { div.empty { "No minion matches." } } };
    }
    let target = fields.get("target").map(str::to_owned).or_else(|| fields.get("q").map(|part| format!("*{part}*")));
    let several = page.items.iter().any(|row| !row.masters.is_empty());
    html! {
        div.card id="minions" data-part {
            div.scroll { table {
                thead { tr {
                    th { "Minion" } th { "State" } @if several { th { "Masters" } }
                    th.wide-only { "Version" } th.wide-only { "System" } th { "Last highstate" } th.wide-only { "Seen" }
                } }
                tbody { @for row in &page.items { (one(view, several, row)) } }
            } }
            div.pages {
                span.where { (text::count(page.items.len())) @if page.items.len() == 1 { " minion" } @else { " minions" }
                    @if page.next.is_some() || fields.get("after").is_some() { " on this page" } }
                @if let Some(target) = &target {
                    a.button href={ (view.base) "/run?" (packed([("tgt", target.as_str()), ("tgt_type", "compound")])) } { "Run on these" }
                }
                @if fields.get("after").is_some() { a.button href={ (view.base) "/minions?" (fields.with("after", None)) } { "First page" } }
                @if let Some(next) = &page.next { a.button href={ (view.base) "/minions?" (fields.with("after", Some(next))) } { "Next" } }
            }
        }
    }
}

fn one(view: &View<'_>, several: bool, row: &MinionRow) -> Markup {
    html! {
        tr {
            th { a href=(view.minion(&row.id)) { (inline(&row.id)) } }
            td { (status(row.status)) }
            @if several { td { (brief(&row.masters.join(", "), 80)) } }
            td.wide-only { @if let Some(version) = &row.version { (brief(version, 24)) } }
            td.wide-only { @if let Some(os) = &row.os { (brief(os, 32)) } }
            td { @if let Some(highstate) = &row.highstate { (last(view, highstate)) } }
            td.wide-only { @if let Some(time) = row.last_seen.as_ref().filter(|_| row.status != Status::Up) { (view.ago(time)) } }
        }
    }
}

/// Shows the state of a minion.
pub fn status(status: Status) -> Markup {
    match status {
        Status::Up => layout::tag("ok", "up"),
        Status::Down => layout::tag("bad", "away"),
        Status::Pending => layout::tag("warn", "pending key"),
        Status::Rejected => layout::tag("bad", "rejected"),
        Status::Denied => layout::tag("bad", "denied"),
    }
}

/// Shows the last highstate of a minion.
pub fn last(view: &View<'_>, highstate: &Highstate) -> Markup {
    let (failed, changed) = (highstate.failed, highstate.changed);
    html! {
        a href={ (view.base) "/highstate/" (text::in_path(&highstate.jid)) } { (view.ago(&highstate.time)) } " "
        @if failed > 0 { (layout::tag("bad", &format!("{failed} failed"))) }
        @else if changed > 0 { (layout::tag("info", &format!("{changed} changed"))) }
        @else { (layout::tag("ok", &format!("{} ok", highstate.total))) }
    }
}
