//! The overview: how the masters, the minions, the keys and the jobs of a day are.

use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};
use targeting::acl::Form;
use value::Value;

use super::text::{self, brief, inline};
use super::view::{self, View, call, part, progress, state, target};
use super::{Answer, layout};
use crate::failure::Failure;
use crate::fleet::{
    Drift, DriftRow, JobHead, JobQuery, JobState, KeyQuery, KeyRow, MasterRow, Masters, Page, Preview, PreviewQuery,
};

/// The number of rows of each short list.
const FEW: usize = 8;

/// The number of jobs of a day that are counted.
const MOST_JOBS: usize = 200;

/// The runner of whoever may know all minions.
const SEES_MINIONS: &str = "manage.status";

/// Shows the page.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>) -> Result<Answer, Failure> {
    let today = JobQuery { limit: MOST_JOBS, since: Some("24h".to_owned()), ..JobQuery::default() };
    let pending = KeyQuery { limit: FEW, state: Some("pending".to_owned()), ..KeyQuery::default() };
    let everybody =
        PreviewQuery { target: "*".into(), target_type: "glob".to_owned(), function: None, arguments: Vec::new() };
    let (mut frame, masters, minions, jobs, keys, drift) = tokio::try_join!(
        view.frame_of_set("Overview", ""),
        async { Ok(view.fleet.masters().await) },
        async { Ok(view.fleet.preview(&everybody).await) },
        async { Ok(view.fleet.jobs(&today).await.map(minions_only)) },
        async { Ok(view.fleet.keys(&pending).await) },
        async { Ok(view.fleet.drift(None).await) },
    )?;
    frame.live = "salt/job/*/new salt/job/*/ret/ salt/key salt/presence/ salt/minion/ saltern/".to_owned();
    // The table of masters says more than the strip.
    frame.masters = Vec::new();
    let body = html! {
        (layout::headline(&html! { "Overview" }, &html! { a.button href={ (view.base) "/run" } { "Run a function" } }))
        div.tiles id="tiles" data-part {
            (tile_minions(view, &minions))
            (tile_keys(view, &keys))
            (tile_jobs(view, &jobs))
            (tile_masters(&masters, drift.as_ref().ok()))
        }
        div.grid {
            div.stack.two {
                section.card id="jobs" data-part {
                    header { h2 { "Latest jobs" } a.more href={ (view.base) "/jobs" } { "All jobs" } }
                    (part(jobs, |page| jobs_table(view, &page.items[..page.items.len().min(FEW)]))?)
                }
                section.card id="masters" data-part {
                    header { h2 { "Masters" } }
                    (part(masters, |masters| masters_table(view, &masters))?)
                }
            }
            div.stack.third {
                section.card id="keys" data-part {
                    header { h2 { "Pending keys" } a.more href={ (view.base) "/keys" } { "All keys" } }
                    (part(keys, |keys| pending_keys(view, &keys))?)
                }
                section.card id="away" data-part {
                    header { h2 { "Minions away" } a.more href={ (view.base) "/minions?status=down" } { "All" } }
                    (part(minions, |preview| away(view, &preview))?)
                }
            }
            @if let Ok(drift) = &drift {
                @if !drift.kinds.is_empty() { (drift_card(view, drift)) }
            }
        }
    };
    Ok(layout::framed(&frame, &body).into())
}

fn tile_minions(view: &View<'_>, minions: &Result<Preview, Failure>) -> Markup {
    let Ok(preview) = minions else { return html! {} };
    let (all, away) = (preview.count as usize, preview.away_count as usize);
    if all == 0 && !view.may(Form::Runner, SEES_MINIONS) {
        return html! {};
    }
    html! {
        a.tile.warn[away > 0 && away * 2 < all].bad[away > 0 && away * 2 >= all] href={ (view.base) "/minions" } {
            div.what { "Minions connected" }
            div.big { (text::count(all.saturating_sub(away))) small { " of " (text::count(all)) } }
            (layout::bar(&[("ok", all.saturating_sub(away)), ("bad", away)], false))
        }
    }
}

