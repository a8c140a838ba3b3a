//! Commands to run again: those that the user has run lately, and those that operators have prepared.

use std::collections::BTreeSet;

use maud::{Markup, html};
use value::Value;

use super::form::packed;
use super::text::{brief, inline};
use super::view::{self, View};
use super::{overview, run};
use crate::failure::Failure;
use crate::fleet::{JobHead, JobQuery};
use crate::templates::Template;

/// The number of jobs that are looked at, and of commands that are shown.
const JOBS: usize = 100;
const SHOWN: usize = 10;

/// What the console itself asks minions is no command of the user.
const OWN: [&str; 5] = ["sys.doc", "saltutil.kill_job", "schedule.list", "beacons.list", "saltutil.find_job"];

/// Shows both lists.
///
/// # Errors
/// When the session has ended, or the master does not answer.
pub async fn lists(view: &View<'_>) -> Result<Markup, Failure> {
    let query = JobQuery { limit: JOBS, user: Some(view.caller.session.user.clone()), ..JobQuery::default() };
    let jobs = match view.fleet.jobs(&query).await {
        Ok(page) => overview::minions_only(page).items,
        Err(failure) if view::concerns_page(&failure) => return Err(failure),
        // Without the right to see jobs there is no list.
        Err(failure) => {
            tracing::debug!("the page shows no recent commands: {}", failure.message);
            Vec::new()
        }
    };
    Ok(html! {
        (templates(view.base, &view.api.templates))
        (recent(view, &jobs))
    })
}

fn templates(base: &str, templates: &[Template]) -> Markup {
    html! {
        @if !templates.is_empty() {
            section.card {
                header { h2 { "Templates" } span.more.muted { "from " code { "saltgui_templates" } } }
                ul.again { @for template in templates {
                    @let arguments = template.arguments.join("\n");
                    @let fields = [("tgt", template.target.as_str()), ("tgt_type", template.target_type.as_str()), ("fun", template.function.as_str()), ("arg", arguments.as_str())];
                    li { a href={ (base) "/run?" (packed(fields)) } { (inline(if template.description.is_empty() { &template.name } else { &template.description })) }
                        " " span.args { (brief(&template.function, 60)) @if !template.target.is_empty() { " on " (brief(&template.target, 40)) } } }
                } }
            }
        }
    }
}

fn recent(view: &View<'_>, jobs: &[JobHead]) -> Markup {
    let commands = different(jobs);
    html! {
        @if !commands.is_empty() {
            section.card id="recent" {
                header { h2 { "Your latest commands" } }
                ul.again { @for job in commands {
                    li { a href=(run::again(view.base, job)) { (view::call(job)) }
                        " " span.args { "on " (brief(&view::target(&job.tgt), 60)) }
                        @if let Some(start) = &job.start { " " span.small.muted { (view.ago(start)) } } }
                } }
            }
        }
    }
}

/// Returns the latest job of each command.
fn different(jobs: &[JobHead]) -> Vec<&JobHead> {
    let mut seen = BTreeSet::new();
    let own = |job: &&JobHead| !job.fun.as_str().is_some_and(|fun| OWN.contains(&fun));
    let command = |job: &JobHead| [&job.fun, &job.arg, &job.tgt].map(Value::to_string);
    jobs.iter().filter(own).filter(|job| seen.insert((command(job), job.tgt_type.clone()))).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Counts, JobState};

    #[test]
    fn each_command_is_listed_once() {
        let job = |jid: &str, fun: &str| JobHead {
            jid: jid.into(),
            fun: fun.into(),
            arg: Value::List(Vec::new()),
            tgt: "*".into(),
            tgt_type: "glob".into(),
            user: "fred".into(),
            start: None,
            end: None,
            state: JobState::Done,
            counts: Counts::default(),
        };
        let jobs = [job("4", "test.ping"), job("3", "sys.doc"), job("2", "test.version"), job("1", "test.ping")];
        assert_eq!(different(&jobs).iter().map(|job| job.jid.as_str()).collect::<Vec<_>>(), ["4", "2"]);
    }

    #[test]
    fn templates_are_text() {
        let template = Template {
            name: "<b>".into(),
            function: "cmd.run".into(),
            arguments: vec!["df -h".into()],
            ..Template::default()
        };
        let shown = templates("/console", &[template]).0;
        assert!(!shown.contains("<b>") && shown.contains("/console/run?fun=cmd.run&amp;arg=df+-h"));
        assert_eq!(templates("/console", &[]).0, "");
    }
}
