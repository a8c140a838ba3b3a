//! The documentation of a function, from a minion that has it.

use maud::{Markup, html};
use value::{Value, map};

use super::form::packed;
use super::run::RunForm;
use super::text::inline;
use super::view::{View, part};
use super::{Answer, output};
use crate::failure::Failure;
use crate::fleet::MinionQuery;

/// Asks a minion for the documentation: one that the job would reach, or any.
///
/// # Errors
/// When no minion is there, the user may not ask, or the master does not answer.
pub async fn ask(view: &View<'_>, job: &RunForm) -> Result<Answer, Failure> {
    if job.function.is_empty() {
        return Err(Failure::bad_request("Say which function."));
    }
    let minion = one_of(view, job).await?.ok_or_else(|| Failure::new(404, "No minion is connected."))?;
    let command = map! {
        "client" => "local_async", "tgt" => vec![minion], "tgt_type" => "list", "fun" => "sys.doc",
        "arg" => vec![job.function.as_str()],
    };
    let jid = view.publish(command).await?.ok_or_else(|| Failure::new(404, "No minion is connected."))?;
    let query = packed(job.fields().into_iter().chain([("doc", jid.as_str())]));
    Ok(Answer::Moved(format!("{}/run?{query}", view.base)))
}

async fn one_of(view: &View<'_>, job: &RunForm) -> Result<Option<String>, Failure> {
    if !job.target.is_empty() {
        let preview = view.fleet.preview(&job.query()).await?;
        let there = |id: &&String| !preview.away.contains(id) && !preview.refused.contains(id);
        return Ok(preview.minions.iter().find(there).cloned());
    }
    let up = MinionQuery { limit: 1, status: Some("up".to_owned()), ..MinionQuery::default() };
    Ok(view.fleet.minions(&up).await?.items.pop().map(|row| row.id))
}

/// Shows what the minion has answered.
///
/// # Errors
/// When the session has ended.
pub async fn documentation(view: &View<'_>, jid: &str, function: &str) -> Result<Markup, Failure> {
    let returned = view.fleet.brief_returns(jid, None, 1, false).await;
    let body = part(returned, |page| match page.items.first() {
        Some(row) => texts(&row.returned, function),
        None => html! { div.empty { "The minion has not answered yet." } },
    })?;
    Ok(html! {
        section.card id="doc" data-part {
            header { h2 { "Documentation" } a.more href=(view.job(jid)) { "Job" } }
            (body)
        }
    })
}

fn texts(returned: &Value, function: &str) -> Markup {
    let texts: Vec<(String, &str)> = returned
        .as_map()
        .into_iter()
        .flatten()
        .filter_map(|(name, text)| Some((name.to_string(), text.as_str()?.trim_matches('\n'))))
        .collect();
    html! {
        @if texts.is_empty() { div.empty { "The minion has no function " code { (inline(function)) } "." } }
        @else { div.body.fields { @for (name, text) in texts { div { p { strong { (inline(&name)) } } (output::text(text, None)) } } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_is_text() {
        let shown = texts(&map! { "test.ping" => "\n<b>Used</b>\n" }.into(), "test.ping").0;
        assert!(shown.contains("test.ping") && shown.contains("&lt;b&gt;Used&lt;/b&gt;"));
        for nothing in [Value::Null, map! {}.into(), "error".into()] {
            assert!(texts(&nothing, "test.<x>").0.contains("no function <code>test.&lt;x&gt;"));
        }
    }
}
