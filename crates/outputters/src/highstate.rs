//! `highstate`: the results of states, with a summary per minion.

mod changes;
mod compress;
mod summary;
mod terse;

use ::value::{Map, Value};

use super::WrongShape;
use super::settings::Settings;
use super::text::{fill, lines, trim};
use changes::Changes;
use summary::Counts;

/// Formats a highstate return: minion to results.
///
/// The wrappers of an orchestration (`data`) and of a job look-up (`return`), and a bare string, are removed first. Inside the
/// changes of another highstate the level is greater than 1.
pub fn output(data: &Value, settings: &Settings, level: usize) -> Result<String, WrongShape> {
    let data = unwrap(data);
    let hosts = match data {
        Value::Str(text) => return Ok(text.clone()),
        Value::Null => return Ok("None".into()),
        // Salt fails on a bare number and prints it with `nested`.
        Value::Map(map) => map,
        _ => return Err(WrongShape),
    };
    // An orchestration adds its own `retcode` beside the results of `<id>_master`; it is not a minion.
    let orchestration =
        hosts.contains_key("retcode") && hosts.text_keys().filter(|key| key.ends_with("_master")).count() == 1;
    let folded = if settings.state_compress_ids { compress::compress(hosts) } else { None };
    let hosts = folded.as_ref().unwrap_or(hosts);
    let mut texts = Vec::new();
    for (host, results) in hosts {
        if !(orchestration && host.as_str() == Some("retcode")) {
            texts.push(format_host(&host.to_string(), results, settings, level)?.0);
        }
    }
    if texts.is_empty() {
        tracing::error!("Data passed to highstate outputter is not a valid highstate return: {data}");
    }
    Ok(texts.join("\n"))
}

/// Removes the wrappers of the results.
fn unwrap(data: &Value) -> &Value {
    let data = data.get("return").unwrap_or(data);
    let data = data.get("data").unwrap_or(data);
    let Some(map) = data.as_map().filter(|map| map.len() == 1) else { return data };
    let only = map.values().next().and_then(Value::as_map);
    match only.filter(|only| only.contains_key("jid") && only.contains_key("fun")) {
        Some(job) => job.get("return").and_then(|ret| ret.get("data")).unwrap_or(data),
        None => data,
    }
}

/// Formats the results of one minion, and returns whether anything changed.
fn format_host(host: &str, results: &Value, settings: &Settings, level: usize) -> Result<(String, bool), WrongShape> {
    let colors = &settings.colors;
    let end = &colors.end;
    let mut report =
        Report { settings, level, color: colors.green.to_string(), lines: Vec::new(), counts: Counts::default() };
    match results {
        Value::Bool(_) | Value::Int(_) | Value::BigInt(_) => report.plain([results.to_string().as_str()]),
        Value::Str(text) => report.plain(lines(text)),
        Value::List(errors) => report.errors(errors),
        Value::Map(map) => report.states(host, map)?,
        _ => {}
    }
    // At the end, because its colour depends on all states.
    report.lines.insert(0, format!("{}{host}:{end}", report.color));
    Ok((report.lines.join("\n"), report.counts.changes > 0))
}

struct Report<'a> {
    settings: &'a Settings,
    level: usize,
    /// The colour of the minion's name.
    color: String,
    lines: Vec<String>,
    counts: Counts,
}