fn tile_keys(view: &View<'_>, keys: &Result<Page<KeyRow>, Failure>) -> Markup {
    let Ok(page) = keys else { return html! {} };
    let waits = !page.items.is_empty();
    html! {
        a.tile.warn[waits] href={ (view.base) "/keys" } {
            div.what { "Pending keys" }
            div.big { (page.items.len()) @if page.next.is_some() { "+" } }
            div.small.muted { @if waits { "compare and accept them" } @else { "none" } }
        }
    }
}

fn tile_jobs(view: &View<'_>, jobs: &Result<Page<JobHead>, Failure>) -> Markup {
    let Ok(page) = jobs else { return html! {} };
    let failed = page.items.iter().filter(|job| job.state == JobState::Failed).count();
    let more = if page.next.is_some() { "+" } else { "" };
    html! {
        a.tile.bad[failed > 0] href={ (view.base) "/jobs" @if failed > 0 { "?state=failed" } } {
            div.what { "Failed jobs, last 24 hours" }
            div.big { (failed) small { " of " (page.items.len()) (more) } }
            (spark(view, &page.items))
        }
    }
}

fn tile_masters(masters: &Result<Masters, Failure>, drift: Option<&Drift>) -> Markup {
    let Ok(masters) = masters else { return html! {} };
    let well = |row: &&MasterRow| matches!(row.state.as_str(), "here" | "linked");
    let (all, up) = (masters.masters.len(), masters.masters.iter().filter(well).count());
    let conflicts = masters.keys.get("conflicts").and_then(Value::as_i64).unwrap_or_default();
    let kinds = |state: &str| drift.map_or(0, |drift| drift.kinds.iter().filter(|row| row.state == state).count());
    let (differs, unknown) = (kinds("differs"), kinds("unknown"));
    html! {
        a.tile.bad[up < all].warn[up == all && (differs > 0 || conflicts > 0)] href=(if differs > 0 { "#drift" } else { "#masters" }) {
            div.what { "Masters linked" }
            div.big { (up.max(1)) small { " of " (all.max(1)) } }
            div.small.muted {
                @if conflicts > 0 { (conflicts) @if conflicts == 1 { " key in conflict" } @else { " keys in conflict" } }
                @else if differs > 0 { (differs) @if differs == 1 { " kind of drift" } @else { " kinds of drift" } }
                @else if all < 2 { "a master alone" }
                @else if up < all { (all - up) " away" }
                @else if unknown > 0 { "not all compared yet" }
                @else if drift.is_some() { "in step" }
            }
        }
    }
}

/// Shows the jobs of the last 24 hours, an hour each bar.
fn spark(view: &View<'_>, jobs: &[JobHead]) -> Markup {
    let now = Timestamp::try_from(view.now()).unwrap_or(Timestamp::UNIX_EPOCH).as_second();
    PreEscaped(format!(
        "<svg class=\"spark\" viewBox=\"0 0 240 44\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg>",
        bars(now, jobs)
    ))
}

fn bars(now: i64, jobs: &[JobHead]) -> String {
    let mut hours = [(0_usize, 0_usize); 24];
    for job in jobs {
        let Some(start) = job.start.as_deref().and_then(|start| start.parse::<Timestamp>().ok()) else { continue };
        let hours_ago = usize::try_from((now - start.as_second()).max(0) / 3600).unwrap_or(24);
        if let Some(hour) = 23_usize.checked_sub(hours_ago).and_then(|hour| hours.get_mut(hour)) {
            match job.state {
                JobState::Failed => hour.1 += 1,
                JobState::Done | JobState::Running => hour.0 += 1,
            }
        }
    }
    let most = hours.iter().map(|(good, bad)| good + bad).max().unwrap_or_default().max(1) as f64;
    let mut out = String::new();
    for (hour, (good, bad)) in hours.into_iter().enumerate() {
        let (x, good, bad) = (hour * 10, good as f64 * 40.0 / most, bad as f64 * 40.0 / most);
        out.push_str(&format!("<rect class=\"base\" x=\"{x}\" y=\"42\" width=\"8\" height=\"2\"/>"));
        if good > 0.0 {
            let y = 42.0 - good;
            out.push_str(&format!("<rect class=\"ok\" x=\"{x}\" y=\"{y:.1}\" width=\"8\" height=\"{good:.1}\"/>"));
        }
        if bad > 0.0 {
            let y = 42.0 - good - bad;
            out.push_str(&format!("<rect class=\"bad\" x=\"{x}\" y=\"{y:.1}\" width=\"8\" height=\"{bad:.1}\"/>"));
        }
    }
    out
}

