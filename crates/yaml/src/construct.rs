//! Constructs values from nodes, as Salt's loader does.
//!
//! PyYAML builds containers level by level: all children of a level before any grandchild. Which of several errors is reported
//! follows from that order, so it is kept here: [`Constructor::run`] fills every node in that order, and
//! [`Constructor::assemble`] assembles the tree afterwards.

use std::collections::{HashMap, HashSet, VecDeque};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use value::python::repr_str;
use value::{BigInt, Map, Value};

use crate::compose::{Data, Graph, Id, MAX_DEPTH};
use crate::error::{Error, Kind, Mark, Report};
use crate::resolve;

/// The bytes that a document may grow to through aliases, whatever its size.
const MAX_EXPANDED: usize = 8 << 20;
/// The factor by which a larger document may grow. Each node costs once when it is assembled, and a key twice.
const EXPANSION: usize = 4;
/// What a value costs, without its text.
const VALUE_COST: usize = 32;
/// Where the description of a node in a message is truncated, in bytes: aliases could make it endless.
const MAX_SHOWN: usize = 4096;
/// Python refuses longer decimal integers.
const MAX_INT_DIGITS: usize = 4300;

/// Constructs the value of a document.
pub(crate) fn construct(graph: Graph, root: Id, name: &str) -> Result<Value, Error> {
    let written: usize = graph.nodes.iter().map(|node| VALUE_COST + node.data.text_len()).sum();
    let mut constructor = Constructor {
        nodes: graph.nodes.into_iter().map(|node| Slot { node, built: Built::Nothing, uses: 0 }).collect(),
        name,
        waiting: VecDeque::new(),
        // A large document without aliases must not hit the bound that stops small ones with many.
        budget: MAX_EXPANDED.max(written.saturating_mul(EXPANSION)),
    };
    constructor.run(root)?;
    constructor.assemble(root, 0, false)
}

/// Returns about how many bytes a value takes that is made from a scalar or a set.
fn cost(value: &Value) -> usize {
    VALUE_COST
        + match value {
            Value::Str(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.iter().map(cost).sum(),
            _ => 0,
        }
}

struct Slot {
    node: crate::compose::Node,
    built: Built,
    /// The number of containers, merged ones included, that still need this node.
    uses: usize,
}

/// The state of a node.
#[derive(Clone)]
enum Built {
    Nothing,
    /// Being assembled: reaching it again means that it contains itself.
    Open,
    Whole(Value),
    List(Vec<Id>),
    Map(Vec<(Value, Id)>),
    Pairs(Vec<(Id, Id)>),
}

struct Constructor<'a> {
    nodes: Vec<Slot>,
    name: &'a str,
    /// Containers whose children are not constructed yet.
    waiting: VecDeque<Id>,
    /// How many bytes of values may still be made.
    budget: usize,
}

