//! One minion: what is known of it without asking it, its jobs, and what only it can say.

use maud::{Markup, html};
use value::{Map, Value, map};

use super::form::{Fields, packed};
use super::text::{brief, inline, readable};
use super::view::{View, part};
use super::{Answer, layout, minions, output, overview};
use crate::failure::Failure;
use crate::fleet::{JobQuery, MinionRow};

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

/// A tab of the page.
struct Tab {
    name: &'static str,
    title: &'static str,
    /// True if the master keeps it.
    cached: bool,
    /// The function with which the minion says it.
    function: Option<&'static str>,
    about: &'static str,
}

const TABS: [Tab; 6] = [
    Tab { name: "", title: "Overview", cached: false, function: None, about: "" },
    Tab {
        name: "grains",
        title: "Grains",
        cached: true,
        function: Some("grains.items"),
        about: "Facts about the minion",
    },
    Tab {
        name: "pillar",
        title: "Pillar",
        cached: true,
        function: Some("pillar.items"),
        about: "Data for this minion. Asking the minion compiles it again",
    },
    Tab {
        name: "mine",
        title: "Mine",
        cached: true,
        function: Some("mine.update"),
        about: "What the minion publishes for others. Asking the minion updates the mine",
    },
    Tab {
        name: "schedule",
        title: "Schedule",
        cached: false,
        function: Some("schedule.list"),
        about: "Jobs that the minion starts itself",
    },
    Tab {
        name: "beacons",
        title: "Beacons",
        cached: false,
        function: Some("beacons.list"),
        about: "What the minion watches",
    },
];

fn tab(name: Option<&str>) -> &'static Tab {
    TABS.iter().find(|tab| Some(tab.name) == name).unwrap_or(&TABS[0])
}

fn checked(id: &str) -> Result<wire::MinionId, Failure> {
    wire::MinionId::new(id).map_err(|_| Failure::bad_request("The path has no valid id of a minion"))
}

/// Shows the page.
///
/// # Errors
/// When the session has ended, or nobody knows the minion.
pub async fn show(view: &View<'_>, id: &str, fields: &Fields) -> Result<Answer, Failure> {
    let minion = checked(id)?;
    let tab = tab(fields.get("show"));
    let jid = fields.get("jid").filter(|jid| wire::Jid::is_valid(jid));
    let (mut frame, row) = tokio::try_join!(view.frame_of_set(id, "/minions"), view.fleet.minion(&minion))?;
    frame.live = match jid {
        Some(jid) => format!("salt/job/{jid}/ret/{id} salt/minion/{id}/ salt/presence/"),
        None => format!("salt/job/*/ret/{id} salt/minion/{id}/ salt/presence/"),
    };
    let row = row.ok_or_else(|| Failure::new(404, format!("No master knows the minion '{id}'")))?;
    let body = match tab.name {
        "" => overview(view, &minion, &row).await?,
        _ => tab_content(view, &minion, tab, jid).await?,
    };
    let run = |fun: &str| format!("{}/run?{}", view.base, packed([("tgt", id), ("tgt_type", "list"), ("fun", fun)]));
    let body = html! {
        (layout::headline(
            &html! { span.crumb { a href={ (view.base) "/minions" } { "Minions" } } (inline(id)) },
            &html! { a.button href=(run("test.ping")) { "Ping" } a.button href=(run("state.apply")) { "Apply states" } a.button.main href=(run("")) { "Run" } },
        ))
        nav.tabs aria-label="About the minion" {
            @for one in &TABS {
                a href={ (view.minion(id)) @if !one.name.is_empty() { "?show=" (one.name) } } aria-current=[(one.name == tab.name).then_some("page")] { (one.title) }
            }
        }
        (body)
    };
    Ok(layout::framed(&frame, &body).into())
}

async fn overview(view: &View<'_>, minion: &wire::MinionId, row: &MinionRow) -> Result<Markup, Failure> {
    let id = minion.as_str();
    let query = JobQuery { limit: JOBS, minion: Some(id.to_owned()), ..JobQuery::default() };
    let (jobs, grains) = tokio::join!(view.fleet.jobs(&query), view.fleet.cached("grains", minion));
    Ok(html! {
        div.grid {
            section.card.third id="now" data-part {
                header { h2 { "Now" } }
                div.body { (now(view, row)) }
                (part(grains, |grains| first(&grains))?)
            }
            section.card.two id="jobs" data-part {
                header { h2 { "Jobs" } a.more href={ (view.base) "/jobs?" (packed([("minion", id)])) } { "All" } }
                (part(jobs, |page| overview::jobs_table(view, &page.items))?)
            }
        }
    })
}

