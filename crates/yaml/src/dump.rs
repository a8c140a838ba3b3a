//! Dumps values as Salt's `safe_dump` does.
//!
//! Values have no identity, so no anchors are ever written: what Python reaches twice is written twice.

use std::cmp::Ordering;
use std::ffi::CStr;

use base64::Engine as _;
use value::python::repr_float;
use value::{Map, Value};

use crate::compose::MAX_DEPTH;
use crate::libyaml::{self, Emitter, ScalarStyle};
use crate::resolve;

/// Which containers are in flow style: Salt's `default_flow_style`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// None (`False`).
    Block,
    /// Those that contain only scalars (`None`, Salt's default).
    #[default]
    Leaves,
    /// All (`True`).
    All,
}

/// The style of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Which containers are in flow style.
    pub flow: Flow,
    /// True if maps are sorted by key, as far as their keys can be compared; PyYAML's default. Ordered maps are not
    /// sorted.
    pub sort_keys: bool,
    /// The indentation in columns, 2 to 9.
    pub indent: i32,
    /// The preferred width in columns; -1 for no limit.
    pub width: i32,
    /// True if characters outside ASCII are written unescaped, as in Salt's `safe_dump`.
    pub unicode: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style { flow: Flow::Leaves, sort_keys: true, indent: 2, width: 80, unicode: true }
    }
}

impl From<Flow> for Style {
    fn from(flow: Flow) -> Self {
        Style { flow, ..Style::default() }
    }
}

/// A value that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Lists and maps are nested too deep.
    #[error("failed to write YAML: lists and maps are nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The emitter failed.
    #[error("failed to write YAML: {0}")]
    Emitter(String),
}

/// Dumps a value in PyYAML's default style, sorted by key.
///
/// A value that is nested too deep, which cannot come from the network or a file, becomes an error text in the output; use
/// [`dump_with`] to get the error.
pub fn dump(value: &Value, flow: Flow) -> String {
    dump_with(value, flow.into()).unwrap_or_else(|error| format!("# {error}\n"))
}

/// Dumps a value.
///
/// ```
/// use saltern_yaml::{Flow, Style, dump_with};
/// use value::{Value, map};
/// let value = Value::from(map! { "b" => vec![1, 2], "a" => "yes" });
/// assert_eq!(dump_with(&value, Style::from(Flow::Leaves)).unwrap(), "a: 'yes'\nb: [1, 2]\n");
/// ```
pub fn dump_with(value: &Value, style: Style) -> Result<String, DumpError> {
    // Before the emitter, which recurses as well.
    check_depth(value, 0)?;
    let stand_in = Replacement::choose(value);
    let mut emitter = Emitter::new(style.indent, style.width, style.unicode).map_err(DumpError::Emitter)?;
    let mut writer = Writer { emitter: &mut emitter, style, stand_in, replaced: Vec::new() };
    writer.value(value).map_err(DumpError::Emitter)?;
    let replaced = writer.replaced;
    let text = emitter.finish().map_err(DumpError::Emitter)?;
    Ok(stand_in.restore(text, &replaced))
}

fn check_depth(value: &Value, depth: usize) -> Result<(), DumpError> {
    if depth > MAX_DEPTH {
        return Err(DumpError::TooDeep);
    }
    match value {
        Value::List(items) => items.iter().try_for_each(|item| check_depth(item, depth + 1)),
        Value::Map(map) => map.iter().try_for_each(|(key, item)| {
            check_depth(key, depth + 1)?;
            check_depth(item, depth + 1)
        }),
        Value::Constant(constant) => check_depth(&constant.1, depth + 1),
        _ => Ok(()),
    }
}

struct Writer<'a> {
    emitter: &'a mut Emitter,
    style: Style,
    stand_in: Replacement,
    /// The characters that were replaced, in order.
    replaced: Vec<char>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::List(items) => {
                self.emitter.start_sequence(self.flow(items.iter()))?;
                items.iter().try_for_each(|item| self.value(item))?;
                self.emitter.end_sequence()
            }
            Value::Map(map) => self.map(map),
            Value::Bytes(bytes) => {
                // PyYAML writes binary data as a literal block with its tag.
                let text = encode_lines(bytes);
                self.scalar(resolve::BINARY, &text, ScalarStyle::Literal)
            }
            other => {
                let (tag, text) = scalar_text(other);
                self.scalar(tag, &text, ScalarStyle::Any)
            }
        }
    }

    fn map(&mut self, map: &Map) -> Result<(), String> {
        let mut entries: Vec<(&Value, &Value)> = map.iter().collect();
        // Salt dumps an `OrderedDict` as a list of pairs, which PyYAML does not sort.
        if self.style.sort_keys && !map.is_ordered() {
            sort(&mut entries);
        }
        self.emitter.start_mapping(self.flow(entries.iter().flat_map(|(key, item)| [*key, *item])))?;
        for (key, item) in entries {
            self.value(key)?;
            self.value(item)?;
        }
        self.emitter.end_mapping()
    }

    fn flow<'v>(&self, mut children: impl Iterator<Item = &'v Value>) -> bool {
        match self.style.flow {
            Flow::Block => false,
            Flow::All => true,
            // PyYAML's rule for `None`: a container is written in one line if all its children are scalars without a
            // specific style, which binary data has.
            Flow::Leaves => children.all(|child| !matches!(child, Value::List(_) | Value::Map(_) | Value::Bytes(_))),
        }
    }

    fn scalar(&mut self, tag: &'static str, text: &str, style: ScalarStyle) -> Result<(), String> {
        // If the text alone would be read back as another type, the emitter must quote it or write the tag: `'yes'`,
        // `'1'`.
        let plain_implicit = resolve::plain(text) == tag;
        let quoted_implicit = tag == resolve::STR;
        let value = self.stand_in.replace(text, &mut self.replaced);
        let tag = libyaml::tag(tag).unwrap_or_default();
        let tag: &CStr = &tag;
        self.emitter.scalar(&libyaml::Scalar { tag, value: &value, plain_implicit, quoted_implicit, style })
    }
}

