//! Settings of the outputters, from flags and configuration.

use std::path::PathBuf;

use ::value::{Map, Value};

use super::color::Colors;

/// The indentation of `json`, `yaml` and `pprint`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Indent {
    /// Not set: each outputter has its own.
    #[default]
    Unset,
    /// Set to nothing: one line.
    OneLine,
    /// `pretty`: four blanks, with sorted keys.
    Pretty,
    /// The indentation in spaces; a negative number means one line.
    Width(i64),
}

/// The layout of terse lines of `highstate`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tabular {
    /// As a sentence.
    #[default]
    Off,
    /// In columns.
    On,
    /// In this format, in the syntax of Python's `str.format`.
    Format(String),
}

/// The settings of the outputters.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The colours.
    pub colors: Colors,
    /// Replace all escape characters in results; without it those of colours stay.
    pub strip_colors: bool,
    /// True if the text goes to a terminal.
    pub terminal: bool,
    /// The outputter of `--out` or of the configuration.
    pub output: Option<String>,
    /// True if everything is printed at the end (`--static`).
    pub static_run: bool,
    /// True if the function is a state function and everything is printed at the end.
    pub static_state: bool,
    /// Draw a progress bar and print nothing else.
    pub progress: bool,
    /// The indentation.
    pub indent: Indent,
    /// The file to append to.
    pub output_file: Option<PathBuf>,
    /// `full`, `terse`, `mixed`, `changes`, `filter`, or one of these with `_id`.
    pub state_output: String,
    /// Show states without changes.
    pub state_verbose: bool,
    /// Show only states with changes.
    pub state_output_diff: bool,
    /// Show start and duration.
    pub state_output_profile: bool,
    /// Show percentages in the summary.
    pub state_output_pct: bool,
    /// Merge states of one id.
    pub state_compress_ids: bool,
    /// The layout of terse lines.
    pub state_tabular: Tabular,
    /// With `filter`: results (`True`, `False`, `None`) that are omitted.
    pub state_output_exclude: Vec<String>,
    /// With `filter`: results that are shown in one line.
    pub state_output_terse: Vec<String>,
    /// Options of `table`, under their full names (`out.table.width`).
    pub table: Map,
}

impl Settings {
    /// Reads the settings from the merged options; `terminal` is true if standard output is a terminal.
    pub fn from_options(options: &Map, terminal: bool) -> Self {
        let flag = |name: &str, preset: bool| options.get(name).map_or(preset, Value::truthy);
        // `--force-color` wins over everything, even over `--no-color`.
        let colored = flag("force_color", false) || (!flag("no_color", false) && terminal && flag("color", true));
        let function = options.get_str("fun").unwrap_or("");
        Settings {
            colors: if colored { Colors::on() } else { Colors::off() },
            strip_colors: flag("strip_colors", true),
            terminal: terminal && options.get_str("output_file").is_none_or(str::is_empty),
            output: options.get_str("output").filter(|name| !name.is_empty()).map(str::to_owned),
            static_run: flag("static", false),
            static_state: flag("static", false) && function.split('.').next() == Some("state"),
            progress: flag("progress", false),
            indent: indent(options.get("output_indent")),
            output_file: options.get_str("output_file").filter(|path| !path.is_empty()).map(PathBuf::from),
            state_output: options.get_str("state_output").unwrap_or("full").to_lowercase(),
            state_verbose: flag("state_verbose", true),
            state_output_diff: flag("state_output_diff", false),
            state_output_profile: flag("state_output_profile", true),
            state_output_pct: flag("state_output_pct", false),
            state_compress_ids: flag("state_compress_ids", false),
            state_tabular: tabular(options.get("state_tabular")),
            state_output_exclude: filter(options, "exclude", "state_output_exclude"),
            state_output_terse: filter(options, "terse", "state_output_terse"),
            table: options
                .iter()
                .filter(|(name, _)| name.as_str().is_some_and(|name| name.starts_with("out.table.")))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// Returns the name of the outputter if a function requests `out`.
    pub fn choose(&self, out: Option<&str>) -> String {
        if self.progress {
            return "progress".into();
        }
        let wanted = out.filter(|name| !name.is_empty());
        match (&self.output, wanted) {
            // Operators set `output: highstate` for state runs and do not want it for `test.ping`.
            (Some(name), _) if name != "highstate" => name.clone(),
            (_, Some(name)) => name.to_owned(),
            (Some(name), None) if self.static_run => name.clone(),
            (None, None) if self.static_state => "highstate".into(),
            (_, None) => "nested".into(),
        }
    }
}

fn indent(value: Option<&Value>) -> Indent {
    match value {
        None => Indent::Unset,
        Some(Value::Str(text)) if text == "pretty" => Indent::Pretty,
        Some(Value::Int(width)) => Indent::Width(*width),
        // Above all `None`, which means one line in Salt.
        Some(_) => Indent::OneLine,
    }
}

fn tabular(value: Option<&Value>) -> Tabular {
    match value {
        Some(Value::Bool(true)) => Tabular::On,
        Some(Value::Str(format)) => Tabular::Format(format.clone()),
        _ => Tabular::Off,
    }
}

/// A keyword argument of the function overrides the option; both are a list or a string with commas.
fn filter(options: &Map, keyword: &str, option: &str) -> Vec<String> {
    let keywords = options.get("arg").and_then(Value::as_list).into_iter().flatten().filter_map(Value::as_map);
    // The last one given counts, as for Python's keyword arguments.
    let given = keywords.filter(|map| map.contains_key("__kwarg__")).filter_map(|map| map.get(keyword)).next_back();
    match given.or_else(|| options.get(option)) {
        Some(Value::Str(text)) => text.split(',').map(str::to_owned).collect(),
        Some(Value::List(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use ::value::map;

    use super::*;

    #[test]
    fn out_highstate_does_not_apply_to_other_results() {
        let settings = Settings::from_options(&map! { "output" => "highstate" }, false);
        assert_eq!(settings.choose(Some("nested")), "nested");
        assert_eq!(settings.choose(None), "nested");
        let settings = Settings::from_options(&map! { "output" => "highstate", "static" => true }, false);
        assert_eq!(settings.choose(None), "highstate");
        let settings = Settings::from_options(&map! { "output" => "json" }, false);
        assert_eq!(settings.choose(Some("highstate")), "json");
    }

    #[test]
    fn colours_follow_the_terminal_unless_a_flag_says_otherwise() {
        let colored = |options: Map, terminal| !Settings::from_options(&options, terminal).colors.end.is_empty();
        assert!(colored(map! {}, true));
        assert!(!colored(map! {}, false));
        assert!(colored(map! { "force_color" => true }, false));
        assert!(!colored(map! { "no_color" => true }, true));
        assert!(!colored(map! { "color" => false }, true));
    }
}
