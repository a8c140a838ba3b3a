//! `repr()` and `str()`.

use num_bigint::BigInt;

use super::{MAX_DEPTH, too_deep};
use crate::error::{Error, ErrorKind};
use crate::run::State;
use crate::value::{Dict, Undefined, Value};

/// Quotes a string that is a value in a dictionary; `None` for Python's own quoting.
pub type Quote = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Prints a value as Python's `repr()`.
pub fn repr(state: &mut State, value: &Value) -> Result<String, Error> {
    Printer::run(Some(state), value, None)
}

/// Prints a value as Python's `str()`.
///
/// With `quote`, strings that are values in a dictionary are printed as `quote` returns them, and an
/// `OrderedDict` prints like a plain dictionary. An environment's [`Finalize`](crate::Finalize) hook needs this.
pub fn str_of(state: &mut State, value: &Value, quote: Option<&Quote>) -> Result<String, Error> {
    match value {
        Value::Str(text) | Value::Markup(text) => Ok(text.to_string()),
        Value::Int(number) => Ok(number.to_string()),
        Value::Undefined(undefined) => {
            undefined.lenient()?;
            Ok(String::new())
        }
        Value::Object(object) => match object.str(state)? {
            Some(text) => Ok(text),
            None => Printer::run(Some(state), value, quote),
        },
        other => Printer::run(Some(state), other, quote),
    }
}

/// Prints a value for an error message or for debugging, without calling code of the host.
pub(crate) fn debug(value: &Value) -> String {
    Printer::run(None, value, None).unwrap_or_else(|_| "...".to_string())
}

struct Printer<'a> {
    state: Option<&'a mut State>,
    quote: Option<&'a Quote>,
    out: String,
    active: Vec<usize>,
    limit: usize,
}

impl<'a> Printer<'a> {
    fn run(state: Option<&'a mut State>, value: &Value, quote: Option<&'a Quote>) -> Result<String, Error> {
        // Text for an error message needs no more than a megabyte.
        let limit = state.as_ref().map_or(1 << 20, |state| state.limits().value_bytes);
        let mut printer = Printer { state, quote, out: String::new(), active: Vec::new(), limit };
        printer.print(value)?;
        Ok(printer.out)
    }

    fn print(&mut self, value: &Value) -> Result<(), Error> {
        if self.out.len() > self.limit {
            return Err(Error::new(ErrorKind::Memory, "a printed value is too large"));
        }
        match value {
            Value::None => self.out.push_str("None"),
            Value::Bool(true) => self.out.push_str("True"),
            Value::Bool(false) => self.out.push_str("False"),
            Value::Int(number) => self.out.push_str(&number.to_string()),
            Value::Big(number) => self.out.push_str(&int_text(number)?),
            Value::Float(number) => self.out.push_str(&repr_float(*number)),
            Value::Str(text) => push_repr(&mut self.out, text),
            Value::Markup(text) => {
                self.out.push_str("Markup(");
                push_repr(&mut self.out, text);
                self.out.push(')');
            }
            Value::Bytes(bytes) => push_bytes(&mut self.out, bytes),
            Value::List(list) => {
                let id = list.id();
                self.nested(id, "[...]", |this| this.sequence('[', &list.to_vec(), ']'))?;
            }
            Value::Tuple(items) => {
                let id = items.as_ptr() as usize;
                self.nested(id, "(...)", |this| match &**items {
                    [one] => {
                        this.out.push('(');
                        this.print(one)?;
                        this.out.push_str(",)");
                        Ok(())
                    }
                    items => this.sequence('(', items, ')'),
                })?;
            }
            Value::Dict(dict) => self.dict(dict)?,
            Value::Set(set) if set.is_empty() => self.out.push_str("set()"),
            Value::Set(set) => self.nested(set.id(), "set(...)", |this| this.sequence('{', &set.to_vec(), '}'))?,
            Value::Range(range) => self.out.push_str(&match range.step {
                1 => format!("range({}, {})", range.start, range.stop),
                step => format!("range({}, {}, {step})", range.start, range.stop),
            }),
            Value::View(view) => {
                self.out.push_str(view.type_name());
                // Differs from the dictionary's own: printing a view inside its dictionary is not a cycle yet.
                // Addresses are even.
                let id = view.dict.id() ^ 1;
                self.nested(id, "...", |this| {
                    this.out.push('(');
                    this.sequence('[', &view.to_vec(), ']')?;
                    this.out.push(')');
                    Ok(())
                })?;
            }
            Value::Iter(iter) => self.out.push_str(&iter.repr()),
            Value::Undefined(_) => self.out.push_str("Undefined"),
            Value::Function(function) => {
                self.out.push_str(&function.repr(std::sync::Arc::as_ptr(function) as usize));
            }
            Value::Object(object) => {
                let text = match &mut self.state {
                    Some(state) => {
                        // A host object may print its parts through the engine again, and so on without end.
                        state.enter()?;
                        let text = object.repr(state);
                        state.leave();
                        text?
                    }
                    // Without a rendering no code of the host may run: error messages are also made where values are
                    // half built.
                    None => None,
                };
                let address = std::sync::Arc::as_ptr(object) as *const u8 as usize;
                self.out.push_str(&text.unwrap_or_else(|| match object.module() {
                    Some(module) => format!("<{module}.{} object at {address:#x}>", object.type_name()),
                    None => format!("<{} object at {address:#x}>", object.type_name()),
                }));
            }
        }
        Ok(())
    }