/// Leaves out runs of runners and wheel functions, which reach no minion.
pub fn minions_only(mut page: Page<JobHead>) -> Page<JobHead> {
    page.items.retain(|job| !is_of_master(job));
    page
}

/// Returns whether a job is the run of a runner or a wheel function.
pub fn is_of_master(job: &JobHead) -> bool {
    let fun = view::function(&job.fun);
    fun.starts_with("runner.") || fun.starts_with("wheel.")
}

/// Shows jobs in a table.
pub fn jobs_table(view: &View<'_>, jobs: &[JobHead]) -> Markup {
    if jobs.is_empty() {
        return html! { div.empty { "No jobs." } };
    }
    html! {
        div.scroll { table {
            thead { tr { th { "Started" } th { "Function" } th.wide-only { "Target" } th.wide-only { "User" } th.num { "Returned" } th { "State" } } }
            tbody { @for job in jobs {
                tr {
                    td { a href=(view.job(&job.jid)) title=(text::attribute(&job.jid)) { @match &job.start { Some(start) => (view.when(start)), None => (inline(&job.jid)) } } }
                    td { (call(job)) }
                    td.wide-only { code { (brief(&target(&job.tgt), 40)) } @if job.tgt_type != "glob" { " " span.muted.small { (inline(&job.tgt_type)) } } }
                    td.wide-only { (brief(&job.user, 24)) }
                    td.num { (progress(job)) }
                    td { (state(job)) }
                }
            } }
        } }
    }
}

fn away(view: &View<'_>, preview: &Preview) -> Markup {
    if preview.count == 0 && !view.may(Form::Runner, SEES_MINIONS) {
        return html! { div.empty { "external_auth grants you no minion, and not the runner " (SEES_MINIONS) "." } };
    }
    if preview.count == 0 {
        return html! { div.empty { "No minion has an accepted key." } };
    }
    if preview.away.is_empty() {
        return html! { div.empty { "All are connected." } };
    }
    let shown = preview.away.len().min(24);
    html! {
        div.body {
            ul.ids { @for id in &preview.away[..shown] { li { a href=(view.minion(id)) { (inline(id)) } } } }
            @if preview.away_count as usize > shown { p.muted.small { "and " (text::count(preview.away_count as usize - shown)) " more" } }
        }
    }
}

fn masters_table(view: &View<'_>, masters: &Masters) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Master" } th { "State" } th.num { "Minions" } th.num { "Lag" } th.num.wide-only { "Clock" } th.num.wide-only { "Queue" } th.wide-only { "Last in sync" } } }
            tbody { @for row in view::sorted(&masters.masters).into_iter().chain(&masters.others) {
                tr {
                    th { (inline(row.name.as_deref().or(row.address.as_deref()).unwrap_or("(no name)")))
                        @if let Some(version) = &row.version { " " span.muted.small { (brief(version, 30)) } } }
                    td { (master_state(row))
                        @if let Some(since) = row.since.as_ref().filter(|_| row.state == "away") { " " span.small.muted { "since " (view.when(since)) } }
                        @if let Some(reason) = &row.reason { div.small.muted { (brief(reason, 200)) } } }
                    td.num { (number(row.minions)) }
                    td.num { @if let Some(rtt) = row.rtt_ms { (format!("{rtt:.1} ms")) } }
                    td.num.wide-only { @if let Some(clock) = row.clock_ms { (format!("{clock:+.0} ms")) } }
                    td.num.wide-only { (number(row.queue_bytes)) }
                    td.wide-only { @if let Some(time) = &row.compared { (view.when(time)) } }
                }
            } }
        } }
        @if masters.cluster_id.is_none() { div.body.small.muted { "This master shares nothing with others (cluster_id is not set)." } }
    }
}