/// Shows what the master keeps of a minion, or what it said in a job.
async fn tab_content(
    view: &View<'_>,
    minion: &wire::MinionId,
    tab: &Tab,
    jid: Option<&str>,
) -> Result<Markup, Failure> {
    let id = minion.as_str();
    let (about, shown) = match (jid, tab.cached) {
        (Some(jid), _) => {
            let returned = view.fleet.brief_returns(jid, None, 1, false).await;
            let whole = format!("{}/returns/{}", view.job(jid), super::text::in_path(id));
            let shown = part(returned, |page| match page.items.into_iter().find(|row| row.id == id) {
                Some(row) => html! { div.body { (output::returned(&row.returned, &whole)) } },
                None => html! { div.empty { "The minion has not answered yet." } },
            })?;
            (html! { "as the minion says in " a href=(view.job(jid)) { "job " (jid) } }, shown)
        }
        (None, true) => {
            let known = view.fleet.cached(tab.name, minion).await;
            (html! { "as the master has it in its cache" }, part(known, |known| kept(&known))?)
        }
        (None, false) => (html! {}, html! { div.empty { "Only the minion knows this." } }),
    };
    Ok(html! {
        section.card {
            header {
                h2 { (tab.title) }
                span.muted.small { (about) }
                @if let Some(function) = tab.function {
                    form.more method="post" action=(view.minion(id)) {
                        button.tiny name="ask" value=(tab.name) title=(function) { "Ask the minion" }
                    }
                }
            }
            div id="told" data-part { (shown) }
            div.body.small.muted { (tab.about) @if let Some(function) = tab.function { " (" code { (function) } ")" } "." }
        }
    })
}

fn kept(known: &Map) -> Markup {
    match known.is_empty() {
        true => html! { div.empty { "The master has nothing of this in its cache." } },
        false => html! { div.body { (output::text(&readable(&known.clone().into()), None)) } },
    }
}

/// Has the minion say something, with the rights of the user.
///
/// # Errors
/// When the user may not, or the master does not answer.
pub async fn ask(view: &View<'_>, id: &str, form: &Fields) -> Result<Answer, Failure> {
    let minion = checked(id)?;
    let tab = tab(form.get("ask"));
    let function = tab.function.ok_or_else(|| Failure::bad_request("The form does not say what to ask"))?;
    let named = match tab.name {
        "schedule" => map! { "show_all" => true, "return_yaml" => false },
        "beacons" => map! { "return_yaml" => false },
        _ => Map::new(),
    };
    let command = map! {
        "client" => "local_async", "tgt" => vec![minion.as_str()], "tgt_type" => "list", "fun" => function, "kwarg" => named,
    };
    let jid = view.publish(command).await?.ok_or_else(|| Failure::new(404, "No minion matches."))?;
    // What is sent to the mine is shown from there.
    let query = packed([("show", tab.name), ("jid", if tab.name == "mine" { "" } else { jid.as_str() })]);
    Ok(Answer::Moved(format!("{}?{query}", view.minion(minion.as_str()))))
}

fn now(view: &View<'_>, row: &MinionRow) -> Markup {
    html! {
        dl.facts {
            dt { "State" } dd { (minions::status(row.status)) }
            @if !row.masters.is_empty() { dt { "Masters" } dd { (inline(&row.masters.join(", "))) } }
            @if let Some(time) = &row.last_seen { dt { "Seen" } dd { (view.ago(time)) } }
            @if let Some(highstate) = &row.highstate { dt { "Highstate" } dd { (minions::last(view, highstate)) } }
        }
    }
}

fn first(grains: &Map) -> Markup {
    if grains.is_empty() {
        return html! { div.body.muted { "No grains are cached." } };
    }
    let first = FIRST.into_iter().filter_map(|(name, title)| Some((title, grains.get(name)?)));
    html! { div.body { dl.facts { @for (title, grain) in first { dt { (title) } dd { (brief(&short(grain), 300)) } } } } }
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
        let shown = first(&map! { "osfinger" => "<b>Debian\x1b", "ipv4" => list!["127.0.0.1", "10.0.0.1"] }).0;
        assert!(
            shown.contains("&lt;b&gt;Debian<span class=\"ctl\">\\x1b</span>") && shown.contains("127.0.0.1, 10.0.0.1")
        );
        assert!(!shown.contains("<b>Debian") && first(&Map::new()).0.contains("No grains"));
        assert!(!kept(&map! { "a" => "<b>" }).0.contains("<b>") && kept(&Map::new()).0.contains("nothing of this"));
    }

    #[test]
    fn an_unknown_tab_is_the_first() {
        assert_eq!(
            (tab(Some("pillar")).title, tab(Some("odd")).title, tab(None).title),
            ("Pillar", "Overview", "Overview")
        );
    }
}
