//! Runs of states as a matrix: minions with equal outcomes in a row, states in columns, and what changed.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::form::Fields;
use super::states::{self, Outcome, StateRow};
use super::text::{self, inline, readable};
use super::view::{View, part};
use super::{Answer, layout, output};
use crate::failure::Failure;
use crate::fleet::{JobQuery, Page, ReturnRow};

/// The number of runs in the list, and of minions of a matrix.
const RUNS: usize = 50;
const MINIONS: usize = 200;

/// The number of columns, and of changes below the matrix.
const COLUMNS: usize = 60;
const CHANGES: usize = 100;

/// Lists the latest runs of states.
///
/// # Errors
/// When the session has ended.
pub async fn latest(view: &View<'_>) -> Result<Answer, Failure> {
    let query = JobQuery { limit: RUNS, fun: Some("state.*".to_owned()), ..JobQuery::default() };
    let mut frame = view.frame_of_set("Highstate", "/highstate").await?;
    frame.live = "salt/job/*/new salt/job/*/ret/".to_owned();
    let listed = part(view.fleet.jobs(&query).await, |page| {
        html! {
            div.scroll { table {
                thead { tr { th { "Started" } th { "Run" } th.wide-only { "Target" } th.num { "Returned" } th { "State" } } }
                tbody { @for job in &page.items { tr {
                    td { a href={ (view.base) "/highstate/" (text::in_path(&job.jid)) } { @match &job.start { Some(start) => { (view.when(start)) } None => { (inline(&job.jid)) } } } }
                    td { (super::view::call(job)) }
                    td.wide-only { code { (text::brief(&super::view::target(&job.tgt), 40)) } }
                    td.num { (super::view::progress(job)) }
                    td { (super::view::state(job)) }
                } } }
            } }
            @if page.items.is_empty() { div.empty { "No states have run yet." } }
        }
    })?;
    let run = |test: &str| format!("{}/run?tgt=*&fun=state.apply{test}", view.base);
    let body = html! {
        (layout::headline(&html! { "Highstate" }, &html! {
            a.button href=(run("&test=yes")) { "Test on all" } a.button href=(run("")) { "Apply on all" }
        }))
        section.card id="runs" data-part { header { h2 { "Latest runs of states" } } (listed) }
    };
    Ok(layout::framed(&frame, &body).into())
}

/// Shows the matrix of a run.
///
/// # Errors
/// When the session has ended, or nobody knows the job.
pub async fn show(view: &View<'_>, jid: &str, fields: &Fields) -> Result<Answer, Failure> {
    let (mut frame, head, page) = tokio::try_join!(
        view.frame_of_set(format!("Highstate {jid}"), "/highstate"),
        view.fleet.job(jid),
        view.fleet.brief_returns(jid, fields.get("after"), MINIONS, false),
    )?;
    frame.live = format!("salt/job/{jid}/ret/");
    let all = fields.get("all").is_some();
    let matrix = Matrix::of(&page.items);
    let here = format!("{}/highstate/{}", view.base, text::in_path(jid));
    let body = html! {
        (layout::headline(
            &html! { span.crumb { a href={ (view.base) "/highstate" } { "Highstate" } " · " code { (inline(jid)) } } (super::view::call(&head)) },
            &html! { a.button href=(view.job(jid)) { "Job" } @if all { a.button href=(here) { "Only differences" } } @else { a.button href={ (here) "?all=1" } { "All states" } } },
        ))
        (grid(view, &matrix, head.counts.returned, all))
        (turns(&here, fields, &page))
        (details(view, &matrix))
    };
    Ok(layout::framed(&frame, &body).into())
}

fn turns(here: &str, fields: &Fields, page: &Page<ReturnRow>) -> Markup {
    html! {
        @if page.next.is_some() || fields.get("after").is_some() {
            div.card { div.pages {
                span.where { (page.items.len()) " minions on this page" }
                @if fields.get("after").is_some() { a.button href={ (here) "?" (fields.with("after", None)) } { "First page" } }
                @if let Some(next) = &page.next { a.button href={ (here) "?" (fields.with("after", Some(next))) } { "Next" } }
            } }
        }
    }
}

/// The outcomes of a run.
struct Matrix {
    /// The states in the order of the run, each by its first row.
    states: Vec<StateRow>,
    /// Minions with equal outcomes, and the outcome of each state; `None` where a minion has no such state.
    rows: Vec<(Vec<String>, Vec<Option<Outcome>>)>,
    /// What was not good: the place of the state, the row of the first minion, and all minions.
    told: Vec<(usize, StateRow, Vec<String>)>,
    /// Minions whose return is none of states, by what they returned.
    broken: BTreeMap<String, Vec<String>>,
}

