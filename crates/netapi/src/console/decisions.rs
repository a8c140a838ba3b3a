//! What masters of a set decided about keys: conflicts that are settled, and decisions that are undone.

use std::collections::BTreeSet;

use maud::{Markup, html};
use value::{Map, Value, map};

use super::form::{Fields, packed};
use super::text::{self, inline};
use super::view::{View, part};
use super::{Answer, keys, layout};
use crate::failure::Failure;

/// The number of decisions that are shown.
const ROWS: usize = 200;

/// From when on decisions are shown if nothing else is said.
const SINCE: &str = "1w";

/// Shows conflicts and decisions. Both are runners, so the page is not loaded again by itself.
///
/// # Errors
/// When the session has ended, or the master does not answer.
pub async fn show(view: &View<'_>, fields: &Fields) -> Result<Answer, Failure> {
    let frame = view.frame_of_set("Decisions about keys", "/keys").await?;
    let since = fields.get("since").unwrap_or(SINCE);
    let asked = map! { "by" => fields.get("by"), "about" => fields.get("about"), "since" => since };
    let conflicts = match frame.conflicts {
        0 => None,
        _ => Some(called(view, "saltern.conflicts", Map::new()).await),
    };
    let decisions = called(view, "saltern.decisions", asked).await;
    let names: Vec<&str> = frame.masters.iter().map(|mark| mark.name.as_str()).collect();
    let body = html! {
        (layout::headline(&html! { "Keys" }, &html! {
            form.line method="get" role="search" {
                input type="search" name="about" placeholder="Minion" aria-label="Minion" size="14" value=(fields.get("about").unwrap_or_default());
                input type="search" name="by" placeholder="Master" aria-label="Master" size="10" value=(fields.get("by").unwrap_or_default());
                input type="search" name="since" placeholder="Since: 2h" aria-label="Since" size="9" value=(since);
                button { "Filter" }
            }
        }))
        (keys::tabs(view.base, "decisions", fields, true))
        @if let Some(conflicts) = conflicts { (part(conflicts, |found| conflicting(view.base, &found))?) }
        (part(decisions, |found| listed(view.base, &found))?)
        (undo_form(view.base, &names))
    };
    Ok(layout::framed(&frame, &body).into())
}

/// Calls a runner whose answer is data. One that fails answers with a text.
async fn called(view: &View<'_>, fun: &str, named: Map) -> Result<Value, Failure> {
    match view.call("runner", fun, named).await? {
        Value::Str(reason) => Err(Failure::bad_request(reason)),
        answer => Ok(answer),
    }
}

fn field<'a>(decision: &'a Value, name: &str) -> &'a str {
    decision.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A way to settle a conflict: the state, and the key if several are known.
type Way<'a> = (&'static str, Option<&'a str>);

/// Returns the ways to settle a conflict, as `saltern.conflicts` names them.
fn ways(decisions: &[Value]) -> Vec<Way<'_>> {
    let keys: BTreeSet<&str> =
        decisions.iter().map(|one| field(one, "fingerprint")).filter(|key| !key.is_empty()).collect();
    let accepted = decisions.iter().any(|one| field(one, "state") == "accepted");
    let mut ways = Vec::new();
    for decision in decisions {
        let finger = Some(field(decision, "fingerprint")).filter(|finger| !finger.is_empty() && keys.len() > 1);
        let way = match field(decision, "state") {
            "deleted" => ("deleted", None),
            "rejected" => ("rejected", finger),
            // Who only saw it waiting wanted nothing.
            "pending" if accepted => continue,
            _ => ("accepted", finger),
        };
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

fn conflicting(base: &str, found: &Value) -> Markup {
    let conflicts = found.as_map().into_iter().flatten();
    html! {
        section.card id="conflicts" {
            header { h2 { "Conflicts" } span.more.muted { "Masters decided differently while they were not linked. Until you settle it, the safer decision counts." } }
            @for (id, conflict) in conflicts {
                @let id = id.to_string();
                @let decisions = conflict.get("decisions").and_then(Value::as_list).unwrap_or_default();
                div.group {
                    div.title { strong { (inline(&id)) } }
                    div.scroll { table { tbody { @for one in decisions { tr {
                        td { (state(field(one, "state"))) @if one.get("obeyed") == Some(&true.into()) { " " span.small.muted { "counts now" } } }
                        td { "on " (inline(field(one, "master"))) " by " (inline(field(one, "by"))) }
                        td.nowrap { (inline(field(one, "at"))) }
                        td { span.finger { (inline(field(one, "fingerprint"))) } }
                    } } } } }
                    div.line { @for (state, finger) in ways(decisions) {
                        form method="post" action={ (base) "/keys/settle" } {
                            input type="hidden" name="id" value=(id);
                            input type="hidden" name="state" value=(state);
                            @if let Some(finger) = finger { input type="hidden" name="fingerprint" value=(finger); }
                            button.danger[state != "accepted"] { (settle_title(state)) @if let Some(finger) = finger { " " code { (text::brief(finger, 11)) } } }
                        }
                    } }
                }
            }
        }
    }
}

fn settle_title(state: &str) -> &'static str {
    match state {
        "accepted" => "Accept the key",
        "rejected" => "Reject the key",
        _ => "Delete the key",
    }
}

