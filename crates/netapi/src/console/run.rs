//! Running a function: first which minions it would reach, then the job.

use maud::{Markup, html};
use value::{Map, Value, map};
use yaml::args::{parse_cli_arg, parse_input, parse_kwarg};

use super::form::{Fields, packed};
use super::text::{self, inline};
use super::view::{View, concerns_page, function, target};
use super::{Answer, again, layout, manual, publish};
use crate::failure::Failure;
use crate::fleet::{JobHead, Preview, PreviewQuery};
use crate::pack;

/// The types of targets, the most used first.
const KINDS: [(&str, &str); 10] = [
    ("glob", "Glob"),
    ("compound", "Compound"),
    ("list", "List"),
    ("grain", "Grain"),
    ("pcre", "Regular expression"),
    ("nodegroup", "Node group"),
    ("pillar", "Pillar"),
    ("ipcidr", "Network"),
    ("grain_pcre", "Grain, regular expression"),
    ("pillar_pcre", "Pillar, regular expression"),
];

/// The number of minions from which on a preview comes first.
const FEW: u64 = 10;

/// The number of ids of each list in a preview.
const IDS: usize = 100;

/// The form of a job to run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunForm {
    /// The target.
    pub target: String,
    kind: String,
    /// The function.
    pub function: String,
    /// The arguments, one in each line.
    arguments: String,
    test: bool,
    /// How many minions run it at a time: a number, or a part such as `25%`. Empty for all.
    batch: String,
}

impl RunForm {
    fn read(fields: &Fields) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        let kind = fields.get("tgt_type").filter(|kind| KINDS.iter().any(|(known, _)| known == kind));
        RunForm {
            target: text("tgt"),
            kind: kind.unwrap_or("glob").to_owned(),
            function: text("fun"),
            arguments: text("arg"),
            test: fields.get("test").is_some(),
            batch: text("batch"),
        }
    }

    /// Returns the fields of the form.
    pub fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("tgt", &self.target),
            ("tgt_type", &self.kind),
            ("fun", &self.function),
            ("arg", &self.arguments),
            ("test", if self.test { "yes" } else { "" }),
            ("batch", &self.batch),
        ]
    }

    /// Returns the arguments as `salt` reads them: `name=value` is one by name.
    fn parsed(&self) -> (Vec<Value>, Map) {
        let lines = self.arguments.lines().map(str::trim).filter(|line| !line.is_empty());
        let (positional, mut named) = parse_input(lines, &[]);
        if self.test {
            named.insert("test", true);
        }
        (positional, named)
    }

    /// Returns the question whom it would reach.
    pub fn query(&self) -> PreviewQuery {
        let (positional, named) = self.parsed();
        PreviewQuery {
            target: match self.kind.as_str() {
                "list" => client::target_list(&self.target),
                _ => self.target.as_str().into(),
            },
            target_type: self.kind.clone(),
            function: Some(self.function.as_str().into()).filter(|_| !self.function.is_empty()),
            arguments: yaml::args::condition_input(positional, named),
        }
    }

    fn command(&self) -> Map {
        let (positional, named) = self.parsed();
        map! {
            "client" => "local_async", "tgt" => self.target.as_str(), "tgt_type" => self.kind.as_str(),
            "fun" => self.function.as_str(), "arg" => positional, "kwarg" => named,
        }
    }

    /// Returns whether the function changes minions in ways that nobody can foresee.
    fn is_dangerous(&self) -> bool {
        let module = self.function.split('.').next().unwrap_or_default();
        let tests = self.test || self.arguments.lines().any(|line| matches!(line.trim(), "test=True" | "test=true"));
        matches!(module, "cmd" | "system" | "state" | "pkg" | "service") && !tests
    }
}

/// Shows the form.
///
/// # Errors
/// When the session has ended.
pub async fn show(view: &View<'_>, fields: &Fields) -> Result<Answer, Failure> {
    let job = RunForm::read(fields);
    let seen = match job.target.is_empty() {
        true => None,
        false => Some(view.fleet.preview(&job.query()).await),
    };
    page(view, &job, seen, fields.get("doc").filter(|jid| wire::Jid::is_valid(jid))).await
}