impl Matrix {
    fn of(returns: &[ReturnRow]) -> Self {
        let mut places: BTreeMap<(String, String, String), usize> = BTreeMap::new();
        let (mut states, mut minions, mut broken) = (Vec::new(), Vec::new(), BTreeMap::<String, Vec<String>>::new());
        for row in returns {
            let Some(read) = states::read(&row.returned) else {
                broken.entry(readable(&row.returned)).or_default().push(row.id.clone());
                continue;
            };
            for state in &read {
                places.entry(state.column()).or_insert_with(|| {
                    states.push(state.clone());
                    states.len() - 1
                });
            }
            minions.push((row.id.clone(), read));
        }
        let (mut by_outcome, mut told) = (BTreeMap::<Vec<Option<Outcome>>, Vec<String>>::new(), BTreeMap::new());
        for (id, read) in minions {
            let mut outcomes = vec![None; states.len()];
            for state in read {
                let (place, outcome) = (places[&state.column()], state.outcome());
                // A state with several names is as good as the worst of them.
                outcomes[place] = Some(outcomes[place].map_or(outcome, |other: Outcome| other.min(outcome)));
                if outcome != Outcome::Good {
                    let key = (outcome, place, state.comment.clone(), state.changed());
                    told.entry(key).or_insert_with(|| (place, state, Vec::new())).2.push(id.clone());
                }
            }
            by_outcome.entry(outcomes).or_default().push(id);
        }
        let mut rows: Vec<_> = by_outcome.into_iter().map(|(outcomes, ids)| (ids, outcomes)).collect();
        let worst = |outcomes: &[Option<Outcome>]| outcomes.iter().flatten().min().copied().unwrap_or(Outcome::Good);
        rows.sort_by_key(|(ids, outcomes)| (worst(outcomes), std::cmp::Reverse(ids.len())));
        Matrix { states, rows, told: told.into_values().collect(), broken }
    }

    /// Returns the title of a column: the id, and what tells it from others of the same id.
    fn title(&self, place: usize) -> String {
        let state = &self.states[place];
        let same: Vec<&StateRow> = self.states.iter().filter(|other| other.id == state.id).collect();
        match () {
            () if same.len() < 2 => state.id.clone(),
            () if same.iter().all(|other| other.sls == state.sls) => format!("{} {}", state.id, state.function()),
            () => format!("{} in {}", state.id, state.sls),
        }
    }

    /// Returns the places of the columns: all, or those that are not good everywhere.
    fn columns(&self, all: bool) -> Vec<usize> {
        let differs = |place: usize| self.rows.iter().any(|(_, outcomes)| outcomes[place] != Some(Outcome::Good));
        (0..self.states.len()).filter(|place| all || differs(*place)).collect()
    }
}

fn grid(view: &View<'_>, matrix: &Matrix, returned: u64, all: bool) -> Markup {
    let columns = matrix.columns(all);
    let hidden = matrix.states.len() - columns.len();
    let shown = &columns[..columns.len().min(COLUMNS)];
    let minions = matrix.rows.iter().map(|(ids, _)| ids.len()).sum::<usize>();
    html! {
        section.card id="matrix" data-part {
            header {
                h2 { (text::count(minions)) @if minions as u64 != returned { " of " (text::count(returned as usize)) } " minions, " (matrix.states.len()) " states" }
                span.more.muted { "✓ ok, ± changed, ? would change, ✕ failed, · not on these minions"
                    @if hidden > 0 { "; " (hidden) " states that are ok everywhere are hidden" } }
            }
            @if matrix.rows.is_empty() { div.empty { @if matrix.broken.is_empty() { "No minion has returned yet." } @else { "No minion has returned states: see below." } } }
            @else if shown.is_empty() { div.empty { "All states are ok on all minions." } }
            @else {
                div.scroll { table.matrix {
                    thead { tr { th { "Minions" } @for place in shown { @let state = &matrix.states[*place];
                        th scope="col" title=(text::attribute(&state.named())) { (text::brief(&matrix.title(*place), 40)) } } } }
                    tbody { @for (ids, outcomes) in &matrix.rows { tr {
                        th scope="row" title=(text::attribute(&ids[..ids.len().min(50)].join(" "))) {
                            a href=(view.minion(&ids[0])) { (text::brief(&ids[0], 28)) } @if ids.len() > 1 { span.muted { " +" (ids.len() - 1) } } }
                        @for place in shown { td { (cell(*place, outcomes[*place])) } }
                    } } }
                } }
            }
            @if columns.len() > COLUMNS { div.body.small.muted { (columns.len() - COLUMNS) " more states are below, and in the job." } }
        }
    }
}

fn cell(place: usize, outcome: Option<Outcome>) -> Markup {
    match outcome {
        None => html! { span.cell title="not on these minions" { "·" } },
        Some(outcome @ Outcome::Good) => html! { span.cell.ok title="ok" { (outcome.sign()) } },
        Some(outcome) => {
            let (look, word) = outcome.words();
            html! { a.cell.(look) href={ "#state-" (place) } title=(word) { (outcome.sign()) } }
        }
    }
}