impl Constructor<'_> {
    fn run(&mut self, root: Id) -> Result<(), Error> {
        self.object(root)?;
        while let Some(id) = self.waiting.pop_front() {
            self.children(id)?;
        }
        Ok(())
    }

    /// Constructs a scalar, or queues a container.
    fn object(&mut self, id: Id) -> Result<(), Error> {
        // Counted here, so that a value needed only once can be moved out instead of cloned.
        self.nodes[id].uses += 1;
        if !matches!(self.nodes[id].built, Built::Nothing) {
            return Ok(());
        }
        self.nodes[id].built = match kind_of(&self.nodes[id].node.tag) {
            Some(Shape::Container) => {
                self.waiting.push_back(id);
                Built::Open
            }
            Some(Shape::Scalar) => Built::Whole(self.scalar(id)?),
            None => return Err(self.no_constructor(id)),
        };
        Ok(())
    }

    fn no_constructor(&self, id: Id) -> Error {
        let tag = repr_str(&self.nodes[id].node.tag);
        self.error(id, format!("could not determine a constructor for the tag {tag}"))
    }

    fn children(&mut self, id: Id) -> Result<(), Error> {
        let tag = self.nodes[id].node.tag.clone();
        self.nodes[id].built = match tag.strip_prefix(PREFIX).unwrap_or(&tag) {
            "seq" => self.sequence(id)?,
            "omap" => self.pairs(id, "while constructing an ordered map")?,
            "pairs" => self.pairs(id, "while constructing pairs")?,
            "set" => {
                // `Value` has no type for sets; a set becomes a list, as on the wire.
                let keys = self.mapping(id)?.into_iter().map(|(key, _)| key);
                Built::Whole(Value::List(keys.collect()))
            }
            _ => Built::Map(self.mapping(id)?),
        };
        Ok(())
    }

    fn sequence(&mut self, id: Id) -> Result<Built, Error> {
        let Data::Sequence(items) = &self.nodes[id].node.data else {
            return Err(self.wrong_kind(id, "expected a sequence node, but found"));
        };
        let items = items.clone();
        for &item in &items {
            self.object(item)?;
        }
        Ok(Built::List(items))
    }

    fn pairs(&mut self, id: Id, context: &str) -> Result<Built, Error> {
        let Data::Sequence(items) = &self.nodes[id].node.data else {
            let problem = format!("expected a sequence, but found {}", self.nodes[id].node.data.kind());
            return Err(self.error_in(context, id, problem, id));
        };
        let mut pairs = Vec::with_capacity(items.len());
        for item in items.clone() {
            let (key, value) = match &self.nodes[item].node.data {
                Data::Mapping(entries) if entries.len() == 1 => entries[0],
                Data::Mapping(entries) => {
                    let problem = format!("expected a single mapping item, but found {} items", entries.len());
                    return Err(self.error_in(context, id, problem, item));
                }
                other => {
                    let problem = format!("expected a mapping of length 1, but found {}", other.kind());
                    return Err(self.error_in(context, id, problem, item));
                }
            };
            self.object(key)?;
            self.object(value)?;
            pairs.push((key, value));
        }
        Ok(Built::Pairs(pairs))
    }

    fn mapping(&mut self, id: Id) -> Result<Vec<(Value, Id)>, Error> {
        if !matches!(self.nodes[id].node.data, Data::Mapping(_)) {
            return Err(self.wrong_kind(id, "expected a mapping node, but found"));
        }
        self.flatten(id, 0)?;
        let pairs = self.entries(id).to_vec();
        let mut known = HashSet::with_capacity(pairs.len());
        let mut entries = Vec::with_capacity(pairs.len());
        for (key_node, value_node) in pairs {
            self.object(key_node)?;
            // A list or a map cannot be hashed in Python, nor can a set or pairs. All of these are only queued at this
            // point.
            let Built::Whole(key) = &self.nodes[key_node].built else {
                let problem = format!("found unacceptable key {}", self.show(key_node));
                return Err(self.error_in(IN_MAPPING, id, problem, key_node));
            };
            let key = key.clone();
            // Maps that are merged into many others multiply their keys.
            self.charge(&key)?;
            // Before the check for duplicates, as in Salt: an error in the value is reported first.
            self.object(value_node)?;
            // PyYAML would let the last one win. Salt refuses duplicates, because an id that occurs twice would
            // silently drop a state.
            if !known.insert(hashed(&key)) {
                return Err(self.error_in(IN_MAPPING, id, format!("found conflicting ID '{key}'"), key_node));
            }
            entries.push((key, value_node));
        }
        Ok(entries)
    }

    fn entries(&self, id: Id) -> &[(Id, Id)] {
        match &self.nodes[id].node.data {
            Data::Mapping(pairs) => pairs,
            _ => &[],
        }
    }

    /// Replaces `<<` entries by the entries of the maps they refer to. The map's own entries win.
    fn flatten(&mut self, id: Id, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.error(id, format!("merged maps are nested deeper than {MAX_DEPTH} levels")));
        }
        let mut merged = Vec::new();
        let mut index = 0;
        while let Some(&(key, value)) = self.entries(id).get(index) {
            if self.nodes[key].node.tag == resolve::MERGE {
                // Removed before following it: a map that merges itself ends here.
                if let Data::Mapping(pairs) = &mut self.nodes[id].node.data {
                    pairs.remove(index);
                }
                merged.extend(self.merge_source(id, value, depth)?);
                // Merges multiply like aliases: each `<<` can double the entries of the one before.
                if merged.len() > self.budget / VALUE_COST {
                    return Err(self.too_large());
                }
                continue;
            }
            // A plain `=` is a special key in YAML 1.1; as a key of an ordinary map it is just text.
            if self.nodes[key].node.tag == resolve::VALUE {
                self.nodes[key].node.tag = resolve::STR.into();
            }
            index += 1;
        }
        self.insert_merged(id, merged);
        Ok(())
    }

    fn merge_source(&mut self, id: Id, source: Id, depth: usize) -> Result<Vec<(Id, Id)>, Error> {
        match self.nodes[source].node.data.clone() {
            Data::Mapping(_) => {
                self.flatten(source, depth + 1)?;
                Ok(self.entries(source).to_vec())
            }
            Data::Sequence(items) => {
                let mut lists = Vec::with_capacity(items.len());
                for item in items {
                    let kind = self.nodes[item].node.data.kind();
                    if kind != "mapping" {
                        let problem = format!("expected a mapping for merging, but found {kind}");
                        return Err(self.error_in(IN_MAPPING, id, problem, item));
                    }
                    self.flatten(item, depth + 1)?;
                    lists.push(self.entries(item).to_vec());
                }
                // Reversed as in PyYAML, where the first of several maps wins. In Salt the same key in two of them is a
                // conflict, so that only the order of the entries shows it.
                Ok(lists.into_iter().rev().flatten().collect())
            }
            Data::Scalar(_) => {
                let problem = "expected a mapping or list of mappings for merging, but found scalar".to_owned();
                Err(self.error_in(IN_MAPPING, id, problem, source))
            }
        }
    }

    fn insert_merged(&mut self, id: Id, merged: Vec<(Id, Id)>) {
        if merged.is_empty() {
            return;
        }
        // Compared by the text of the scalars, not by their values, as in Salt: `1` and `"1"` count as the same key
        // here.
        let own: HashSet<KeyText> = self.entries(id).iter().map(|&(key, _)| self.key_text(key)).collect();
        let fresh: Vec<_> = merged.into_iter().filter(|&(key, _)| !own.contains(&self.key_text(key))).collect();
        if let Data::Mapping(pairs) = &mut self.nodes[id].node.data {
            pairs.splice(0..0, fresh);
        }
    }

    fn key_text(&self, id: Id) -> KeyText {
        match &self.nodes[id].node.data {
            Data::Scalar(text) => KeyText::Text(text.clone()),
            // Python compares nodes of containers by identity.
            _ => KeyText::Node(id),
        }
    }

    /// Assembles the finished tree. What is needed again later, by this node or one around it, is kept.
    fn assemble(&mut self, id: Id, depth: usize, keep: bool) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(self.error(id, format!("lists and maps are nested deeper than {MAX_DEPTH} levels")));
        }
        // Assembling follows aliases, so that this is where a small text can grow without bound.
        self.spend(match &self.nodes[id].built {
            Built::Whole(value) => cost(value),
            _ => VALUE_COST,
        })?;
        let slot = &mut self.nodes[id];
        if !keep {
            slot.uses = slot.uses.saturating_sub(1);
        }
        let keep = keep || slot.uses > 0;
        if let (Built::Whole(value), true) = (&slot.built, keep) {
            return Ok(value.clone());
        }
        // Marked as open while its children are assembled: a node that reaches itself finds the mark.
        let built = std::mem::replace(&mut slot.built, Built::Open);
        let kept = keep.then(|| built.clone());
        let value = self.finish(id, built, depth + 1, keep)?;
        if let Some(kept) = kept {
            self.nodes[id].built = kept;
        }
        Ok(value)
    }

    fn finish(&mut self, id: Id, built: Built, depth: usize, keep: bool) -> Result<Value, Error> {
        Ok(match built {
            Built::Whole(value) => value,
            Built::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.push(self.assemble(item, depth, keep)?);
                }
                Value::List(list)
            }
            Built::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, node) in entries {
                    self.charge(&key)?;
                    map.insert(key, self.assemble(node, depth, keep)?);
                }
                Value::Map(map)
            }
            Built::Pairs(pairs) => {
                let mut list = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    let (key, value) = (self.assemble(key, depth, keep)?, self.assemble(value, depth, keep)?);
                    list.push(Value::List(vec![key, value]));
                }
                Value::List(list)
            }
            Built::Open | Built::Nothing => {
                return Err(self.error(id, "found unconstructable recursive node".into()));
            }
        })
    }

    fn charge(&mut self, value: &Value) -> Result<(), Error> {
        self.spend(cost(value))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| self.too_large())?;
        Ok(())
    }

    fn too_large(&self) -> Error {
        Error::limit(self.name, "the document grows too large through its aliases".into())
    }

    // === scalars ===

    fn scalar(&self, id: Id) -> Result<Value, Error> {
        let tag = &self.nodes[id].node.tag;
        let text = self.text(id)?;
        match tag.strip_prefix(PREFIX).unwrap_or(tag) {
            "null" => Ok(Value::Null),
            // An explicit `!!bool` on any other word is a KeyError in PyYAML, whose text is the quoted word.
            "bool" => bool_of(text).ok_or_else(|| self.python(id, repr_str(&text.to_lowercase()))),
            "int" => int_of(text).map_err(|problem| self.python(id, problem)),
            "float" => float_of(text).map(Value::Float).map_err(|problem| self.python(id, problem)),
            "binary" => self.binary(id, text),
            _ => Ok(Value::from(text)),
        }
    }

    /// Returns the text of a scalar; a map with a `=` entry also has one.
    fn text(&self, id: Id) -> Result<&str, Error> {
        match &self.nodes[id].node.data {
            Data::Scalar(text) => Ok(text),
            // A map with an `=` entry may represent a scalar in YAML 1.1.
            Data::Mapping(pairs) => match pairs.iter().find(|(key, _)| self.nodes[*key].node.tag == resolve::VALUE) {
                Some(&(_, value)) if value != id => match &self.nodes[value].node.data {
                    Data::Scalar(text) => Ok(text),
                    _ => Err(self.wrong_kind(value, "expected a scalar node, but found")),
                },
                _ => Err(self.wrong_kind(id, "expected a scalar node, but found")),
            },
            Data::Sequence(_) => Err(self.wrong_kind(id, "expected a scalar node, but found")),
        }
    }

    fn binary(&self, id: Id, text: &str) -> Result<Value, Error> {
        if let Some(what) = not_ascii(text) {
            let problem = format!(
                "failed to convert base64 data into ascii: 'ascii' codec can't encode {what}: ordinal not in range(128)"
            );
            return Err(self.error(id, problem));
        }
        match lenient_base64(text.as_bytes()) {
            Ok(bytes) => Ok(Value::from(bytes.as_slice())),
            Err(problem) => Err(self.error(id, format!("failed to decode base64 data: {problem}"))),
        }
    }

    // === errors ===

    fn mark(&self, id: Id) -> Mark {
        self.nodes[id].node.start
    }

    fn error(&self, id: Id, problem: String) -> Error {
        Error::bare(Kind::Constructor, self.name, problem, Some(self.mark(id)))
    }

    fn python(&self, id: Id, problem: String) -> Error {
        Error::bare(Kind::Python, self.name, problem, Some(self.mark(id)))
    }

    fn wrong_kind(&self, id: Id, start: &str) -> Error {
        self.error(id, format!("{start} {}", self.nodes[id].node.data.kind()))
    }

    fn error_in(&self, context: &str, outer: Id, problem: String, inner: Id) -> Error {
        Error::from(Report {
            kind: Kind::Constructor,
            name: self.name.to_owned(),
            context: Some(context.to_owned()),
            context_mark: Some(self.mark(outer)),
            problem,
            problem_mark: Some(self.mark(inner)),
        })
    }

    /// Formats the content of a node as Python prints PyYAML's node objects.
    fn show(&self, id: Id) -> String {
        let mut out = String::new();
        match &self.nodes[id].node.data {
            Data::Scalar(text) => out.push_str(text),
            _ => self.show_content(&mut out, id, &mut vec![id]),
        }
        out
    }

    fn show_content(&self, out: &mut String, id: Id, around: &mut Vec<Id>) {
        out.push('[');
        let (ids, paired): (Vec<Id>, bool) = match &self.nodes[id].node.data {
            Data::Scalar(_) => (Vec::new(), false),
            Data::Sequence(items) => (items.clone(), false),
            Data::Mapping(pairs) => (pairs.iter().flat_map(|&(key, value)| [key, value]).collect(), true),
        };
        for (place, &child) in ids.iter().enumerate() {
            let key = paired && place % 2 == 0;
            out.push_str(if place > 0 { ", " } else { "" });
            out.push_str(if key { "(" } else { "" });
            self.show_node(out, child, around);
            out.push_str(if paired && !key { ")" } else { "" });
            // Python prints the node in full, which may take longer than anybody waits.
            if out.len() > MAX_SHOWN {
                out.push_str("...");
                return;
            }
        }
        out.push(']');
    }

    fn show_node(&self, out: &mut String, id: Id, around: &mut Vec<Id>) {
        let node = &self.nodes[id].node;
        let class = match node.data {
            Data::Scalar(_) => "ScalarNode",
            Data::Sequence(_) => "SequenceNode",
            Data::Mapping(_) => "MappingNode",
        };
        out.push_str(&format!("{class}(tag={}, value=", repr_str(&node.tag)));
        match &node.data {
            Data::Scalar(text) => out.push_str(&repr_str(text)),
            // It contains itself.
            _ if around.contains(&id) => out.push_str("[...]"),
            _ => {
                around.push(id);
                self.show_content(out, id, around);
                around.pop();
            }
        }
        out.push(')');
    }
}