/// Shows which minions the job would reach, or publishes it. All minions, or many, are shown before.
///
/// # Errors
/// When the session has ended, or the master does not answer.
pub async fn run(view: &View<'_>, form: &Fields) -> Result<Answer, Failure> {
    let job = RunForm::read(form);
    let act = form.get("act");
    if act == Some("doc") {
        return match manual::ask(view, &job).await {
            Err(failure) if !concerns_page(&failure) => page(view, &job, Some(Err(failure)), None).await,
            other => other,
        };
    }
    if job.target.is_empty() || (act == Some("run") && job.function.is_empty()) {
        let missing = if job.target.is_empty() { "Say which minions." } else { "Say which function." };
        return page(view, &job, Some(Err(Failure::bad_request(missing))), None).await;
    }
    let seen = view.fleet.preview(&job.query()).await;
    let ready = matches!(&seen, Ok(preview) if act == Some("run") && may_run(&job, preview, form.get("confirmed")));
    if !ready {
        return page(view, &job, Some(seen), None).await;
    }
    let published = match job.batch.is_empty() {
        true => view.publish(job.command()).await,
        false => publish::in_batches(view, job.command(), &job.batch).await,
    };
    match published {
        Ok(Some(jid)) => Ok(Answer::Moved(view.job(&jid))),
        Ok(None) => page(view, &job, Some(Err(Failure::new(404, "No minion answers."))), None).await,
        Err(failure) if !concerns_page(&failure) => page(view, &job, Some(Err(failure)), None).await,
        Err(failure) => Err(failure),
    }
}

/// Returns whether the job is published at once: for few minions, or if the user has seen for how many.
fn may_run(job: &RunForm, preview: &Preview, confirmed: Option<&str>) -> bool {
    let seen = confirmed.and_then(|count| count.parse().ok()) == Some(preview.count);
    let few = preview.count <= FEW && job.target != "*";
    preview.count > 0 && preview.allowed != Some(false) && (seen || few)
}

async fn page(
    view: &View<'_>,
    job: &RunForm,
    seen: Option<Result<Preview, Failure>>,
    doc: Option<&str>,
) -> Result<Answer, Failure> {
    let (mut frame, again) = tokio::try_join!(view.frame_of_set("Run", "/run"), again::lists(view))?;
    let doc = match doc {
        Some(jid) => {
            frame.live = format!("salt/job/{jid}/ret/");
            manual::documentation(view, jid, &job.function).await?
        }
        None => html! {},
    };
    let shown = match &seen {
        None => html! { div.empty { "The minions that a job would reach appear here." } },
        Some(Ok(preview)) => previewed(view.base, job, preview),
        Some(Err(failure)) if failure.status == 401 => return Err(failure.clone()),
        Some(Err(failure)) => html! { div.body { div.notice.bad role="alert" { (inline(&failure.message)) } } },
    };
    let body = html! {
        (layout::headline(&html! { "Run" }, &html! {}))
        div.grid {
            div.stack.half {
                section.card { header { h2 { "Command" } } div.body { (form(view.base, job)) } }
                (again)
            }
            div.stack.half {
                section.card id="preview" { header { h2 { "Minions" } } (shown) }
                (doc)
            }
        }
    };
    Ok(layout::framed(&frame, &body).into())
}

/// Returns the address at which a job can be run again.
pub fn again(base: &str, job: &JobHead) -> String {
    again_on(base, job, &target(&job.tgt), &job.tgt_type)
}

/// Returns the address at which a job can be run on other minions.
pub fn again_on(base: &str, job: &JobHead, tgt: &str, kind: &str) -> String {
    let (fun, arguments) = (function(&job.fun), lines(job.arg.as_list().unwrap_or_default()));
    let fields = [("tgt", tgt), ("tgt_type", kind), ("fun", fun.as_str()), ("arg", arguments.as_str())];
    format!("{base}/run?{}", packed(fields))
}