fn details(view: &View<'_>, matrix: &Matrix) -> Markup {
    let mut seen = std::collections::BTreeSet::new();
    let ids = |ids: &[String]| {
        html! {
            ul.ids {
                @for id in &ids[..ids.len().min(50)] { li { a href=(view.minion(id)) { (inline(id)) } } }
                @if ids.len() > 50 { li.muted { "and " (ids.len() - 50) " more" } }
            }
        }
    };
    html! {
        @if !matrix.broken.is_empty() {
            section.card { header { h2 { "Returned no states" } }
                @for (text, minions) in matrix.broken.iter().take(20) { div.group { (ids(minions)) (output::text(text, None)) } } }
        }
        @if !matrix.told.is_empty() {
            section.card id="changes" { header { h2 { "Failures and changes" } }
                @for (place, state, minions) in matrix.told.iter().take(CHANGES) {
                    @let (look, word) = state.outcome().words();
                    div.group id=[seen.insert(*place).then(|| format!("state-{place}"))] {
                        div.title { (layout::tag(look, word)) strong { (inline(&state.id)) } code.muted { (inline(&state.function())) } @if !state.sls.is_empty() { span.muted { "in " (inline(&state.sls)) } } @if state.name != state.id { code { (inline(&state.name)) } } }
                        (ids(minions))
                        p { (text::lines(&state.comment)) }
                        (output::changes(&state.changes))
                    }
                }
                @if matrix.told.len() > CHANGES { div.body.small.muted { "and " (matrix.told.len() - CHANGES) " more" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use value::{Value, map};

    use super::*;

    fn state(id: &str, result: Value, change: &str, place: i64) -> (String, Value) {
        let changes = if change.is_empty() {
            map! {}
        } else {
            map! { "diff" => change }
        };
        let state = map! { "result" => result, "comment" => "said", "changes" => changes, "__id__" => id, "__run_num__" => place };
        (format!("file_|-{id}_|-{id}_|-managed"), state.into())
    }

    fn row(id: &str, states: Vec<(String, Value)>) -> ReturnRow {
        let returned: value::Map = states.into_iter().collect();
        ReturnRow { id: id.into(), returned: returned.into(), retcode: 0.into(), success: true, out: None, size: None }
    }

    #[test]
    fn states_of_one_id_are_told_apart() {
        let of = |sls: &str, function: &str| {
            let state =
                map! { "result" => true, "comment" => "", "changes" => map! {}, "__id__" => "web", "__sls__" => sls };
            (format!("pkg_|-web_|-web_|-{function}"), state.into())
        };
        let rows = [
            row("m1", vec![of("nginx", "installed")]),
            row("m2", vec![of("apache", "installed")]),
            row("m3", vec![of("nginx", "installed")]),
        ];
        let matrix = Matrix::of(&rows);
        let titles: Vec<String> = (0..matrix.states.len()).map(|place| matrix.title(place)).collect();
        assert_eq!(titles, ["web in nginx", "web in apache"]);
        let matrix = Matrix::of(&[row("m1", vec![of("nginx", "installed"), of("nginx", "latest")])]);
        let mut titles: Vec<String> = (0..matrix.states.len()).map(|place| matrix.title(place)).collect();
        titles.sort();
        assert_eq!(titles, ["web pkg.installed", "web pkg.latest"]);
    }

    #[test]
    fn minions_with_equal_outcomes_are_one_row_and_the_worst_is_first() {
        let good = || vec![state("a", true.into(), "", 0), state("b", true.into(), "", 1)];
        let changed = |text| vec![state("a", true.into(), "", 0), state("b", true.into(), text, 1)];
        let failed = || vec![state("a", false.into(), "", 0)];
        let mut odd = row("m6", Vec::new());
        odd.returned = "Rendering failed".into();
        let rows = [
            row("m1", good()),
            row("m2", good()),
            row("m3", changed("-x\n+y\n")),
            row("m4", changed("-x\n+z\n")),
            row("m5", failed()),
            odd,
        ];
        let matrix = Matrix::of(&rows);
        let ids: Vec<&[String]> = matrix.rows.iter().map(|(ids, _)| ids.as_slice()).collect();
        assert_eq!(
            ids,
            [&["m5".to_owned()][..], &["m3".to_owned(), "m4".to_owned()], &["m1".to_owned(), "m2".to_owned()]]
        );
        assert_eq!(matrix.rows[0].1, [Some(Outcome::Failed), None]);
        assert_eq!(matrix.told.len(), 3, "one failure, and two changes that differ");
        assert_eq!(matrix.broken["Rendering failed"], ["m6"]);
        assert_eq!((matrix.columns(false).len(), matrix.columns(true).len()), (2, 2));
        let titles: Vec<String> = (0..2).map(|place| matrix.title(place)).collect();
        assert_eq!(titles, ["a", "b"]);
        let well = Matrix::of(&rows[..2]);
        assert!(well.columns(false).is_empty() && well.columns(true).len() == 2);
    }
}
