//! Keys: those that wait first, with fingerprints. A decision counts on all masters.

use std::collections::BTreeMap;

use maud::{Markup, html};
use targeting::acl::Form;
use value::{Map, Value, map};

use super::form::{Fields, packed};
use super::text::{self, inline};
use super::view::{View, part};
use super::{Answer, layout};
use crate::failure::Failure;
use crate::fleet::{KeyQuery, KeyRow, Page};

/// The number of keys of a page.
const ROWS: usize = 200;

/// The states of keys: the name, the title of the tab, the class in requests to the master, and how it looks.
const STATES: [(&str, &str, &str, &str); 4] = [
    ("pending", "Pending", "minions_pre", "warn"),
    ("accepted", "Accepted", "minions", "ok"),
    ("rejected", "Rejected", "minions_rejected", "bad"),
    ("denied", "Denied", "minions_denied", "bad"),
];

/// Shows keys of one state.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>, fields: &Fields) -> Result<Answer, Failure> {
    let wanted =
        fields.get("state").filter(|state| STATES.iter().any(|(known, ..)| known == state)).unwrap_or("pending");
    let query = KeyQuery {
        limit: ROWS,
        after: fields.get("after").map(str::to_owned),
        q: fields.get("q").map(str::to_owned),
        state: Some(wanted.to_owned()),
        ..KeyQuery::default()
    };
    let mut frame = view.frame_of_set("Keys", "/keys").await?;
    frame.live = "salt/auth salt/key saltern/".to_owned();
    let may = |act: &str| view.may(Form::Wheel, &function(act));
    let acts: Vec<Act> = acts(wanted).iter().copied().filter(|(act, _)| may(act)).collect();
    let body = part(view.fleet.keys(&query).await, |page| listed(view.base, wanted, &acts, fields, &page))?;
    let body = html! {
        (layout::headline(&html! { "Keys" }, &html! {
            form.line method="get" role="search" {
                input type="hidden" name="state" value=(wanted);
                input type="search" name="q" placeholder="Part of an id" aria-label="Part of an id" value=(fields.get("q").unwrap_or_default());
                button { "Search" }
            }
        }))
        (tabs(view.base, wanted, fields, !frame.masters.is_empty()))
        (body)
    };
    Ok(layout::framed(&frame, &body).into())
}

/// The tabs: one for each state, and one for decisions if there are several masters.
pub fn tabs(base: &str, wanted: &str, fields: &Fields, shares: bool) -> Markup {
    html! {
        nav.tabs aria-label="States of keys" {
            @for (state, title, ..) in STATES {
                a href={ (base) "/keys?" (packed([("state", state), ("q", fields.get("q").unwrap_or_default())])) }
                    aria-current=[(state == wanted).then_some("page")] { (title) }
            }
            @if shares { a href={ (base) "/keys/decisions" } aria-current=[(wanted == "decisions").then_some("page")] { "Decisions" } }
        }
    }
}

/// What can be done with a key: the name, and the title of the button.
type Act = (&'static str, &'static str);

/// Returns the wheel function of an act. It takes ids by class: in a glob a letter of an id could mean other minions.
fn function(act: &str) -> String {
    format!("key.{act}_dict")
}

/// Returns the word of a state for what can be done with its keys.
fn acts(state: &str) -> &'static [Act] {
    match state {
        "pending" => &[("accept", "Accept"), ("reject", "Reject"), ("delete", "Delete")],
        "accepted" => &[("reject", "Reject"), ("delete", "Delete")],
        "rejected" => &[("accept", "Accept"), ("delete", "Delete")],
        _ => &[("delete", "Delete")],
    }
}

