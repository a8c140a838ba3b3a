//! A job: how many have returned, and what, grouped by equal results.

use std::collections::BTreeMap;

use maud::{Markup, html};
use value::{Value, map};

use super::form::Fields;
use super::text::{self, inline, readable};
use super::view::{View, call, function, part, parts, state, target};
use super::{Answer, layout, output, run, states};
use crate::failure::Failure;
use crate::fleet::{JobHead, JobState, Page, ReturnRow};

/// The number of returns of a page.
const ROWS: usize = 200;

/// The number of groups whose output is open.
const OPEN: usize = 8;

/// The largest number of failed minions on which a job can be run again with one link.
const MOST_AGAIN: usize = 1000;

/// The bytes of output on a page; further groups have only their ids, and links.
const MOST_OUTPUT: usize = 1 << 20;

/// Shows the page.
///
/// # Errors
/// When the session has ended, or nobody knows the job.
pub async fn show(view: &View<'_>, jid: &str, fields: &Fields) -> Result<Answer, Failure> {
    let failed = fields.get("failed").is_some();
    let (mut frame, head, returns) =
        tokio::try_join!(view.frame_of_set(format!("Job {jid}"), "/jobs"), view.fleet.job(jid), async {
            Ok(view.fleet.brief_returns(jid, fields.get("after"), ROWS, failed).await)
        },)?;
    frame.live = format!("salt/job/{jid}/");
    let failures = match &returns {
        Ok(page) => failures(view, &head, page).await?,
        Err(_) => Vec::new(),
    };
    let silent = match fields.get("who").is_some() {
        true => Some(view.call("runner", "saltern.job", map! { "jid" => jid }).await),
        false => None,
    };
    let again = |tgt: &str, kind: &str| run::again_on(view.base, &head, tgt, kind);
    let title =
        html! { span.crumb { a href={ (view.base) "/jobs" } { "Jobs" } " · " code { (inline(jid)) } } (call(&head)) };
    let more = html! {
        a.button href=(run::again(view.base, &head)) { "Run again" }
        @if function(&head.fun).starts_with("state.") { a.button href={ (view.base) "/highstate/" (jid) } { "Matrix" } }
    };
    let body = html! {
        (layout::headline(&title, &more))
        (counts(view, &head, failed))
        @if let Some(silent) = silent { (part(silent, |found| not_returned(view, &found))?) }
        (part(returns, |page| groups(view, &head, fields, (page, failures), &again))?)
    };
    Ok(layout::framed(&frame, &body).into())
}

/// Returns the minions of a job that have failed, also those on other pages than this one; none if they are too many.
///
/// # Errors
/// When the master does not answer.
async fn failures(view: &View<'_>, head: &JobHead, page: &Page<ReturnRow>) -> Result<Vec<ReturnRow>, Failure> {
    let here = page.items.iter().filter(|row| !row.success);
    let failed = usize::try_from(head.counts.failed).unwrap_or(usize::MAX);
    if here.clone().count() >= failed || failed > MOST_AGAIN {
        return Ok(here.filter(|_| failed <= MOST_AGAIN).cloned().collect());
    }
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = view.fleet.returns(&head.jid, after.as_deref(), ROWS, true).await?;
        all.extend(page.items);
        after = page.next.filter(|_| all.len() <= MOST_AGAIN);
        if after.is_none() {
            return Ok(all);
        }
    }
}

fn counts(view: &View<'_>, job: &JobHead, failed: bool) -> Markup {
    let counts = &job.counts;
    let number = |count: u64| text::count(count as usize);
    let here = view.job(&job.jid);
    html! {
        section.card id="counts" data-part {
            div.body {
                (layout::bar(&parts(job), true))
                ul.legend {
                    li { (state(job)) }
                    @if job.state == JobState::Running {
                        li { form method="post" action={ (here) "/kill" } { button.tiny.danger { "End the job" } } }
                    }
                    li { b { (number(counts.returned)) } " of " b { (number(counts.expected)) } " returned" }
                    li { span.dot.bad[counts.failed > 0] {} b { (number(counts.failed)) } " failed"
                        @if counts.failed > 0 && !failed { " " a href={ (here) "?failed=1" } { "only these" } } }
                    @if counts.running > 0 { li { span.dot {} b { (number(counts.running)) } " running" } }
                    li { span.dot.warn[counts.silent > 0] {} b { (number(counts.silent)) } " silent"
                        @if counts.silent + counts.running > 0 { " " a href={ (here) "?who=1" } { "which?" } } }
                    @if failed { li { a href=(here) { "Show all returns" } } }
                }
                br;
                dl.facts {
                    dt { "Target" } dd { code { (text::brief(&target(&job.tgt), 300)) } " " span.muted { (inline(&job.tgt_type)) } }
                    dt { "User" } dd { (inline(&job.user)) }
                    @if let Some(start) = &job.start { dt { "Started" } dd { (view.when(start)) @if let Some(end) = &job.end { " – " (view.when(end)) } } }
                }
            }
        }
    }
}