fn scalar_text(value: &Value) -> (&'static str, String) {
    match value {
        Value::Bool(flag) => (resolve::BOOL, if *flag { "true" } else { "false" }.into()),
        Value::Int(number) => (resolve::INT, number.to_string()),
        Value::BigInt(number) => (resolve::INT, number.to_string()),
        Value::Float(number) => (resolve::FLOAT, float_text(*number)),
        Value::Str(text) => (resolve::STR, text.clone()),
        Value::DateTime(time) => (resolve::TIMESTAMP, time.to_string()),
        // Salt writes this for types without a representer.
        Value::Constant(_) => (resolve::NULL, "NULL".into()),
        _ => (resolve::NULL, "null".into()),
    }
}

fn float_text(number: f64) -> String {
    if number.is_nan() {
        return ".nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let text = repr_float(number);
    // YAML 1.1 knows no float without a point: `1e+17` would be read back as text.
    if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
}

/// Base64 in lines of 76 characters, each with its line break, as in `base64.encodebytes`.
fn encode_lines(bytes: &[u8]) -> String {
    const BYTES_PER_LINE: usize = 57;
    let lines = bytes.chunks(BYTES_PER_LINE);
    lines.map(|line| base64::engine::general_purpose::STANDARD.encode(line) + "\n").collect()
}

/// Sorts as Python does; if two keys cannot be compared, nothing is sorted.
fn sort(entries: &mut [(&Value, &Value)]) {
    let comparable = entries.windows(2).all(|pair| compare(pair[0].0, pair[1].0).is_some());
    if comparable {
        entries.sort_by(|a, b| compare(a.0, b.0).unwrap_or(Ordering::Equal));
    }
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::DateTime(a), Value::DateTime(b)) => Some(a.cmp(b)),
        (Value::BigInt(a), Value::BigInt(b)) => Some(a.cmp(b)),
        (Value::BigInt(a), Value::Int(b)) => Some(a.as_ref().cmp(&value::BigInt::from(*b))),
        (Value::Int(a), Value::BigInt(b)) => Some(value::BigInt::from(*a).cmp(b)),
        (Value::Bool(_) | Value::Int(_), Value::Bool(_) | Value::Int(_)) => Some(a.as_i64()?.cmp(&b.as_i64()?)),
        // NaN has no order, which leaves the map unsorted.
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

// === impl Replacement ===

/// Characters above U+FFFF: libyaml 0.2.5 escapes them, our version would print them.
///
/// Each is replaced, before emitting, by a pair of the same size in bytes and, once escaped, in columns. Afterwards the escape
/// of the character itself replaces that of the pair.
#[derive(Clone, Copy)]
struct Replacement {
    lead: char,
    control: char,
}

impl Replacement {
    /// Finds a pair that does not occur in the value.
    fn choose(value: &Value) -> Replacement {
        const CONTROLS: [char; 10] =
            ['\u{1}', '\u{2}', '\u{3}', '\u{4}', '\u{5}', '\u{6}', '\u{e}', '\u{f}', '\u{10}', '\u{11}'];
        let pairs = ['\u{fffe}', '\u{ffff}'].into_iter().flat_map(|lead| CONTROLS.map(|control| (lead, control)));
        let mut pairs = pairs.map(|(lead, control)| Replacement { lead, control });
        let free = pairs.find(|pair| !occurs(value, &[pair.lead, pair.control].iter().collect::<String>()));
        // All twenty pairs would have to occur in one value. The last resort then garbles a text, but never loses it.
        free.unwrap_or(Replacement { lead: '\u{ffff}', control: '\u{1f}' })
    }

    fn replace<'t>(self, text: &'t str, replaced: &mut Vec<char>) -> std::borrow::Cow<'t, str> {
        if text.chars().all(|letter| letter <= '\u{ffff}') {
            return text.into();
        }
        let mut out = String::with_capacity(text.len());
        for letter in text.chars() {
            if letter > '\u{ffff}' {
                replaced.push(letter);
                out.extend([self.lead, self.control]);
            } else {
                out.push(letter);
            }
        }
        out.into()
    }

    fn restore(self, text: String, replaced: &[char]) -> String {
        if replaced.is_empty() {
            return text;
        }
        let escaped = format!("\\u{:04X}\\x{:02X}", self.lead as u32, self.control as u32);
        let mut parts = text.split(&escaped);
        let mut out = parts.next().unwrap_or_default().to_owned();
        // The emitter writes the text from left to right, so that the replaced characters come back in order.
        for (part, letter) in parts.zip(replaced) {
            out.push_str(&format!("\\U{:08X}", *letter as u32));
            out.push_str(part);
        }
        out
    }
}

fn occurs(value: &Value, pair: &str) -> bool {
    match value {
        Value::Str(text) => text.contains(pair),
        Value::List(items) => items.iter().any(|item| occurs(item, pair)),
        Value::Map(map) => map.iter().any(|(key, item)| occurs(key, pair) || occurs(item, pair)),
        _ => false,
    }
}