fn state(state: &str) -> Markup {
    let look = match state {
        "accepted" => "ok",
        "pending" => "warn",
        _ => "bad",
    };
    layout::tag(look, state)
}

fn listed(base: &str, found: &Value) -> Markup {
    let all = found.as_list().unwrap_or_default();
    html! {
        section.card id="decisions" {
            header { h2 { "Decisions" } span.more.muted { "the latest first, of all masters" } }
            @if all.is_empty() { div.empty { "No decision since then." } } @else {
                div.scroll { table {
                    thead { tr { th { "When" } th { "About" } th { "State" } th.wide-only { "Master" } th.wide-only { "By" } th.wide-only { "Fingerprint" } th { span.unseen { "Actions" } } } }
                    tbody { @for one in all.iter().rev().take(ROWS) { tr {
                        td { (inline(field(one, "at"))) }
                        th { (inline(field(one, "key"))) @if field(one, "class") != "keys" { " " span.small.muted { "master" } } }
                        td { (state(field(one, "state"))) @if one.get("obeyed") == Some(&false.into()) { " " span.small.muted { "replaced" } } }
                        td.wide-only { (inline(field(one, "master"))) }
                        td.wide-only { (inline(field(one, "by"))) }
                        td.wide-only { span.finger { (text::brief(field(one, "fingerprint"), 23)) } }
                        td.nowrap { @if field(one, "class") == "keys" && field(one, "state") != "pending" {
                            form method="post" action={ (base) "/keys/undo" } {
                                input type="hidden" name="by" value=(field(one, "master"));
                                input type="hidden" name="since" value=(field(one, "at"));
                                input type="hidden" name="about" value=(field(one, "key"));
                                button.tiny aria-label={ "Undo the decision about " (text::attribute(field(one, "key"))) } { "Undo" }
                            }
                        } }
                    } } }
                } }
                @if all.len() > ROWS { div.body.small.muted { "and " (text::count(all.len() - ROWS)) " older ones" } }
            }
        }
    }
}

fn undo_form(base: &str, masters: &[&str]) -> Markup {
    html! {
        section.card {
            header { h2 { "Undo what a master decided" } span.more.muted { "such as by somebody who was not allowed to; you see first what would change" } }
            form.body.line method="post" action={ (base) "/keys/undo" } {
                label { "Master " select name="by" { @for name in masters { option { (name) } } } }
                label { "Since " input name="since" required placeholder="2h" size="16"; }
                button { "Show what would change" }
            }
        }
    }
}

/// Shows what undoing would do, or does it.
///
/// # Errors
/// When the form is wrong, the user may not, or the master does not answer.
pub async fn undo(view: &View<'_>, form: &Fields) -> Result<Answer, Failure> {
    let confirmed = form.get("confirmed").is_some();
    let asked = map! {
        "by" => form.get("by"), "since" => form.get("since"), "about" => form.get("about"),
        "yes" => confirmed.then_some(true),
    };
    let answer = called(view, "saltern.undo", asked).await?;
    if confirmed {
        let count = answer.get("changed").map(ToString::to_string).unwrap_or_default();
        let query = packed([("done", "undone"), ("count", count.as_str())]);
        return Ok(Answer::Moved(format!("{}/keys/decisions?{query}", view.base)));
    }
    Ok(layout::framed(&view.frame("Undo decisions", "/keys"), &undoing(view.base, form, &answer)).into())
}