impl Report<'_> {
    /// The result of a function that an orchestration ran; it always counts as a change.
    fn plain<'b>(&mut self, lines: impl IntoIterator<Item = &'b str>) {
        let colors = &self.settings.colors;
        self.counts.changes = 1;
        self.lines.extend(lines.into_iter().map(|line| format!("{}    {line}{}", colors.green, colors.end)));
        self.color = colors.cyan.to_string();
    }

    fn errors(&mut self, errors: &[Value]) {
        let colors = &self.settings.colors;
        self.color = colors.light_red.to_string();
        self.lines.push(format!("    {}Data failed to compile:{}", colors.light_red, colors.end));
        for error in errors {
            self.lines.push(format!("{}----------\n    {error}{}", colors.light_red, colors.end));
        }
    }

    fn states(&mut self, host: &str, results: &Map) -> Result<(), WrongShape> {
        for (tag, result) in in_order(results, &mut self.lines) {
            self.state(tag, result)?;
        }
        let summary = self.counts.summary(host, self.settings);
        self.lines.extend(summary);
        Ok(())
    }

    fn state(&mut self, tag: &str, state: &Map) -> Result<(), WrongShape> {
        let result = state.get("result").ok_or(WrongShape)?;
        let names = Names::parse(tag)?;
        let folded = compress::count(tag, self.settings);
        self.counts.add(result, folded, state)?;
        let changes = Changes::of(state, self.settings, self.level)?;
        self.counts.changes += changes.count(state, folded);
        // A result of `None`, a change that would be made, is always shown.
        let unchanged_good = result.truthy() && !changes.any;
        if unchanged_good && (self.settings.state_output_diff || !self.settings.state_verbose) {
            return Ok(());
        }
        let color = self.color_state(result, changes.any);
        let names = names.for_mode(&self.settings.state_output);
        match self.form(result, &changes) {
            Form::Hidden => {}
            Form::Terse => self.lines.push(terse::line(&color, &names, state, result, self.settings)?),
            Form::Full => self.full(&color, &names, state, &changes)?,
        }
        Ok(())
    }

    /// Returns the colour of a state, and passes failures on to the colour of the minion's name.
    fn color_state(&mut self, result: &Value, changed: bool) -> String {
        let colors = &self.settings.colors;
        let trouble = match result {
            Value::Bool(false) => &colors.red,
            Value::Null => &colors.light_yellow,
            _ if changed => return colors.cyan.to_string(),
            _ => return colors.green.to_string(),
        };
        self.color = trouble.to_string();
        trouble.to_string()
    }

    fn form(&self, result: &Value, changes: &Changes) -> Form {
        let mode = self.settings.state_output.as_str();
        let failed = *result == Value::Bool(false);
        if mode.starts_with("filter") {
            let result = result.to_string();
            // Terse wins over hidden, as in Salt.
            return if self.settings.state_output_terse.contains(&result) {
                Form::Terse
            } else if self.settings.state_output_exclude.contains(&result) {
                Form::Hidden
            } else {
                Form::Full
            };
        }
        let terse = mode.starts_with("terse")
            || (mode.starts_with("mixed") && !failed)
            || (mode.starts_with("changes") && result.truthy() && !changes.any);
        if terse { Form::Terse } else { Form::Full }
    }

    fn full(&mut self, color: &str, names: &Names, state: &Map, changes: &Changes) -> Result<(), WrongShape> {
        let end = self.settings.colors.end.clone();
        let mut fields =
            vec![("ID", names.id.to_owned()), ("Function", format!("{}.{}", names.module, names.function))];
        // Salt omits the name where it only repeats the id.
        if names.id != names.name {
            fields.push(("Name", names.name.to_owned()));
        }
        fields.push(("Result", text_of(state.get("result"))));
        fields.push(("Comment", comment(state)?));
        if self.settings.state_output_profile && state.contains_key("start_time") {
            fields.push(("Started", text_of(state.get("start_time"))));
            let duration = state.get("duration").map(Value::to_string).filter(|text| !text.is_empty());
            fields.push(("Duration", duration.map_or(String::new(), |text| format!("{text} ms"))));
        }
        self.lines.push(format!("{color}----------{end}"));
        self.lines.extend(fields.iter().map(|(label, text)| format!("    {color}{label:>8}: {text}{end}")));
        self.lines.push(format!("{color}     Changes:   {}{end}", changes.text));
        if let Some(warnings) = state.get("warnings") {
            self.counts.warnings += 1;
            let text = fill(&joined(warnings), 80, 14);
            self.lines.push(format!("   {} Warnings: {}{end}", self.settings.colors.light_red, text.trim_start()));
        }
        Ok(())
    }
}

enum Form {
    Hidden,
    Terse,
    Full,
}

/// The parts of a result's tag, `pkg_|-vim_|-vim_|-installed`.
struct Names<'a> {
    module: &'a str,
    id: &'a str,
    name: &'a str,
    function: &'a str,
}

impl<'a> Names<'a> {
    fn parse(tag: &'a str) -> Result<Self, WrongShape> {
        let parts: Vec<&str> = tag.split("_|-").collect();
        match parts[..] {
            [module, id, name, function, ..] => Ok(Names { module, id, name, function }),
            _ => Err(WrongShape),
        }
    }

    /// The modes with `_id` show the id in place of the name.
    fn for_mode(self, mode: &str) -> Self {
        if mode.ends_with("_id") { Names { name: self.id, ..self } } else { self }
    }
}

/// Returns the results in the order they ran, and reports those without an order.
fn in_order<'a>(results: &'a Map, lines: &mut Vec<String>) -> Vec<(&'a str, &'a Map)> {
    let mut states = Vec::new();
    for (tag, info) in results {
        let (Some(tag), Some(info)) = (tag.as_str(), info.as_map()) else { continue };
        // Salt inserts both at the top, so the last such state is printed first.
        if tag != "changes" && !info.is_empty() && !info.contains_key("__run_num__") {
            lines.insert(0, super::pformat(&info.clone().into()));
            lines.insert(0, NO_ORDER.to_owned());
        }
        if info.contains_key("result") {
            states.push((tag, info));
        }
    }
    states.sort_by_key(|(_, info)| info.get("__run_num__").and_then(Value::as_i64).unwrap_or(0));
    states
}

/// These are Salt's words; people search for them.
const NO_ORDER: &str = "The State execution failed to record the order in which all states were executed. The state \
                        return missing data is:";

fn text_of(value: Option<&Value>) -> String {
    value.map(Value::to_string).unwrap_or_default()
}

fn joined(list: &Value) -> String {
    let items = list.as_list().into_iter().flatten().map(Value::to_string);
    items.collect::<Vec<_>>().join("\n")
}

/// Returns the comment with its later lines indented, and the state's `data`.
fn comment(state: &Map) -> Result<String, WrongShape> {
    let comment = state.get("comment").ok_or(WrongShape)?.to_string();
    let mut text = trim(&comment).replace('\n', &format!("\n{:14}", ""));
    match state.get("data") {
        None => {}
        Some(Value::List(items)) => items.iter().for_each(|item| text.push_str(&format!(" {item}"))),
        Some(Value::Map(map)) => map.iter().for_each(|(key, value)| text.push_str(&format!("\n\t\t{key}: {value}"))),
        Some(other) => text.push_str(&format!(" {other}")),
    }
    Ok(text)
}
