//! `stateconf`: SLS data with local ids, settings for templates, and a state that represents the whole file.
//!
//! Ids that begin with a dot belong to their file: `.web` in `site.front` is `site.front::web`, and requisites of the file may
//! name it with the dot. Templates of this and later files read the settings of a state `stateconf.set` by its id. A
//! state `.goal` is added, which requires all others.

use std::sync::{LazyLock, Mutex, PoisonError};

use exec::Memo;
use fancy_regex::Regex;
use value::{Map, Value, list, map};

use super::stateconf_ids as ids;
use crate::pipe::Step;
use crate::{Error, Request};

/// The state that holds settings.
pub(super) const SET: &str = "stateconf.set";

/// The line that ends the part that is rendered first, for its settings.
static END_MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"#\s*-+\s*end of state config\s*-+").expect("it is valid"));

/// The separator between the renderer of data and that of templates: a dot between spaces.
static DOT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\s+(?<!\\)\.\s+").expect("it is valid"));

const USAGE: &str = "Invalid use of stateconf renderer!\nUsage: #!stateconf [-GoSp] [<data_renderer> [options] . \
                     <template_renderer> [options]]";

/// The settings of all files of a run, by the whole ids of their states.
#[derive(Default)]
struct Settings {
    own: Map,
    /// Those that other files add with `extend`.
    added: Map,
}

/// The options in the argument of the renderer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    no_goal: bool,
    in_order: bool,
    start: bool,
    takes_data: bool,
    /// The renderer of data, then the one of templates.
    renderers: Vec<Step>,
}

impl Options {
    fn of(argline: &str) -> Result<Self, Error> {
        let mut options = Options::default();
        let mut words = argline.split_whitespace().peekable();
        while let Some(flags) = words.next_if(|word| word.len() > 1 && word.starts_with('-')) {
            for flag in flags.chars().skip(1) {
                match flag {
                    'G' => options.no_goal = true,
                    'o' => options.in_order = true,
                    's' => options.start = true,
                    'p' => options.takes_data = true,
                    other => return Err(Error::new(format!("option -{other} not recognized"))),
                }
            }
        }
        let rest: Vec<&str> = words.collect();
        let rest = if rest.is_empty() { "yaml . jinja".to_owned() } else { rest.join(" ") };
        let parts = DOT.splitn(&rest, 2).map_while(Result::ok);
        options.renderers = parts
            .map(|part| {
                let part = part.trim().replace("\\.", ".");
                let (name, argline) = part.split_once(' ').unwrap_or((&part, ""));
                Step { name: name.to_owned(), argline: argline.trim().to_owned() }
            })
            .collect();
        if options.takes_data || options.renderers.len() == 2 { Ok(options) } else { Err(Error::new(USAGE)) }
    }
}

/// Runs one renderer over a text.
type RunStep<'a> = dyn Fn(&Step, Value, &Request) -> Result<Value, Error> + 'a;

/// Renders a text, or takes data, with the argument of the renderer. `run` runs the renderers that the argument names;
/// `memo` keeps the settings of the run.
pub(crate) fn render(
    run: &RunStep,
    memo: &Memo,
    data: Value,
    argline: &str,
    request: &Request,
) -> Result<Value, Error> {
    let options = Options::of(argline)?;
    let settings = memo.get::<Mutex<Settings>>();
    if options.takes_data {
        return finish(data, request, &options, &settings);
    }
    if options.in_order && options.renderers[0].name != "yaml" {
        return Err(Error::new("Implicit ordering is only supported if the yaml renderer is used!"));
    }
    let text = super::text(data)?;
    // The settings must be known before the rest of the file is rendered, which uses them. So the head is rendered
    // twice.
    if let Ok(Some(mark)) = END_MARK.find(&text) {
        let head = pass(run, &text[..mark.start()], &options, request, Map::new())?;
        let only_settings = Options { no_goal: true, start: options.start, ..Options::default() };
        finish(head, request, &only_settings, &settings)?;
    }
    let known = names(&settings, request.sls);
    let data = pass(run, &text, &options, request, known)?;
    finish(data, request, &options, &settings)
}

/// Runs a text through the two renderers.
fn pass(run: &RunStep, text: &str, options: &Options, request: &Request, known: Map) -> Result<Value, Error> {
    let mut context = request.context.cloned().unwrap_or_default();
    context.insert("sls_dir", folder(request.sls));
    context.update(known);
    let request = Request { context: Some(&context), ..*request };
    let text = run(&options.renderers[1], text.into(), &request)?;
    run(&options.renderers[0], text, &request)
}

/// Returns the directory of an SLS file, as templates know it.
fn folder(sls: &str) -> String {
    match sls.rsplit_once('.') {
        Some((folder, _)) => folder.replace('.', "/"),
        None if sls.is_empty() => ".".to_owned(),
        None => sls.to_owned(),
    }
}