/// The table of keys with its form.
fn listed(base: &str, wanted: &str, acts: &[Act], fields: &Fields, page: &Page<KeyRow>) -> Markup {
    if page.items.is_empty() && page.next.is_none() {
        return html! {
            div.card id="keys" data-part { div.empty {
                @match (wanted, fields.get("q")) {
                    (_, Some(_)) => { "No key matches." }
                    ("pending", None) => { "No key is pending. A new minion appears here after its first sign-in." }
                    _ => { "No keys." }
                }
            } }
        };
    }
    html! {
        form.card method="post" action={ (base) "/keys" } id="keys" data-part {
            input type="hidden" name="state" value=(wanted);
            header {
                div.line {
                    @if acts.is_empty() { span.muted { "external_auth grants you no decision about these keys." } }
                    @for (act, title) in acts {
                        button.main[*act == "accept"].danger[*act == "delete"] name="act" value=(act) { (title) " selected" }
                    }
                }
                span.more.muted { "Applies to all masters. Compare fingerprints with " code { "salt-call --local key.finger" } " on the minion." }
            }
            div.scroll { table {
                thead { tr {
                    th.check { @if !acts.is_empty() { input.js type="checkbox" data-all aria-label="Select all"; } }
                    th { "Minion" } th { "Fingerprint" } th { span.unseen { "Actions" } }
                } }
                tbody { @for key in &page.items { (row(base, wanted, acts, key)) } }
            } }
            (pages(base, fields, page))
        }
    }
}

fn row(base: &str, wanted: &str, acts: &[(&str, &str)], key: &KeyRow) -> Markup {
    let chosen = Chosen::of(key).packed();
    html! {
        tr {
            td.check { @if !acts.is_empty() { input type="checkbox" name="key" value=(chosen) aria-label={ "Select " (text::attribute(&key.id)) }; } }
            th { @if wanted == "accepted" { a href={ (base) "/minions/" (text::in_path(&key.id)) } { (inline(&key.id)) } } @else { (inline(&key.id)) } }
            td { @match &key.fingerprint { Some(finger) => { span.finger { (inline(finger)) } } None => { span.muted { "The key cannot be read" } } } }
            td.nowrap {
                @if let Some((act, title)) = acts.first().filter(|(act, _)| *act == "accept") {
                    button.tiny name="one" value={ (act) "|" (chosen) } aria-label={ (title) " " (text::attribute(&key.id)) } { (title) }
                }
            }
        }
    }
}

fn pages(base: &str, fields: &Fields, page: &Page<KeyRow>) -> Markup {
    html! {
        div.pages {
            span.where { (text::count(page.items.len())) @if page.items.len() == 1 { " key" } @else { " keys" }
                @if page.next.is_some() || fields.get("after").is_some() { " on this page" } }
            @if fields.get("after").is_some() { a.button href={ (base) "/keys?" (fields.with("after", None)) } { "First page" } }
            @if let Some(next) = &page.next { a.button href={ (base) "/keys?" (fields.with("after", Some(next))) } { "Next" } }
        }
    }
}

/// A key in a form: as the user saw it.
#[derive(Clone, Debug, PartialEq)]
struct Chosen {
    state: String,
    fingerprint: String,
    id: String,
}

impl Chosen {
    fn of(key: &KeyRow) -> Self {
        let fingerprint = key.fingerprint.clone().unwrap_or_default();
        Chosen { state: key.state.clone(), fingerprint, id: key.id.clone() }
    }

    fn packed(&self) -> String {
        format!("{}|{}|{}", self.state, self.fingerprint, self.id)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '|').map(str::to_owned);
        let chosen = Chosen { state: parts.next()?, fingerprint: parts.next()?, id: parts.next()? };
        (bank(&chosen.state).is_some() && wire::MinionId::new(chosen.id.as_str()).is_ok()).then_some(chosen)
    }
}

fn bank(state: &str) -> Option<&'static str> {
    STATES.iter().find(|(known, ..)| *known == state).map(|(.., bank, _)| *bank)
}