fn not_returned(view: &View<'_>, found: &Value) -> Markup {
    let states = found.as_map().into_iter().flatten();
    let missing: Vec<(String, String)> = states
        .map(|(id, state)| {
            (
                id.to_string(),
                state
                    .as_str()
                    .map(str::to_owned)
                    .unwrap_or_else(|| state.get("state").map(ToString::to_string).unwrap_or_default()),
            )
        })
        .filter(|(_, state)| state != "returned")
        .collect();
    html! {
        section.card {
            header { h2 { "Not returned" } }
            div.body {
                @if missing.is_empty() { p.muted { "All have returned, or it is not known any more which have not." } }
                ul.ids { @for (id, state) in missing.iter().take(500) { li { a href=(view.minion(id)) { (inline(id)) " · " (inline(state)) } } } }
                @if missing.len() > 500 { p.small.muted { "and " (text::count(missing.len() - 500)) " more" } }
            }
        }
    }
}

/// Minions with the same result.
struct Group<'a> {
    ids: Vec<&'a str>,
    first: &'a ReturnRow,
    size: usize,
}

/// Groups returns: those of failures first, then the largest groups.
fn grouped(rows: &[ReturnRow]) -> Vec<Group<'_>> {
    let mut by_result: BTreeMap<(bool, [u8; 32]), Group<'_>> = BTreeMap::new();
    for row in rows {
        let text = comparable(&row.returned);
        // Of large returns only the beginning is here.
        let text = match row.size {
            Some(size) => format!("{size}\0{text}"),
            None => text,
        };
        let key = (row.success, openssl::sha::sha256(text.as_bytes()));
        let new = || Group { ids: Vec::new(), first: row, size: text.len() };
        by_result.entry(key).or_insert_with(new).ids.push(&row.id);
    }
    let mut groups: Vec<Group<'_>> = by_result.into_values().collect();
    groups.sort_by_key(|group| (group.first.success, std::cmp::Reverse(group.ids.len()), group.ids[0]));
    groups
}

/// Returns what makes two returns equal: times of states do not count.
fn comparable(value: &Value) -> String {
    match states::read(value) {
        Some(rows) => rows
            .iter()
            .map(|row| format!("{}\0{:?}\0{}\0{}\n", row.key, row.result, row.comment, row.changed()))
            .collect(),
        None => readable(value),
    }
}

/// Returns which groups have room for their output on the page.
fn fitting(groups: &[Group<'_>]) -> Vec<bool> {
    let mut room = MOST_OUTPUT;
    let mut fits = |group: &Group<'_>| {
        let size = group.size.min(text::LONGEST_OUTPUT);
        let fits = size <= room;
        room -= if fits { size } else { 0 };
        fits
    };
    groups.iter().map(&mut fits).collect()
}

/// Puts all failures before the first page of returns.
fn failures_first(page: Vec<ReturnRow>, failures: Vec<ReturnRow>) -> Vec<ReturnRow> {
    let good = page.into_iter().filter(|row| !failures.iter().any(|failed| failed.id == row.id));
    let good: Vec<ReturnRow> = good.collect();
    failures.into_iter().chain(good).collect()
}

fn groups(
    view: &View<'_>,
    head: &JobHead,
    fields: &Fields,
    (page, failures): (Page<ReturnRow>, Vec<ReturnRow>),
    again: &dyn Fn(&str, &str) -> String,
) -> Markup {
    let jid = head.jid.as_str();
    if page.items.is_empty() && page.next.is_none() {
        return html! { section.card id="returns" data-part { div.empty { "No returns yet." } } };
    }
    let failed: Vec<String> = failures.iter().map(|row| row.id.clone()).collect();
    let rows = match fields.get("after") {
        None => failures_first(page.items, failures),
        Some(_) => page.items,
    };
    let groups = grouped(&rows);
    let returned = usize::try_from(head.counts.returned).unwrap_or_default();
    let fits = fitting(&groups);
    html! {
        section.card id="returns" data-part {
            header {
                h2 { (text::count(rows.len())) @if rows.len() < returned { " of " (text::count(returned)) } @if rows.len().max(returned) == 1 { " return" } @else { " returns, " @if groups.len() == 1 { "all equal" } @else { (text::count(groups.len())) " different" } } }
                @if !failed.is_empty() { a.more href=(again(&failed.join(","), "list")) { "Run again on failed minions" } }
            }
            @for (number, (group, fits)) in groups.iter().zip(fits).enumerate() { (return_group(view, jid, group, number, fits)) }
            @if page.next.is_some() || fields.get("after").is_some() { div.pages {
                span.where {}
                @if fields.get("after").is_some() { a.button href={ (view.job(jid)) "?" (fields.with("after", None)) } { "First page" } }
                @if let Some(next) = &page.next { a.button href={ (view.job(jid)) "?" (fields.with("after", Some(next))) } { "Next" } }
            } }
        }
    }
}