/// Returns the settings by the names that a file uses: its own without its name.
fn names(settings: &Mutex<Settings>, sls: &str) -> Map {
    let settings = settings.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = format!("{sls}::");
    let short = |key: &Value| key.as_str().and_then(|key| key.strip_prefix(&prefix)).map_or(key.clone(), Value::from);
    settings.own.iter().map(|(key, value)| (short(key), value.clone())).collect()
}

/// Turns the file's data into high data.
fn finish(data: Value, request: &Request, options: &Options, settings: &Mutex<Settings>) -> Result<Value, Error> {
    let Value::Map(mut data) = data else {
        return Err(Error::new("High data is not a dictionary and is invalid"));
    };
    for (_, states) in data.iter_mut() {
        if let Value::Str(state) = states {
            *states = map! { state.as_str() => list![] }.into();
        }
    }
    ids::make_absolute(&mut data, request.sls, request.saltenv)?;
    if options.in_order {
        ids::require_in_order(&mut data)?;
    }
    if options.start {
        add_start(&mut data)?;
    }
    if !options.no_goal {
        add_goal(&mut data)?;
    }
    ids::rename(&mut data, request.sls)?;
    let mut settings = settings.lock().unwrap_or_else(PoisonError::into_inner);
    settings.take(&data);
    Ok(data.into())
}

/// Adds the state that comes before all others.
fn add_start(data: &mut Map) -> Result<(), Error> {
    if data.is_empty() {
        return Ok(());
    }
    if data.contains_key(".start") {
        return Err(Error::new("Can't generate start state(.start)! The same state id already exists!"));
    }
    let first = ids::declarations(data, true).into_iter().next();
    let (id, state) = first.ok_or_else(|| Error::new("Can't determine the first state in the sls file!"))?;
    data.insert(".start", map! { SET => list![map! { "require_in" => list![map! { state => id }] }] });
    Ok(())
}

/// Adds the state that requires all others.
fn add_goal(data: &mut Map) -> Result<(), Error> {
    if data.contains_key(".goal") {
        return Err(Error::new("Can't generate goal state(.goal)! The same state id already exists!"));
    }
    let all: Vec<Value> =
        ids::declarations(data, false).into_iter().map(|(id, state)| map! { state => id }.into()).collect();
    data.insert(".goal", map! { SET => list![map! { "require" => all }] });
    Ok(())
}

/// The requisites that are joined when another file extends settings.
const JOINED: [&str; 5] = ["require", "watch", "listen", "onchanges", "onfail"];

impl Settings {
    /// Remembers the settings of a file.
    fn take(&mut self, data: &Map) {
        for (id, states) in data {
            let Some(states) = states.as_map() else { continue };
            if id.as_str() == Some("extend") {
                for (id, states) in states {
                    if let Some(listed) = states.as_map().and_then(listed) {
                        add(&mut self.added, id, listed);
                    }
                }
                continue;
            }
            let Some(listed) = listed(states) else { continue };
            add(&mut self.own, id, listed);
            let Some(more) = self.added.get_value_mut(id).and_then(Value::as_map_mut) else { continue };
            let Some(own) = self.own.get_value_mut(id).and_then(Value::as_map_mut) else { continue };
            for requisite in JOINED {
                let theirs = own.get(requisite).and_then(Value::as_list).unwrap_or_default().to_vec();
                if let Some(Value::List(list)) = more.get_mut(requisite) {
                    list.extend(theirs);
                }
            }
            // Extensions by other files take precedence over the file's own settings, but requisites add up.
            own.update(more.clone());
        }
    }
}

/// The arguments of the state that holds settings, if a declaration has one.
fn listed(states: &Map) -> Option<&[Value]> {
    states.get("stateconf").or_else(|| states.get(SET)).and_then(Value::as_list)
}

fn add(settings: &mut Map, id: &Value, listed: &[Value]) {
    if let Value::Map(known) = settings.entry_or_insert_with(id.clone(), || Map::new().into()) {
        for (name, value) in listed.iter().filter_map(Value::as_map).filter_map(|pair| pair.iter().next()) {
            known.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_names_options_and_two_renderers() {
        let step = |name: &str, argline: &str| Step { name: name.to_owned(), argline: argline.to_owned() };
        let usual = vec![step("yaml", ""), step("jinja", "")];
        assert_eq!(Options::of("").unwrap(), Options { renderers: usual.clone(), ..Options::default() });
        let found = Options::of("-Gs yaml . jinja -s").unwrap();
        let renderers = vec![step("yaml", ""), step("jinja", "-s")];
        assert_eq!(found, Options { no_goal: true, start: true, renderers, ..Options::default() });
        assert!(Options::of("-o -p").unwrap().takes_data);
        assert_eq!(Options::of("-x").unwrap_err().to_string(), "option -x not recognized");
        assert!(Options::of("yaml").unwrap_err().to_string().starts_with("Invalid use of stateconf"));
    }
}
