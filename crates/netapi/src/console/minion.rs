//! One minion: what is known of it without asking it, and its jobs.

use maud::{Markup, html};
use value::{Map, Value, map};

use super::form::packed;
use super::text::{brief, inline, readable};
use super::view::{View, part};
use super::{Answer, layout, minions, overview};
use crate::failure::Failure;
use crate::fleet::{JobQuery, MinionQuery, MinionRow};

/// The grains that are shown first.
const FIRST: [(&str, &str); 11] = [
    ("osfinger", "System"),
    ("kernelrelease", "Kernel"),
    ("saltversion", "Version"),
    ("fqdn", "Host name"),
    ("ipv4", "IPv4"),
    ("ipv6", "IPv6"),
    ("num_cpus", "Processors"),
    ("cpu_model", "Model"),
    ("mem_total", "Memory, MiB"),
    ("virtual", "Virtual"),
    ("roles", "Roles"),
];

/// The number of jobs that are listed.
const JOBS: usize = 20;

/// Shows the page.
///
/// # Errors
/// When the session has ended, or nobody knows the minion.
pub async fn show(view: &View<'_>, id: &str) -> Result<Answer, Failure> {
    let id = wire::MinionId::new(id).map_err(|_| Failure::bad_request("The path has no valid id of a minion"))?;
    let id = id.as_str();
    let jobs = JobQuery { limit: JOBS, minion: Some(id.to_owned()), ..JobQuery::default() };
    let (mut frame, row, jobs, grains) = tokio::try_join!(
        view.frame_of_set(id, "/minions"),
        find(view, id),
        async { Ok(view.fleet.jobs(&jobs).await) },
        async { Ok(grains(view, id).await) },
    )?;
    frame.live = format!("salt/job/*/ret/{id} salt/minion/{id}/ salt/presence/");
    let row = row.ok_or_else(|| Failure::new(404, format!("No master knows the minion '{id}'")))?;
    let run = |fun: &str| format!("{}/run?{}", view.base, packed([("tgt", id), ("tgt_type", "list"), ("fun", fun)]));
    let body = html! {
        (layout::headline(
            &html! { span.crumb { a href={ (view.base) "/minions" } { "Minions" } } (inline(id)) },
            &html! { a.button href=(run("test.ping")) { "Ping" } a.button href=(run("state.apply")) { "Apply states" } a.button.main href=(run("")) { "Run" } },
        ))
        div.grid {
            section.card.third id="now" data-part { header { h2 { "Now" } } div.body { (now(view, &row)) } }
            section.card.two id="jobs" data-part {
                header { h2 { "Jobs" } a.more href={ (view.base) "/jobs?" (packed([("minion", id)])) } { "All" } }
                (part(jobs, |page| overview::jobs_table(view, &page.items))?)
            }
            section.card { header { h2 { "Grains" } span.more.muted { "as the master has cached them" } } (part(grains, |grains| facts(&grains))?) }
        }
    };
    Ok(layout::framed(&frame, &body).into())
}

/// Finds the row of a minion.
async fn find(view: &View<'_>, id: &str) -> Result<Option<MinionRow>, Failure> {
    let mut query = MinionQuery { limit: 200, q: Some(id.to_owned()), ..MinionQuery::default() };
    // Ids that contain this one may come before it.
    for _ in 0..5 {
        let page = view.fleet.minions(&query).await?;
        if let Some(row) = page.items.into_iter().find(|row| row.id == id) {
            return Ok(Some(row));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Ok(None)
}

async fn grains(view: &View<'_>, id: &str) -> Result<Map, Failure> {
    let asked = map! { "tgt" => vec![id], "tgt_type" => "list" };
    let found = view.call("runner", "cache.grains", asked).await?;
    Ok(found.get(id).and_then(Value::as_map).cloned().unwrap_or_default())
}

fn now(view: &View<'_>, row: &MinionRow) -> Markup {
    html! {
        dl.facts {
            dt { "State" } dd { (minions::status(row.status)) }
            @if !row.masters.is_empty() { dt { "Masters" } dd { (inline(&row.masters.join(", "))) } }
            @if let Some(time) = &row.last_seen { dt { "Seen" } dd { (view.ago(time)) } }
            @if let Some(version) = &row.version { dt { "Version" } dd { (inline(version)) } }
            @if let Some(os) = &row.os { dt { "System" } dd { (inline(os)) } }
            @if let Some(highstate) = &row.highstate { dt { "Highstate" } dd { (minions::last(view, highstate)) } }
        }
    }
}

fn facts(grains: &Map) -> Markup {
    if grains.is_empty() {
        return html! { div.empty { "No grains are cached." } };
    }
    let first = FIRST.into_iter().filter_map(|(name, title)| Some((title, grains.get(name)?)));
    html! {
        div.body {
            dl.facts { @for (title, grain) in first { dt { (title) } dd { (brief(&short(grain), 300)) } } }
            br;
            details id="all" {
                summary { "All " (grains.len()) " grains" }
                (super::output::text(&readable(&grains.clone().into()), None))
            }
        }
    }
}

fn short(grain: &Value) -> String {
    match grain {
        Value::List(items) => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn grains_are_text() {
        let shown = facts(&map! { "osfinger" => "<b>Debian\x1b", "ipv4" => list!["127.0.0.1", "10.0.0.1"] }).0;
        assert!(
            shown.contains("&lt;b&gt;Debian<span class=\"ctl\">\\x1b</span>") && shown.contains("127.0.0.1, 10.0.0.1")
        );
        assert!(!shown.contains("<b>Debian") && facts(&Map::new()).0.contains("No grains"));
    }
}