fn form(base: &str, job: &RunForm) -> Markup {
    html! {
        form.fields method="post" action={ (base) "/run" } data-preview {
            div.pair {
                label { "Target" input name="tgt" required value=(text::attribute(&job.target)) placeholder="web*" autocapitalize="none" spellcheck="false"; }
                label { "Type" select name="tgt_type" { @for (kind, title) in KINDS { option value=(kind) selected[kind == job.kind] { (title) } } } }
            }
            label { "Function" input name="fun" value=(text::attribute(&job.function)) placeholder="test.ping" list="functions" autocapitalize="none" spellcheck="false"; }
            datalist id="functions" {
                @for name in ["test.ping", "test.version", "state.apply", "state.highstate", "grains.items", "pillar.items", "pkg.upgrade", "pkg.install", "service.restart", "service.status", "cmd.run", "saltutil.refresh_pillar", "saltutil.sync_all", "saltutil.running", "disk.usage", "status.uptime", "network.ip_addrs", "sys.doc"] {
                    option value=(name) {}
                }
            }
            label { "Arguments" textarea name="arg" rows="4" placeholder="one in each line, such as nginx or refresh=True" spellcheck="false" { (job.arguments) } }
            label { span { "Batch " span.hint.muted { "minions at a time; empty for all" } }
                input name="batch" value=(text::attribute(&job.batch)) placeholder="10 or 25%" autocapitalize="none" spellcheck="false"; }
            label.flat { input type="checkbox" name="test" value="yes" checked[job.test]; span { "Test only (" code { "test=True" } "): states say what they would change" } }
            div.line { button name="act" value="preview" { "Preview" } button.main name="act" value="run" { "Run" } button name="act" value="doc" formnovalidate { "Documentation" } }
            p.small.muted { "Jobs for " code { "*" } " and for more than " (FEW) " minions are previewed before they run." }
        }
    }
}

fn previewed(base: &str, job: &RunForm, preview: &Preview) -> Markup {
    let count = text::count(preview.count as usize);
    let minions = if preview.count == 1 { "minion" } else { "minions" };
    let granted = |id: &&String| !preview.refused.contains(id);
    let reached: Vec<String> = preview.minions.iter().filter(granted).cloned().collect();
    html! {
        div.body {
            p { strong { (count) " " (minions) }
                @if preview.away_count > 0 { " " (layout::tag("warn", &format!("{} away", text::count(preview.away_count as usize)))) }
                @if preview.refused_count > 0 { " " (layout::tag("bad", &format!("{} not granted", text::count(preview.refused_count as usize)))) } }
            @if preview.count == 0 { div.notice.warn { "No minion that you may see matches." } }
            @if preview.allowed == Some(false) { div.notice.bad role="alert" { "Your entries in external_auth do not grant this job, so the master would refuse it." } }
            (ids(if preview.allowed == Some(false) { "Target" } else { "Will run on" }, preview.count.saturating_sub(preview.refused_count), &reached))
            (ids("Away now", preview.away_count, &preview.away))
            (ids("Not granted", preview.refused_count, &preview.refused))
            @if !preview.granted_by.is_empty() {
                p.small.muted { "Granted by " @for entry in &preview.granted_by { code { (inline(&entry.entry.to_string())) } " " } }
            }
            @if preview.count > 0 && preview.allowed != Some(false) && !job.function.is_empty() {
                form method="post" action={ (base) "/run" } {
                    @for (name, value) in job.fields() {
                        @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                    }
                    input type="hidden" name="confirmed" value=(preview.count);
                    button.main.danger[job.is_dangerous()] name="act" value="run" { "Run " (inline(&job.function)) " on " (count) " " (minions) @if !job.batch.is_empty() { ", " (inline(&job.batch)) " at a time" } }
                }
            }
        }
    }
}