const PREFIX: &str = "tag:yaml.org,2002:";
const IN_MAPPING: &str = "while constructing a mapping";

#[derive(PartialEq, Eq, Hash)]
enum KeyText {
    Text(String),
    Node(Id),
}

enum Shape {
    Scalar,
    Container,
}

/// Returns how a node with this tag is constructed; `None` for an unknown tag.
fn kind_of(tag: &str) -> Option<Shape> {
    match tag.strip_prefix(PREFIX)? {
        "str" | "null" | "bool" | "int" | "float" | "binary" | "timestamp" | "python/unicode" => Some(Shape::Scalar),
        "seq" | "map" | "omap" | "pairs" | "set" => Some(Shape::Container),
        _ => None,
    }
}

/// Returns a form in which keys that are equal in Python are equal: `1`, `1.0` and `true`.
fn hashed(key: &Value) -> Value {
    match key {
        Value::Bool(flag) => Value::Int(i64::from(*flag)),
        // Below 2^53 every integer is exact as a float.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Value::Int(*number as i64),
        other => other.clone(),
    }
}

fn bool_of(text: &str) -> Option<Value> {
    match text.to_lowercase().as_str() {
        "yes" | "true" | "on" => Some(Value::Bool(true)),
        "no" | "false" | "off" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Parses an integer. As in Salt, a leading zero does not make it octal, unless it has a sign.
fn int_of(text: &str) -> Result<Value, String> {
    let text = if text != "0" && text.starts_with('0') && !text.starts_with("0b") && !text.starts_with("0x") {
        match text.trim_start_matches('0') {
            "" => "0",
            rest => rest,
        }
    } else {
        text
    };
    let digits = text.replace('_', "");
    let negative = digits.starts_with('-');
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(&digits);
    let number = match digits {
        // The IndexError of PyYAML, which reads the first character without checking that there is one.
        "" => return Err("string index out of range".into()),
        "0" => BigInt::from(0),
        _ if digits.starts_with("0b") => in_base(&digits[2..], 2)?,
        _ if digits.starts_with("0x") => in_base(&digits[2..], 16)?,
        // Reached only with a sign, because Salt strips the zeros only from the start of the text: `-010` is -8, `010`
        // is 10.
        _ if digits.starts_with('0') => in_base(digits, 8)?,
        // YAML 1.1 has numbers in base 60, so that an unquoted `12:30` is 750.
        _ if digits.contains(':') => sixties(digits)?,
        _ => in_base(digits, 10)?,
    };
    Ok(Value::from(if negative { -number } else { number }))
}

/// Describes the first characters that are not ASCII, as Python's codec does.
fn not_ascii(text: &str) -> Option<String> {
    let (start, letter) = text.chars().enumerate().find(|(_, letter)| !letter.is_ascii())?;
    let run = text.chars().skip(start).take_while(|letter| !letter.is_ascii()).count();
    if run > 1 {
        return Some(format!("characters in position {start}-{}", start + run - 1));
    }
    let shown = match letter as u32 {
        code @ 0..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    Some(format!("character '{shown}' in position {start}"))
}

fn in_base(digits: &str, base: u32) -> Result<BigInt, String> {
    // Python's int() strips spaces and accepts a sign, which an explicit tag may bring along.
    let trimmed = digits.trim();
    let plain = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if plain.is_empty() || !plain.chars().all(|letter| letter.is_digit(base)) {
        return Err(format!("invalid literal for int() with base {base}: {}", repr_str(digits)));
    }
    if base == 10 && plain.len() > MAX_INT_DIGITS {
        return Err(format!(
            "Exceeds the limit ({MAX_INT_DIGITS} digits) for integer string conversion: value has {} digits; use \
             sys.set_int_max_str_digits() to increase the limit",
            plain.len()
        ));
    }
    BigInt::parse_bytes(trimmed.as_bytes(), base).ok_or_else(|| format!("not a number in base {base}"))
}

fn sixties(digits: &str) -> Result<BigInt, String> {
    // More digits than any real number has, and quadratic to parse.
    const MAX_PLACES: usize = 1000;
    let parts: Vec<&str> = digits.split(':').collect();
    if parts.len() > MAX_PLACES {
        return Err(format!("a number in base 60 has more than {MAX_PLACES} places"));
    }
    let mut number = BigInt::from(0);
    for part in parts {
        number = number * 60 + in_base(part, 10)?;
    }
    Ok(number)
}

fn float_of(text: &str) -> Result<f64, String> {
    let text = text.replace('_', "").to_lowercase();
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let digits = text.strip_prefix(['-', '+']).unwrap_or(&text);
    match digits {
        "" => Err("string index out of range".into()),
        ".inf" => Ok(sign * f64::INFINITY),
        ".nan" => Ok(f64::NAN),
        _ if digits.contains(':') => {
            let parts = digits.split(':').map(decimal).collect::<Result<Vec<_>, _>>()?;
            // From the right, in PyYAML's order: adding floats in another order rounds differently.
            let (mut number, mut base) = (0.0, 1.0);
            for part in parts.into_iter().rev() {
                number += part * base;
                base *= 60.0;
            }
            Ok(sign * number)
        }
        _ => Ok(sign * decimal(digits)?),
    }
}

fn decimal(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("could not convert string to float: {}", repr_str(text)))
}

/// Decodes as Python's `binascii.a2b_base64` does after Salt's padding: characters outside the alphabet are skipped.
fn lenient_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let engine = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let mut padded = text.to_vec();
    let missing = text.len() % 4;
    if missing != 0 {
        padded.extend(std::iter::repeat_n(b'=', 4 - missing));
    }
    let mut digits = Vec::with_capacity(padded.len());
    let mut padding = 0;
    for byte in padded {
        match byte {
            b'=' => {
                padding += 1;
                // A complete padding ends the data. Python ignores what follows.
                if digits.len() % 4 >= 2 && digits.len() % 4 + padding >= 4 {
                    break;
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {
                // Padding in the middle of the data is skipped like any other foreign character.
                padding = 0;
                digits.push(byte);
            }
            _ => {}
        }
    }
    match digits.len() % 4 {
        1 => Err(format!(
            "Invalid base64-encoded string: number of data characters ({}) cannot be 1 more than a multiple of 4",
            digits.len()
        )),
        left if left > 1 && left + padding < 4 => Err("Incorrect padding".into()),
        _ => engine.decode(&digits).map_err(|error| error.to_string()),
    }
}

/// Returns the lines of the entries of maps, by the path of string keys.
pub(crate) fn lines(graph: &Graph, root: Id, depth: usize) -> HashMap<Vec<String>, u64> {
    let mut found = HashMap::new();
    let mut path = Vec::new();
    note_lines(graph, root, depth, &mut path, &mut found);
    found
}

fn note_lines(graph: &Graph, id: Id, depth: usize, path: &mut Vec<String>, found: &mut HashMap<Vec<String>, u64>) {
    let Data::Mapping(pairs) = &graph.nodes[id].data else { return };
    if depth == 0 {
        return;
    }
    for &(key, value) in pairs {
        // Only text keys can be named in a path.
        if let Data::Scalar(text) = &graph.nodes[key].data {
            path.push(text.clone());
            found.insert(path.clone(), graph.nodes[key].start.line);
            note_lines(graph, value, depth - 1, path, found);
            path.pop();
        }
    }
}