/// Decides about the keys in a form. What cuts minions off is confirmed first.
///
/// # Errors
/// When the form is wrong, the user may not decide, or the master does not answer.
pub async fn decide(view: &View<'_>, form: &Fields) -> Result<Answer, Failure> {
    let (act, keys) = read(form)?;
    let state = keys.first().map(|key| key.state.clone()).unwrap_or_else(|| "pending".to_owned());
    let back = |done: &str, count: usize| {
        let query = packed([("state", state.as_str()), ("done", done), ("count", count.to_string().as_str())]);
        Answer::Moved(format!("{}/keys?{query}", view.base))
    };
    if keys.is_empty() {
        let query = packed([("state", form.get("state").unwrap_or_default()), ("done", "none")]);
        return Ok(Answer::Moved(format!("{}/keys?{query}", view.base)));
    }
    if !view.may(Form::Wheel, &function(act)) {
        return Err(not_granted(act));
    }
    if (act == "delete" || state == "accepted") && form.get("confirmed").is_none() {
        let frame = view.frame(if act == "delete" { "Delete keys" } else { "Reject keys" }, "/keys");
        return Ok(layout::framed(&frame, &confirmation(view.base, act, &state, &keys)).into());
    }
    let asked = keys.len();
    // Nobody can have compared a key that cannot be read. It may still be deleted.
    let keys: Vec<Chosen> = keys.into_iter().filter(|key| act == "delete" || !key.fingerprint.is_empty()).collect();
    let count = match keys.is_empty() {
        true => 0,
        false => change(view, act, &keys).await?,
    };
    Ok(if count == asked { back(done(act), count) } else { back("changed", count) })
}

fn done(act: &str) -> &'static str {
    match act {
        "accept" => "accepted",
        "reject" => "rejected",
        _ => "deleted",
    }
}

/// Reads what is to be done with which keys: all that are marked, or the one whose button was used.
fn read(form: &Fields) -> Result<(&'static str, Vec<Chosen>), Failure> {
    let wrong = || Failure::bad_request("The form has a key that cannot be right");
    let (act, texts) = match form.get("one").and_then(|one| one.split_once('|')) {
        Some((act, key)) => (Some(act), vec![key]),
        None => (form.get("act"), form.all("key").collect()),
    };
    let act = ["accept", "reject", "delete"].into_iter().find(|known| act == Some(known));
    let act = act.ok_or_else(|| Failure::bad_request("The form does not say what to do"))?;
    let keys: Option<Vec<Chosen>> = texts.into_iter().map(Chosen::read).collect();
    let keys = keys.ok_or_else(wrong)?;
    let may = |key: &Chosen| acts(&key.state).iter().any(|(known, _)| *known == act);
    match keys.iter().all(may) {
        true => Ok((act, keys)),
        false => Err(wrong()),
    }
}

fn not_granted(act: &str) -> Failure {
    Failure::new(403, format!("external_auth does not grant you the wheel function {}", function(act)))
}

/// Has the master change keys that are as the user saw them: another one may have come under the same id. Returns how many it changed.
async fn change(view: &View<'_>, act: &str, keys: &[Chosen]) -> Result<usize, Failure> {
    let (mut banks, mut fingerprints) = (BTreeMap::<&str, Vec<Value>>::new(), Map::new());
    for key in keys {
        if !key.fingerprint.is_empty() {
            fingerprints.insert(key.id.as_str(), key.fingerprint.as_str());
        }
        banks.entry(bank(&key.state).unwrap_or_default()).or_default().push(key.id.as_str().into());
    }
    let dict: Map = banks.into_iter().map(|(bank, ids)| (bank, Value::List(ids))).collect();
    let mut named = map! { "match" => dict, "fingerprints" => fingerprints };
    match act {
        "accept" => drop(named.insert("include_rejected", true)),
        "reject" => drop(named.insert("include_accepted", true)),
        _ => {}
    }
    let event = match view.call("wheel", &function(act), named).await {
        Err(failure) if failure.status == 403 => return Err(not_granted(act)),
        other => other?,
    };
    let data = event.get("data");
    if data.and_then(|data| data.get("success")).and_then(Value::as_bool) == Some(false) {
        let reason = data.and_then(|data| data.get("return")).map(ToString::to_string).unwrap_or_default();
        return Err(Failure::new(500, reason));
    }
    let changed = data.and_then(|data| data.get("return")?.get("changed")?.as_list());
    changed.map(<[Value]>::len).ok_or_else(|| {
        tracing::error!("the master does not say which keys it has changed: is it as new as salt-api?");
        Failure::unexpected()
    })
}

