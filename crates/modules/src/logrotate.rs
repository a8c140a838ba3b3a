//! `logrotate` — how logs are rotated.

use std::path::Path;

use exec::{Call, Context, Error, Module, Result, function};
use value::{Map, Value, map, python};

/// Registers the functions of `logrotate`.
pub static MODULE: Module =
    Module::new("logrotate", "Functions that look at how logs are rotated, and change it.", &[&GET, &SET, &SHOW_CONF]);

/// Directives that begin a script, which ends with `endscript`.
const SCRIPTS: [&str; 5] = ["firstaction", "lastaction", "prerotate", "postrotate", "preremove"];

/// The maximum nesting depth of includes.
const DEPTH: u32 = 8;

/// Reads an integer, or keeps the text.
fn plain(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

fn names_logs(word: &str) -> bool {
    word.starts_with(['/', '~', '"', '\'']) || word.contains(['*', '?', '['])
}

/// The state of reading a configuration.
#[derive(Default)]
struct Reader {
    found: Map,
    /// Names on separate lines that may precede a brace.
    waiting: Vec<String>,
    /// The block that is open, and the names it belongs to.
    block: Option<Map>,
    names: Vec<String>,
    /// The script that is open.
    script: Option<(String, Vec<Value>)>,
}

impl Reader {
    fn target(&mut self) -> &mut Map {
        self.block.as_mut().unwrap_or(&mut self.found)
    }

    fn line(&mut self, line: &str, depth: u32) -> Result<()> {
        let line = line.trim();
        if let Some((name, mut body)) = self.script.take() {
            // Nothing else is examined: a line of the script may hold braces or a `#`.
            if line == "endscript" {
                self.target().insert(name, body);
            } else {
                body.push(line.into());
                self.script = Some((name, body));
            }
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with('#') || words.is_empty() {
            return Ok(());
        }
        // Salt knows no brace at the end of a directive: any line with one ends the block.
        if line.contains('}') {
            let block = self.block.take().unwrap_or_default();
            for name in std::mem::take(&mut self.names) {
                // Several names in front of a brace share one block, and each of them is a key.
                self.found.insert(name, block.clone());
            }
            return Ok(());
        }
        if line.contains('{') {
            self.names = std::mem::take(&mut self.waiting);
            self.names.extend(words.iter().filter(|word| **word != "{").map(|word| (*word).to_owned()));
            self.block = Some(Map::new());
            return Ok(());
        }
        self.setting(&words, depth)
    }

    fn setting(&mut self, words: &[&str], depth: u32) -> Result<()> {
        if let ([word], None) = (words, &self.block) {
            // A path waits for its brace; a word such as `compress` counts at once and cannot become the name of a
            // block.
            if names_logs(word) {
                self.waiting.push((*word).to_owned());
            } else {
                self.found.insert(*word, true);
            }
            return Ok(());
        }
        let value = match words {
            [name] if SCRIPTS.contains(name) => {
                self.script = Some(((*name).to_owned(), Vec::new()));
                return Ok(());
            }
            [_] => true.into(),
            [name, folder] => {
                if *name == "include" {
                    self.include(folder, depth)?;
                }
                plain(folder)
            }
            [_, rest @ ..] => rest.join(" ").into(),
            [] => return Ok(()),
        };
        self.target().insert(words[0], value);
        Ok(())
    }

    /// Reads the files of an included directory.
    fn include(&mut self, folder: &str, depth: u32) -> Result<()> {
        if depth >= DEPTH {
            return Err(Error::execution(format!("files include each other too deeply: {folder}")));
        }
        let entries = std::fs::read_dir(folder).map_err(|error| Error::io("read", folder, &error))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        // A fixed order decides which file wins when two set the same directive.
        files.sort();
        let mut all = self.found.remove("include files").and_then(Value::into_map).unwrap_or_default();
        for file in files {
            let included = read(&file, depth + 1)?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Value::List(keys) = all.entry_or_insert_with(name, || Value::List(Vec::new())) {
                keys.extend(included.keys().cloned());
            }
            self.found.update(included);
        }
        self.found.update(map! { "include" => folder, "include files" => all });
        Ok(())
    }
}

fn read(path: &Path, depth: u32) -> Result<Map> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(line, depth)?;
    }
    // No brace followed: they were directives after all.
    for name in std::mem::take(&mut reader.waiting) {
        reader.found.insert(name, true);
    }
    Ok(reader.found)
}

fn configuration(ctx: &Context, file: &str) -> Result<Map> {
    let file = file.to_owned();
    ctx.blocking(move || read(Path::new(&file), 0))
}

