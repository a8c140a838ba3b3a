//! Files of sections with `key = value`, as Python's `configparser` writes and reads them.

use exec::{Error, Result};
use value::{Map, Value};

use super::Options;

const DEFAULT: &str = "DEFAULT";

/// The longest chain of references from value to value.
const DEPTH_LIMIT: usize = 10;

/// Writes sections.
pub fn write(data: &Value, options: &Options) -> Result<String> {
    options.only(&["allow_no_value", "interpolation", "delimiters"])?;
    let allow_none = options.flag("allow_no_value", false);
    // Salt passes `interpolation: None` on to Python, which switches it off. Any other value leaves
    // the default on.
    let interpolate = !options.given.get("interpolation").is_some_and(Value::is_null);
    let delimiter =
        options.given.get("delimiters").and_then(|given| given.as_list()?.first()?.as_str().map(str::to_owned));
    let delimiter = delimiter.unwrap_or_else(|| "=".into());
    let Value::Map(sections) = data else {
        let kind = data.type_name();
        return Err(Error::execution(format!("configparser can only serialize dictionaries, not <class '{kind}'>")));
    };
    let mut out = String::new();
    let is_default = |name: &Value| name.to_string() == DEFAULT;
    // Python always writes `DEFAULT` first, wherever it was defined.
    let ordered = sections.iter().filter(|(name, _)| is_default(name));
    for (name, keys) in ordered.chain(sections.iter().filter(|(name, _)| !is_default(name))) {
        let Value::Map(keys) = keys else {
            let kind = keys.type_name();
            return Err(Error::execution(format!("'{kind}' object has no attribute 'items'")));
        };
        out.push_str(&format!("[{name}]\n"));
        let mut seen = Map::new();
        for (key, value) in keys {
            // Python lower-cases option names (`optionxform`). Of two that differ only in case the
            // later one wins.
            seen.insert(key.to_string().to_lowercase(), value.clone());
        }
        for (key, value) in &seen {
            match value {
                Value::Null if allow_none => out.push_str(&format!("{key}\n")),
                // Python writes a bare key only if `allow_no_value` is set.
                Value::Null => return Err(Error::execution("option values must be strings")),
                value => {
                    let text = value.to_string();
                    if interpolate {
                        check_percents(&text)?;
                    }
                    // A line that starts with a tab continues the value when the file is read
                    // again.
                    out.push_str(&format!("{key} {delimiter} {}\n", text.replace('\n', "\n\t")));
                }
            }
        }
        out.push('\n');
    }
    Ok(out)
}

/// A `%` has to be doubled or to begin a reference.
fn check_percents(text: &str) -> Result<()> {
    let mut rest = text.replace("%%", "");
    while let Some(place) = rest.find("%(") {
        let end = rest[place..].find(")s").map(|end| place + end + 2);
        let Some(end) = end else { break };
        rest.replace_range(place..end, "");
    }
    match rest.find('%') {
        Some(place) => Err(Error::execution(format!(
            "invalid interpolation syntax in {} at position {place}",
            value::python::repr_str(text)
        ))),
        None => Ok(()),
    }
}

/// Reads sections. Values of `DEFAULT` hold in all of them.
pub fn read(text: &str, options: &Options) -> Result<Value> {
    options.only(&["allow_no_value", "interpolation"])?;
    let allow_none = options.flag("allow_no_value", false);
    let interpolate = !options.given.get("interpolation").is_some_and(Value::is_null);
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate() {
        reader.line(number + 1, line, allow_none)?;
    }
    let mut sections = Map::new();
    for (name, keys) in reader.sections.iter().filter(|(name, _)| name.as_str() != Some(DEFAULT)) {
        // Own values win over those of `DEFAULT`.
        let mut all = reader.sections.get(DEFAULT).and_then(Value::as_map).cloned().unwrap_or_default();
        all.update(keys.as_map().cloned().unwrap_or_default());
        let mut section = Map::new();
        for (key, value) in &all {
            let value = match value.as_str() {
                Some(text) => {
                    let text = text.trim_end_matches('\n');
                    Value::from(if interpolate { filled(text, &all, 0)? } else { text.to_owned() })
                }
                None => Value::Null,
            };
            section.insert(key.clone(), value);
        }
        sections.insert(name.clone(), section);
    }
    Ok(sections.into())
}