fn undoing(base: &str, form: &Fields, answer: &Value) -> Markup {
    let keys = answer.get("keys").and_then(Value::as_map).cloned().unwrap_or_default();
    let by = form.get("by").unwrap_or_default();
    html! {
        (layout::headline(&html! { span.crumb { a href={ (base) "/keys/decisions" } { "Decisions" } } "Undo decisions of " (inline(by)) }, &html! {}))
        section.card {
            @if keys.is_empty() { div.empty { "Nothing would change: no such decision counts, or the keys would be as they are without it." } }
            @else {
                div.scroll { table {
                    thead { tr { th { "Minion" } th { "Now" } th { "Becomes" } } }
                    tbody { @for (id, change) in &keys { tr {
                        th { (inline(&id.to_string())) } td { (state(field(change, "is"))) } td { (state(field(change, "becomes"))) }
                    } } }
                } }
                form.body.line method="post" action={ (base) "/keys/undo" } {
                    @for name in ["by", "since", "about"] {
                        @if let Some(value) = form.get(name) { input type="hidden" name=(name) value=(value); }
                    }
                    input type="hidden" name="confirmed" value="yes";
                    button.danger.main { "Change " (text::count(keys.len())) @if keys.len() == 1 { " key" } @else { " keys" } " on all masters" }
                    a.button href={ (base) "/keys/decisions" } { "Cancel" }
                }
            }
            @if answer.get("members_left_as_they_are").is_some() { div.body.small.muted { "Decisions about masters are not undone here." } }
        }
    }
}

/// Settles a conflict.
///
/// # Errors
/// When the form is wrong, the user may not, or the master does not answer.
pub async fn settle(view: &View<'_>, form: &Fields) -> Result<Answer, Failure> {
    let id = form.get("id").filter(|id| wire::MinionId::new(*id).is_ok());
    let id = id.ok_or_else(|| Failure::bad_request("The form names no minion"))?;
    let asked = map! { "id" => id, "state" => form.get("state"), "fingerprint" => form.get("fingerprint") };
    called(view, "saltern.settle", asked).await?;
    Ok(Answer::Moved(format!("{}/keys/decisions?{}", view.base, packed([("done", "settled"), ("count", "1")]))))
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    fn decision(state: &str, finger: &str) -> Value {
        map! { "class" => "keys", "key" => "<b>", "state" => state, "master" => "m1", "by" => "fred", "at" => "2026-11-26 03:10:22", "fingerprint" => finger }
            .into()
    }

    #[test]
    fn a_conflict_can_be_settled_by_each_decision() {
        let one = [decision("accepted", "aa"), decision("pending", "aa"), decision("deleted", "")];
        assert_eq!(ways(&one), [("accepted", None), ("deleted", None)]);
        let two = [decision("accepted", "aa"), decision("rejected", "bb")];
        assert_eq!(ways(&two), [("accepted", Some("aa")), ("rejected", Some("bb"))]);
        let found = map! { "<i>" => map! { "decisions" => Value::List(two.to_vec()) } };
        let shown = conflicting("/console", &found.into()).0;
        assert!(shown.contains("&lt;i&gt;") && !shown.contains("<i>") && shown.contains("Reject the key"));
    }

    #[test]
    fn decisions_are_undone_one_by_one_after_a_look() {
        let shown = listed("/console", &list![decision("accepted", "aa")]).0;
        assert!(shown.contains("name=\"since\" value=\"2026-11-26 03:10:22\"") && !shown.contains("<b>"));
        let form = Fields::parse(b"by=m1&since=2h").unwrap();
        let would = map! { "keys" => map! { "web1" => map! { "is" => "accepted", "becomes" => "pending" } } };
        let shown = undoing("/console", &form, &would.into()).0;
        assert!(shown.contains("Change 1 key on all masters") && shown.contains("name=\"confirmed\""));
        assert!(!undoing("/console", &form, &map! { "keys" => map! {} }.into()).0.contains("confirmed"));
    }
}