/// Returns the configuration with all included files.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' logrotate.show_conf
#[function]
fn show_conf(ctx: &Context, #[default("/etc/logrotate.conf")] conf_file: String) -> Result<Map> {
    configuration(ctx, &conf_file)
}

/// Returns a setting, or one of a block; False if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' logrotate.get rotate
///     salt '*' logrotate.get /var/log/wtmp rotate
#[function]
fn get(
    ctx: &Context,
    key: String,
    #[default(Value::Null)] value: Value,
    #[default("/etc/logrotate.conf")] conf_file: String,
) -> Result<Value> {
    let found = configuration(ctx, &conf_file)?.remove(&key).unwrap_or(false.into());
    if !value.truthy() || !found.truthy() {
        return Ok(found);
    }
    let block = found.into_map().ok_or_else(|| Error::Other(format!("'{key}' is not a block")))?;
    Ok(block.get_value(&value).cloned().unwrap_or(false.into()))
}

/// Renders a block as the file has it.
fn written(name: &str, block: &Map) -> String {
    let mut text = String::new();
    for (setting, value) in block {
        match value {
            Value::List(lines) if SCRIPTS.iter().any(|script| setting.as_str() == Some(script)) => {
                text.push_str(&format!("    {setting}\n"));
                text.extend(lines.iter().map(|line| format!("        {line}\n")));
                text.push_str("    endscript\n");
            }
            // The blank at the end is Salt's; it joins an empty value to the name.
            Value::Bool(true) => text.push_str(&format!("    {setting} \n")),
            value => text.push_str(&format!("    {setting} {value}\n")),
        }
    }
    format!("{name} {{\n{text}}}")
}

/// Returns the arguments of `file.replace` for a change; `None` when nothing has to change.
fn replacement(conf: &Map, key: &str, value: &Value, setting: &Value) -> Result<Option<Map>> {
    let current = conf.get(key).cloned().unwrap_or(false.into());
    if setting.is_null() {
        if current.as_map().is_some() {
            return Err(Error::invocation(format!(
                "Error: {key} includes a dict, and a specific setting inside the dict was not declared"
            )));
        }
        if python::equal(value, &current) {
            return Ok(None);
        }
        let line = match value {
            Value::Bool(true) => key.to_owned(),
            value if value.truthy() => format!("{key} {value}"),
            _ => String::new(),
        };
        return Ok(Some(map! {
            // 8 is `re.MULTILINE`: the caret matches at each line.
            "flags" => 8, "pattern" => format!("^{key}.*"), "prepend_if_not_found" => true, "repl" => line,
        }));
    }
    if current.truthy() && current.as_map().is_none() {
        return Err(Error::invocation(
            "Error: A setting for a dict was declared, but the configuration line given is not a dict",
        ));
    }
    let mut block = current.into_map().unwrap_or_default();
    if python::equal(setting, block.get_value(value).unwrap_or(&false.into())) {
        return Ok(None);
    }
    if setting.truthy() {
        block.insert(value.clone(), setting.clone());
    } else {
        block.remove_value(value);
    }
    Ok(Some(map! {
        // 24 adds `re.DOTALL`, so that the pattern spans the whole block.
        "flags" => 24, "pattern" => format!("^{key}.*?{{.*?}}"), "append_if_not_found" => true,
        "repl" => written(key, &block),
    }))
}

/// Sets a setting, or with ``setting`` one of a block: then ``value`` is its name. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' logrotate.set rotate 2
///     salt '*' logrotate.set /var/log/wtmp rotate 2
#[function]
fn set(
    ctx: &Context,
    key: String,
    value: Value,
    #[default(Value::Null)] setting: Value,
    #[default("/etc/logrotate.conf")] conf_file: String,
) -> Result<Value> {
    let conf = configuration(ctx, &conf_file)?;
    // The directive is changed where it is set, which is rarely the main file.
    let mut included = conf.get("include files").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let holds = |keys: &Value| keys.as_list().is_some_and(|keys| keys.contains(&key.as_str().into()));
    // When several files set it, Salt takes the last one.
    let file = included.rfind(|(_, keys)| holds(keys)).map(|(name, _)| name.to_string());
    let path = match (file, conf.get_str("include")) {
        (Some(file), Some(folder)) => Path::new(folder).join(file).to_string_lossy().into_owned(),
        _ => conf_file,
    };
    let Some(mut wanted) = replacement(&conf, &key, &value, &setting)? else { return Ok(true.into()) };
    wanted.update(map! { "backup" => false, "path" => path, "show_changes" => false });
    ctx.call_with("file.replace", Call { args: Vec::new(), kwargs: wanted })
}
