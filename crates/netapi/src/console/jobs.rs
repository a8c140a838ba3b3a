//! Jobs: the latest first, filters, pages by cursor.

use maud::html;

use super::form::{Fields, packed};
use super::text;
use super::view::{View, part};
use super::{Answer, layout, overview};
use crate::failure::Failure;
use crate::fleet::{JobHead, JobQuery, Page};

/// The number of jobs of a page.
const ROWS: usize = 50;

/// How often the master is asked for a page, and for how many jobs after the first time: where runners run all the time, few of
/// its jobs are shown.
const REQUESTS: usize = 4;
const LARGE: usize = 200;

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
    let listed = part(Listed::read(view, query, all).await, |Listed { page, hidden, .. }| {
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

/// A page of jobs, gathered from pages of the master.
struct Listed {
    page: Page<JobHead>,
    /// The number of runs of runners and wheel functions that are left out.
    hidden: usize,
    /// True if none are left out.
    all: bool,
}

impl Listed {
    /// Reads jobs until the page is full.
    async fn read(view: &View<'_>, mut query: JobQuery, all: bool) -> Result<Self, Failure> {
        let mut listed = Listed { page: Page { items: Vec::new(), next: None }, hidden: 0, all };
        for _ in 0..REQUESTS {
            listed.add(view.fleet.jobs(&query).await?);
            if all || listed.is_full() || listed.page.next.is_none() {
                break;
            }
            query = JobQuery { before: listed.page.next.clone(), limit: LARGE, ..query };
        }
        Ok(listed)
    }

    fn is_full(&self) -> bool {
        self.page.items.len() >= ROWS
    }

    fn add(&mut self, page: Page<JobHead>) {
        self.page.next = page.next;
        for job in page.items {
            if self.is_full() {
                self.page.next = self.page.items.last().map(|last| last.jid.clone());
                return;
            }
            match !self.all && overview::is_of_master(&job) {
                true => self.hidden += 1,
                false => self.page.items.push(job),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Counts, JobState};

    fn job(number: usize, fun: &str) -> JobHead {
        JobHead {
            jid: format!("2026112616051195{number:04}"),
            fun: fun.into(),
            arg: Vec::<value::Value>::new().into(),
            tgt: "*".into(),
            tgt_type: "glob".into(),
            user: "fred".into(),
            start: None,
            end: None,
            state: JobState::Done,
            counts: Counts { expected: 1, returned: 1, failed: 0, running: 0, silent: 0 },
        }
    }

    fn page(numbers: std::ops::Range<usize>, fun: &str) -> Page<JobHead> {
        let next = Some(job(numbers.end - 1, "").jid);
        Page { items: numbers.map(|number| job(number, fun)).collect(), next }
    }

    #[test]
    fn a_page_is_full_although_most_jobs_are_hidden() {
        let mut listed = Listed { page: Page { items: Vec::new(), next: None }, hidden: 0, all: false };
        listed.add(page(0..50, "runner.jobs.active"));
        assert_eq!((listed.page.items.len(), listed.hidden, listed.is_full()), (0, 50, false));
        listed.add(page(50..150, "test.ping"));
        assert_eq!((listed.page.items.len(), listed.hidden), (ROWS, 50));
        assert_eq!(listed.page.next, Some(job(99, "").jid), "the next page begins behind the last job that is shown");
    }

    #[test]
    fn a_page_that_fits_keeps_the_cursor_of_the_master() {
        let mut listed = Listed { page: Page { items: Vec::new(), next: None }, hidden: 0, all: true };
        listed.add(Page { next: Some("20261126160511950000".to_owned()), ..page(0..ROWS, "wheel.key.list") });
        assert_eq!((listed.page.items.len(), listed.hidden), (ROWS, 0));
        assert_eq!(listed.page.next.as_deref(), Some("20261126160511950000"));
    }
}
