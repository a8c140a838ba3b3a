//! What differs between masters in one kind, such as `pillar`.

use maud::{Markup, html};
use value::Value;

use super::text::inline;
use super::view::{View, part};
use super::{Answer, layout};
use crate::failure::Failure;
use crate::fleet::Drift;

/// Shows the page of a kind.
///
/// # Errors
/// When the session has ended, or the master does not answer.
pub async fn show(view: &View<'_>, kind: &str) -> Result<Answer, Failure> {
    let frame = view.frame_of_set("Drift", "").await?;
    let found = view.fleet.drift(Some(kind)).await;
    let body = html! {
        (layout::headline(&html! { span.crumb { a href={ (view.base) "/#drift" } { "Drift" } } (inline(kind)) }, &html! {}))
        section.card {
            header { h2 { "What differs between masters" } span.more.muted { "Saltern does not repair drift. Fix it at the source of the files." } }
            (part(found, |found| differences(&found))?)
        }
    };
    Ok(layout::framed(&frame, &body).into())
}

/// Shows in which paths or options masters differ.
pub fn differences(found: &Drift) -> Markup {
    html! {
        @if !found.entries.is_empty() {
            div.scroll { table {
                thead { tr { th { "Path or option" } th { "Other masters" } } }
                tbody { @for entry in &found.entries { tr {
                    th { code { (inline(&entry.name)) } }
                    td { (by_master(&entry.on)) }
                } } }
            } }
            @if found.more { div.body.small.muted { "More differs than is listed." } }
        }
        @else if found.compared_with.is_empty() { div.empty { "Not compared with another master." } }
        @else { div.empty { "Equal on this master and " (inline(&found.compared_with.join(", "))) "." } }
        @if !found.not_compared.is_empty() { div.body.small.muted { "Not compared with: " (inline(&found.not_compared.join(", "))) } }
    }
}

fn by_master(on: &Value) -> Markup {
    let Some(masters) = on.as_map() else { return inline(&on.to_string()) };
    html! { @for (master, what) in masters { div { (inline(&master.to_string())) ": " (inline(&what.to_string())) } } }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;
    use crate::rows::Entry;

    #[test]
    fn what_differs_is_shown_by_master() {
        let mut found = Drift {
            kinds: Vec::new(),
            entries: Vec::new(),
            more: false,
            compared_with: vec!["m2".to_owned()],
            not_compared: vec!["m3".to_owned()],
        };
        let equal = differences(&found).0;
        assert!(equal.contains("Equal on this master and m2.") && equal.contains("Not compared with: m3"), "{equal}");
        found.entries.push(Entry { name: "external_auth:<b>".to_owned(), on: map! { "m2" => "missing" }.into() });
        let shown = differences(&found).0;
        assert!(shown.contains("external_auth:&lt;b&gt;") && shown.contains("m2: missing"), "{shown}");
    }
}