fn ids(title: &str, count: u64, ids: &[String]) -> Markup {
    let shown = ids.len().min(IDS);
    html! {
        @if shown > 0 {
            details id={ "ids-" (title.replace(' ', "-")) } open {
                summary.small.muted { (title) }
                ul.ids { @for id in &ids[..shown] { li { span { (inline(id)) } } } }
                @if count as usize > shown { p.small.muted { "and " (text::count(count as usize - shown)) " more" } }
            }
            br;
        }
    }
}

/// Writes arguments one in each line, so that reading them gives the same.
fn lines(arguments: &[Value]) -> String {
    let mut lines = Vec::new();
    for argument in arguments {
        match argument {
            Value::Map(map) if map.get("__kwarg__").is_some_and(Value::truthy) => {
                let named = map.iter().filter(|(name, _)| name.as_str() != Some("__kwarg__"));
                lines.extend(named.map(|(name, value)| format!("{name}={}", line(value))));
            }
            other => lines.push(line(other)),
        }
    }
    lines.join("\n")
}

fn line(value: &Value) -> String {
    if let Value::Str(text) = value
        && text.trim() == text
        && !text.is_empty()
        && !text.contains('\n')
        && parse_kwarg(text).is_none()
        && parse_cli_arg(text) == *value
    {
        return text.clone();
    }
    pack::json(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    fn job(text: &str) -> RunForm {
        RunForm::read(&Fields::parse(text.as_bytes()).unwrap())
    }

    fn preview(count: u64) -> Preview {
        Preview {
            count,
            minions: (0..count.min(IDS as u64 * 2)).map(|number| format!("web{number}<b>")).collect(),
            away_count: 0,
            away: Vec::new(),
            allowed: Some(true),
            refused_count: 0,
            refused: Vec::new(),
            granted_by: Vec::new(),
        }
    }

    #[test]
    fn arguments_are_read_as_by_salt() {
        let command = job("tgt=web*&fun=pkg.install&arg=nginx%0Arefresh%3DTrue%0A%0A%5B1%2C2%5D&test=yes").command();
        assert_eq!(command.get("arg"), Some(&list!["nginx", list![1, 2]]));
        assert_eq!(command.get("kwarg"), Some(&map! { "refresh" => true, "test" => true }.into()));
        assert_eq!(job("tgt=a,b&tgt_type=list").query().target, list!["a", "b"]);
        assert_eq!(job("tgt=a&tgt_type=odd").kind, "glob");
    }

    #[test]
    fn what_was_run_can_be_run_again() {
        let arguments = list![
            "nginx",
            "1",
            1,
            "a=b",
            "two\nlines",
            list!["x"],
            "",
            " x",
            map! { "test" => true, "name" => "1", "__kwarg__" => true }
        ];
        let arguments = arguments.into_list().unwrap();
        let text = lines(&arguments);
        let (positional, named) = parse_input(text.lines(), &[]);
        assert_eq!(yaml::args::condition_input(positional, named), arguments, "{text}");
    }

    #[test]
    fn many_minions_are_shown_before() {
        let few = job("tgt=web*&fun=test.ping");
        let all = job("tgt=*&fun=test.ping");
        assert!(may_run(&few, &preview(10), None) && !may_run(&few, &preview(11), None));
        assert!(may_run(&few, &preview(11), Some("11")) && !may_run(&few, &preview(12), Some("11")));
        assert!(!may_run(&all, &preview(1), None) && may_run(&all, &preview(1), Some("1")));
        assert!(!may_run(&few, &preview(0), Some("0")));
        assert!(!may_run(&few, &Preview { allowed: Some(false), ..preview(1) }, None));
    }

    #[test]
    fn a_preview_is_bounded_and_names_the_number() {
        let shown = previewed("/console", &job("tgt=*&fun=cmd.run&arg=%3Cscript%3E"), &preview(10_000)).0;
        assert!(shown.len() < 20_000 && !shown.contains("<b>") && !shown.contains("<script>"));
        assert!(shown.contains("Run cmd.run on 10\u{202f}000 minions") && shown.contains("danger"));
        assert!(!job("fun=state.apply&test=yes").is_dangerous() && job("fun=state.apply").is_dangerous());
    }
}