    fn nested(
        &mut self,
        id: usize,
        again: &str,
        print: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.active.contains(&id) {
            self.out.push_str(again);
            return Ok(());
        }
        if self.active.len() as u32 >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.active.push(id);
        let result = print(self);
        self.active.pop();
        result
    }

    fn sequence(&mut self, open: char, items: &[Value], close: char) -> Result<(), Error> {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.print(item)?;
        }
        self.out.push(close);
        Ok(())
    }

    fn dict(&mut self, dict: &Dict) -> Result<(), Error> {
        // Salt's printing hook copies dictionaries into plain ones.
        let ordered = self.quote.is_none() && dict.type_name() != "dict";
        self.nested(dict.id(), if ordered { "..." } else { "{...}" }, |this| {
            let entries = dict.entries();
            if ordered {
                return this.ordered(entries);
            }
            this.out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                if index > 0 {
                    this.out.push_str(", ");
                }
                this.print(key)?;
                this.out.push_str(": ");
                match (this.quote, value) {
                    (Some(quote), Value::Str(text) | Value::Markup(text)) => match quote(text) {
                        Some(quoted) => this.out.push_str(&quoted),
                        None => this.print(value)?,
                    },
                    // A dictionary that is printed so prints its values with `str()`.
                    (Some(_), Value::Undefined(undefined)) if this.active.len() == 1 => undefined.lenient()?,
                    _ => this.print(value)?,
                }
            }
            this.out.push('}');
            Ok(())
        })
    }

    fn ordered(&mut self, entries: Vec<(Value, Value)>) -> Result<(), Error> {
        self.out.push_str("OrderedDict(");
        if !entries.is_empty() {
            let pairs: Vec<Value> = entries.into_iter().map(|(key, value)| Value::tuple(vec![key, value])).collect();
            self.sequence('[', &pairs, ']')?;
        }
        self.out.push(')');
        Ok(())
    }
}

/// Prints text as Python's `repr()`.
pub fn repr_str(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_repr(&mut out, text);
    out
}

fn push_repr(out: &mut String, text: &str) {
    // Python prefers single quotes and uses double ones only to avoid escaping.
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for char in text.chars() {
        match char {
            // Python has short escapes only for these; all other control characters become `\x…`.
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            char if char == quote => {
                out.push('\\');
                out.push(char);
            }
            ' '..='~' => out.push(char),
            char if super::text::is_printable(char) => out.push(char),
            char if (char as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", char as u32)),
            char if (char as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", char as u32)),
            char => out.push_str(&format!("\\U{:08x}", char as u32)),
        }
    }
    out.push(quote);
}

fn push_bytes(out: &mut String, bytes: &[u8]) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
    out.push('b');
    out.push(quote);
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            byte if byte as char == quote => {
                out.push('\\');
                out.push(quote);
            }
            b' '..=b'~' => out.push(byte as char),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
}

/// Prints a float as Python's `repr()`: the shortest digits that parse back to it.
pub fn repr_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Python switches to scientific notation outside these exponents.
    if (-4..16).contains(&exponent) {
        let text = format!("{number}");
        return if text.contains('.') { text } else { text + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Prints an integer. Fails beyond 4,300 digits, Python's limit against long conversions.
pub(crate) fn int_text(number: &BigInt) -> Result<String, Error> {
    // 4,300 digits are a little more than 14,280 bits: below, no digit has to be counted.
    if number.bits() > 14_280 {
        let text = "Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() to \
                    increase the limit";
        // Converting takes time that grows with the square of the length. A million bits are too long for sure.
        let digits = if number.bits() > 1_000_000 { usize::MAX } else { number.magnitude().to_string().len() };
        if digits > 4300 {
            return Err(Error::value_error(text));
        }
    }
    Ok(number.to_string())
}

impl std::fmt::Display for Undefined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message())
    }
}