fn confirmation(base: &str, act: &str, state: &str, keys: &[Chosen]) -> Markup {
    let word = if act == "delete" { "Delete" } else { "Reject" };
    let count = text::count(keys.len());
    let title = if keys.len() == 1 { format!("{word} 1 key") } else { format!("{word} {count} keys") };
    html! {
        (layout::headline(&html! { (title) "?" }, &html! {}))
        form.card method="post" action={ (base) "/keys" } {
            div.body.fields {
                p { "On all masters. These minions are cut off until their keys are accepted again. They sign in again by themselves"
                    @if act == "delete" { ", and then their keys are pending:" } @else { ", and are refused:" } }
                ul.ids { @for key in keys { li { span { (inline(&key.id)) } } } }
                @for key in keys { input type="hidden" name="key" value=(key.packed()); }
                input type="hidden" name="act" value=(act);
                input type="hidden" name="state" value=(state);
                input type="hidden" name="confirmed" value="yes";
                div.line { button.danger.main { (title) } a.button href={ (base) "/keys?" (packed([("state", state)])) } { "Cancel" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes()).unwrap()
    }

    fn key(id: &str) -> KeyRow {
        KeyRow { id: id.into(), state: "pending".into(), fingerprint: Some("aa:bb".into()) }
    }

    #[test]
    fn a_form_names_keys_as_they_were_seen() {
        let (act, keys) = read(&fields("act=accept&key=pending|aa:bb|web1&key=pending||web2")).unwrap();
        assert_eq!((act, keys.len(), keys[0].fingerprint.as_str()), ("accept", 2, "aa:bb"));
        let (act, keys) = read(&fields("one=accept|pending|cc|web3&act=delete&key=pending|aa|web1")).unwrap();
        assert_eq!((act, keys.len(), keys[0].id.as_str()), ("accept", 1, "web3"));
        for wrong in [
            "act=destroy",
            "act=accept&key=pending|aa",
            "act=accept&key=odd|aa|web1",
            "act=accept&key=pending|aa|../x",
            "act=accept&key=accepted|aa|web1",
            "key=pending|aa|web1",
        ] {
            assert_eq!(read(&fields(wrong)).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn a_key_that_was_replaced_is_another_key() {
        let chosen = |text| Chosen::read(text).unwrap();
        assert_eq!(chosen("pending|aa:bb|web1"), Chosen::of(&key("web1")));
        for other in ["pending|cc|web1", "pending||web1", "accepted|aa:bb|web1", "pending|aa:bb|web2"] {
            assert_ne!(chosen(other), Chosen::of(&key("web1")), "{other}");
        }
    }

    #[test]
    fn what_cuts_minions_off_is_confirmed_in_words() {
        let keys = [Chosen::read("accepted|aa|web1").unwrap(), Chosen::read("accepted|bb|web2").unwrap()];
        let shown = confirmation("/console", "reject", "accepted", &keys).0;
        assert!(shown.contains("Reject 2 keys") && shown.contains("and are refused"));
        assert!(shown.contains("name=\"act\" value=\"reject\"") && shown.contains("/keys?state=accepted"));
    }

    #[test]
    fn who_may_not_decide_has_no_buttons() {
        let page = Page { items: vec![key("web1")], next: None };
        let shown = listed("/console", "pending", &[], &fields(""), &page).0;
        assert!(shown.contains("grants you no decision") && !shown.contains("<button") && !shown.contains("checkbox"));
    }

    #[test]
    fn pages_of_keys_are_bounded_and_escaped() {
        let page =
            Page { items: (0..ROWS).map(|number| key(&format!("web{number}"))).collect(), next: Some("web9".into()) };
        let shown = listed("/console", "pending", acts("pending"), &fields("q=a%26b"), &page).0;
        assert!(shown.len() < 200_000 && shown.contains("after=web9") && shown.contains("q=a%26b"));
        let evil = Page { items: vec![key("<script>\u{202e}")], next: None };
        let shown = listed("/console", "pending", acts("pending"), &fields(""), &evil).0;
        assert!(!shown.contains("<script>") && shown.contains("&lt;script&gt;<span class=\"ctl\">\\u202e</span>"));
        let none = Page { items: Vec::new(), next: None };
        assert!(listed("/console", "pending", acts("pending"), &fields(""), &none).0.contains("No key is pending"));
    }
}