fn return_group(view: &View<'_>, jid: &str, group: &Group<'_>, number: usize, fits: bool) -> Markup {
    let whole = format!("{}/returns/{}", view.job(jid), text::in_path(&group.first.id));
    let (look, word) = if group.first.success { ("ok", "ok") } else { ("bad", "failed") };
    html! {
        div.group {
            div.title {
                (layout::tag(look, word))
                strong { (text::count(group.ids.len())) @if group.ids.len() == 1 { " minion" } @else { " minions" } }
                @if group.first.retcode.truthy() { span.muted { "return code " (inline(&group.first.retcode.to_string())) } }
                a.small href=(whole) { "Download" }
            }
            ul.ids { @for id in &group.ids { li { a href=(view.minion(id)) { (inline(id)) } } } }
            @if fits {
                details id={ "group-" (group.ids[0]) } open[number < OPEN] { summary.small.muted { "Output" } (output::returned(&group.first.returned, &whole))
                    @if let Some(size) = group.first.size { p.small.muted { "This is the beginning of " (size >> 10) " KiB. " a href=(&whole) { "Download all" } } } }
            } @else { p.small.muted { "Too much for one page." } }
        }
    }
}

/// Returns the whole return of a minion as a file.
///
/// # Errors
/// When the minion has not returned.
pub async fn download(view: &View<'_>, jid: &str, id: &str) -> Result<Answer, Failure> {
    let unknown = || Failure::new(404, "This minion has not returned");
    wire::MinionId::new(id).map_err(|_| unknown())?;
    // The cursor is the id before: the largest one that is smaller is not known, so the page begins at a prefix of the id.
    let mut after =
        id.char_indices().next_back().map(|(end, _)| id[..end].to_owned()).filter(|before| !before.is_empty());
    loop {
        let page = view.fleet.returns(jid, after.as_deref(), ROWS, false).await?;
        if let Some(row) = page.items.iter().find(|row| row.id == id) {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            let name: String = id.chars().filter(|letter| plain(*letter)).collect();
            return Ok(Answer::File(format!("{jid}-{name}.txt"), readable(&row.returned)));
        }
        // Pages are in the order of ids.
        let passed = page.items.last().is_some_and(|row| row.id.as_str() > id);
        after = page.next.filter(|_| !passed);
        if after.is_none() {
            return Err(unknown());
        }
    }
}

/// Tells the minions of a job to end it.
///
/// # Errors
/// When the user may not.
pub async fn kill(view: &View<'_>, jid: &str) -> Result<Answer, Failure> {
    let job = view.fleet.job(jid).await?;
    let command = map! {
        "client" => "local_async", "tgt" => job.tgt, "tgt_type" => job.tgt_type, "fun" => "saltutil.kill_job", "arg" => vec![jid],
    };
    view.publish(command).await?;
    Ok(Answer::Moved(format!("{}?done=kill", view.job(jid))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, returned: Value, success: bool) -> ReturnRow {
        ReturnRow { id: id.into(), returned, retcode: i64::from(!success).into(), success, out: None, size: None }
    }

    #[test]
    fn failures_of_other_pages_come_first_and_once() {
        let good = |id| row(id, true.into(), true);
        let bad = |id| row(id, "boom".into(), false);
        let rows = failures_first(vec![good("a"), bad("b"), good("c")], vec![bad("b"), bad("z")]);
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["b", "z", "a", "c"]);
    }

    #[test]
    fn equal_results_are_one_group_and_failures_come_first() {
        let state = |time: f64| {
            Value::from(
                map! { "a_|-b_|-c_|-d" => map! { "result" => true, "changes" => map! {}, "comment" => "x", "duration" => time } },
            )
        };
        let rows = [
            row("a", true.into(), true),
            row("b", true.into(), true),
            row("c", "boom".into(), false),
            row("d", state(1.0), true),
            row("e", state(2.0), true),
            row("f", state(3.0), true),
        ];
        let ids: Vec<Vec<&str>> = grouped(&rows).into_iter().map(|group| group.ids).collect();
        assert_eq!(ids, [vec!["c"], vec!["d", "e", "f"], vec!["a", "b"]]);
    }
}