#[derive(Default)]
struct Reader {
    sections: Map,
    section: Option<String>,
    key: Option<String>,
    indent: usize,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, allow_none: bool) -> Result<()> {
        let wrong = |what: &str| Err(Error::Other(format!("{what} in line {number}: {line:?}")));
        let text = line.trim();
        // Comments are recognized even inside a value of several lines, as in Python.
        if text.starts_with(['#', ';']) {
            return Ok(());
        }
        let indent = line.len() - line.trim_start().len();
        if text.is_empty() {
            self.append("");
            return Ok(());
        }
        // Deeper indentation than that of the key means that the value continues.
        if indent > self.indent && self.key.is_some() && self.section.is_some() {
            self.append(text);
            return Ok(());
        }
        self.indent = indent;
        if let Some(name) = text.strip_prefix('[').and_then(|rest| Some(rest.rsplit_once(']')?.0)) {
            // Python's strict mode, the default, refuses a repeated section.
            if self.sections.contains_key(name) && name != DEFAULT {
                return wrong("a section stands twice");
            }
            self.sections.entry_or_insert_with(name, || Map::new().into());
            (self.section, self.key) = (Some(name.to_owned()), None);
            return Ok(());
        }
        let Some(section) = self.section.clone() else { return wrong("File contains no section headers,") };
        let (key, value) = match text.split_once(['=', ':']) {
            Some((key, value)) => (key, Value::from(value.trim())),
            None if allow_none => (text, Value::Null),
            None => return wrong("Source contains parsing errors"),
        };
        let key = key.trim_end().to_lowercase();
        if let Some(Value::Map(keys)) = self.sections.get_mut(&section)
            && keys.insert(key.as_str(), value).is_some()
        {
            return wrong("an option stands twice");
        }
        self.key = Some(key);
        Ok(())
    }

    /// Adds a line to the value before.
    fn append(&mut self, line: &str) {
        let (Some(section), Some(key)) = (&self.section, &self.key) else { return };
        if let Some(Value::Map(keys)) = self.sections.get_mut(section)
            && let Some(Value::Str(text)) = keys.get_mut(key)
        {
            text.push('\n');
            text.push_str(line);
        }
    }
}

/// Puts in what `%(name)s` refers to.
fn filled(text: &str, all: &Map, depth: usize) -> Result<String> {
    // Two options can refer to each other. Python stops at the same depth.
    if depth > DEPTH_LIMIT {
        return Err(Error::Other("Recursion limit exceeded in value substitution".into()));
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('%') {
        out.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(")s")) {
            let Some(value) = all.get(&name.to_lowercase()) else {
                return Err(Error::Other(format!("Bad value substitution: the option '{name}' is missing")));
            };
            out.push_str(&filled(&value.to_string(), all, depth + 1)?);
            rest = after;
        } else {
            return Err(Error::Other(format!("'%' must be followed by '%' or '(', found: '%{rest}'")));
        }
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn sections_are_written_and_read() {
        let data = Value::from(map! { "A" => map! { "Key" => "v\nw", "n" => 1 }, "DEFAULT" => map! { "d" => "x" } });
        let text = write(&data, &Options::default()).unwrap();
        assert_eq!(text, "[DEFAULT]\nd = x\n\n[A]\nkey = v\n\tw\nn = 1\n\n");
        let back = read(&text, &Options::default()).unwrap();
        assert_eq!(back.to_string(), "{'A': {'d': 'x', 'key': 'v\\nw', 'n': '1'}}");
        assert!(write(&map! { "a" => map! { "b" => "5%" } }.into(), &Options::default()).is_err());
        assert_eq!(
            read("[a]\nx=1\ny=%(x)s%%\n", &Options::default()).unwrap().to_string(),
            "{'a': {'x': '1', 'y': '1%'}}"
        );
        assert!(read("x=1\n", &Options::default()).is_err());
    }
}