fn number(count: Option<u64>) -> Markup {
    html! { @if let Some(count) = count { (text::count(count as usize)) } }
}

fn master_state(row: &MasterRow) -> Markup {
    let look = match row.state.as_str() {
        "here" | "linked" => "ok",
        "waiting" => "warn",
        _ => "bad",
    };
    layout::tag(look, &row.state)
}

fn pending_keys(view: &View<'_>, keys: &Page<KeyRow>) -> Markup {
    if keys.items.is_empty() {
        return html! { div.empty { "No key is pending." } };
    }
    html! {
        table { tbody { @for key in &keys.items {
            tr { td { a href={ (view.base) "/keys" } { (inline(&key.id)) }
                @if let Some(finger) = &key.fingerprint { div.finger { (brief(finger, 48)) } } } }
        } } }
    }
}

fn drift_card(view: &View<'_>, drift: &Drift) -> Markup {
    let (same, differs): (Vec<&DriftRow>, Vec<&DriftRow>) = drift.kinds.iter().partition(|row| row.state == "same");
    let same: Vec<&str> = same.iter().map(|row| row.kind.as_str()).collect();
    html! {
        section.card id="drift" data-part {
            header { h2 { "Drift between masters" } span.more.muted { "Saltern does not repair drift. Fix it at the source of the files." } }
            @if !differs.is_empty() {
                div.scroll { table {
                    thead { tr { th { "Kind" } th { "State" } th { "On" } th { "Since" } } }
                    tbody { @for row in &differs {
                        tr {
                            th { a href={ (view.base) "/drift/" (text::in_path(&row.kind)) } { code { (inline(&row.kind)) } } }
                            td { (layout::tag(if row.state == "differs" { "warn" } else { "none" }, &row.state)) }
                            td { (inline(&row.on.join(", "))) }
                            td { @if let Some(since) = &row.since { (view.when(since)) } }
                        }
                    } }
                } }
            }
            @if !same.is_empty() { div.body.small.muted { "Equal on all compared masters: " (same.join(", ")) } }
            @if !drift.not_compared.is_empty() { div.body.small.muted { "Not compared with: " (inline(&drift.not_compared.join(", "))) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Counts;

    #[test]
    fn jobs_of_a_day_are_drawn() {
        let job = |start: &str, state| JobHead {
            jid: "1".into(),
            fun: "test.ping".into(),
            arg: Value::List(Vec::new()),
            tgt: "*".into(),
            tgt_type: "glob".into(),
            user: "fred".into(),
            start: Some(start.into()),
            end: None,
            state,
            counts: Counts::default(),
        };
        let now = "2026-11-26T12:00:00Z".parse::<Timestamp>().unwrap().as_second();
        let drawn = bars(
            now,
            &[
                job("2026-11-26T11:59:00Z", JobState::Done),
                job("2026-11-26T11:58:00Z", JobState::Failed),
                job("2026-11-25T11:00:00Z", JobState::Done),
                job("2027-01-01T00:00:00Z", JobState::Done),
                job("odd", JobState::Done),
            ],
        );
        assert_eq!(drawn.matches("class=\"base\"").count(), 24);
        assert_eq!((drawn.matches("class=\"ok\"").count(), drawn.matches("class=\"bad\"").count()), (1, 1));
        assert!(drawn.contains("<rect class=\"ok\" x=\"230\""));
    }
}
