//! A target that is parsed once and matched many times.

use std::collections::HashSet;

use value::{Map, Value};

use crate::compound::{Expression, Fault, Side, Token, parse, parse_word};
use crate::ipcidr::Subnet;
use crate::nodegroup::WORD_LIMIT;
use crate::{
    Budget, Compare, DEFAULT_DELIMITER, Error, Glob, PyRegex, SubdictMatcher, TargetType, expand_nodegroup, split_list,
};

/// The context in which a target is parsed.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The delimiter in grain and pillar targets; `:` unless the publication has another one.
    pub delimiter: &'a str,
    /// The option `nodegroups`.
    pub nodegroups: Option<&'a Map>,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Context { delimiter: DEFAULT_DELIMITER, nodegroups: None }
    }
}

/// The facts about a minion, known to itself or to a pillar compiler.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The minion's id.
    pub id: &'a str,
    /// Its grains.
    pub grains: &'a Map,
    /// Its pillar.
    pub pillar: &'a Map,
}

/// A parsed target.
#[derive(Debug)]
pub struct Compiled {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) expression: Expression,
    /// Ids named in lists, for the master's `missing`, except those after a `not`.
    pub(crate) named: Vec<String>,
}

/// One word of a target.
#[derive(Debug)]
pub(crate) enum Atom {
    Glob(Glob),
    List(HashSet<String>),
    Pcre(PyRegex),
    Grain(SubdictMatcher),
    Pillar(SubdictMatcher),
    Ipcidr(Subnet),
    /// `M@`: exactly this id on the minion, a glob on the master.
    Manager(String),
    /// `T@`: a resource; Saltern has none.
    Resource,
}

impl Compiled {
    /// Parses a target as minions do.
    pub fn new(target: &Value, kind: TargetType, context: &Context) -> Result<Self, Error> {
        Builder { side: Side::Minion, exact_pillar: false, context, budget: &Budget::default() }.target(target, kind)
    }

    /// Parses a target as masters do to find the expected minions.
    pub fn for_master(target: &Value, kind: TargetType, context: &Context) -> Result<Self, Error> {
        Self::for_master_within(target, kind, context, &Budget::default())
    }

    /// Like `for_master`, with the cost of compiling patterns taken out of a budget.
    pub(crate) fn for_master_within(
        target: &Value,
        kind: TargetType,
        context: &Context,
        budget: &Budget,
    ) -> Result<Self, Error> {
        let exact_pillar = kind == TargetType::CompoundPillarExact;
        Builder { side: Side::Master, exact_pillar, context, budget }.target(target, kind)
    }

    /// Returns whether the target matches the minion.
    pub fn matches(&self, facts: &Facts) -> bool {
        let budget = Budget::default();
        let mut atom = |number: usize| self.atoms[number].matches(facts, &budget);
        let matches = self.expression.evaluate(&mut atom, &|inner| !inner).unwrap_or(false);
        // A match computed with an exhausted budget may be wrong, above all behind a `not`.
        matches && budget.check().is_ok()
    }
}

impl Atom {
    fn matches(&self, facts: &Facts, budget: &Budget) -> bool {
        match self {
            Atom::Glob(glob) => glob.matches_within(facts.id, budget),
            Atom::List(ids) => ids.contains(facts.id),
            Atom::Pcre(regex) => regex.is_match_within(facts.id, budget),
            Atom::Grain(path) => path.matches_within(facts.grains, budget),
            Atom::Pillar(path) => path.matches_within(facts.pillar, budget),
            Atom::Ipcidr(subnet) => subnet.matches(facts.grains),
            Atom::Manager(id) => id == facts.id,
            Atom::Resource => false,
        }
    }
}

struct Builder<'a> {
    side: Side,
    exact_pillar: bool,
    context: &'a Context<'a>,
    budget: &'a Budget,
}

impl Builder<'_> {
    fn target(&self, target: &Value, kind: TargetType) -> Result<Compiled, Error> {
        match kind {
            TargetType::Compound | TargetType::CompoundPillarExact => self.compound(target),
            TargetType::Nodegroup => {
                let empty = Map::new();
                let groups = self.context.nodegroups.unwrap_or(&empty);
                self.words(expand_nodegroup(self.text(target, kind)?, groups)?)
            }
            _ => Ok(Compiled {
                named: if kind == TargetType::List { split_list(target)? } else { Vec::new() },
                atoms: vec![self.simple(target, kind)?],
                expression: Expression::Atom(0),
            }),
        }
    }

    fn simple(&self, target: &Value, kind: TargetType) -> Result<Atom, Error> {
        if kind == TargetType::List {
            return split_list(target).map(|ids| Atom::List(ids.into_iter().collect()));
        }
        let text = self.text(target, kind)?;
        Ok(match kind {
            TargetType::Pcre => Atom::Pcre(PyRegex::within(text, self.budget)?),
            TargetType::Ipcidr => Atom::Ipcidr(Subnet::new(text)?),
            TargetType::Grain => Atom::Grain(self.path(text, kind, Compare::Glob)?),
            TargetType::GrainPcre => Atom::Grain(self.path(text, kind, Compare::Regex)?),
            TargetType::Pillar => Atom::Pillar(self.path(text, kind, Compare::Glob)?),
            TargetType::PillarPcre => Atom::Pillar(self.path(text, kind, Compare::Regex)?),
            TargetType::PillarExact => Atom::Pillar(self.path(text, kind, Compare::Exact)?),
            _ => Atom::Glob(Glob::new(text)),
        })
    }

    fn text<'v>(&self, target: &'v Value, kind: TargetType) -> Result<&'v str, Error> {
        match (target, self.side) {
            (Value::Str(text), _) => Ok(text),
            // Clients send "no target" as null, which a master takes for an empty string.
            (Value::Null, Side::Master) => Ok(""),
            (other, _) => Err(wrong_type(other, kind)),
        }
    }

    fn path(&self, text: &str, kind: TargetType, compare: Compare) -> Result<SubdictMatcher, Error> {
        let delimiter = self.context.delimiter;
        // Only for whole targets. In a compound word, a path without a delimiter just matches nothing.
        if !text.contains(delimiter) {
            return Err(Error::NoDelimiter { kind: kind.name(), target: text.to_owned() });
        }
        Ok(SubdictMatcher::new(text, delimiter, compare))
    }

    fn compound(&self, target: &Value) -> Result<Compiled, Error> {
        let words = match target {
            Value::Str(text) => text.split_whitespace().map(str::to_owned).collect(),
            Value::List(items) => {
                let word = |item: &Value| Ok(self.text(item, TargetType::Compound)?.to_owned());
                items.iter().map(word).collect::<Result<Vec<_>, Error>>()?
            }
            other => return Err(wrong_type(other, TargetType::Compound)),
        };
        self.words(words)
    }

    /// Builds the expression; groups are replaced by their words.
    fn words(&self, words: Vec<String>) -> Result<Compiled, Error> {
        let target = words.join(" ");
        let mut compiled = Compiled { atoms: Vec::new(), expression: Expression::Nothing, named: Vec::new() };
        let mut tokens = Vec::with_capacity(words.len());
        // The word of each token, for error messages.
        let mut said = Vec::with_capacity(words.len());
        let mut gap = None;
        // A stack instead of recursion: words of groups are pushed back and may name other groups.
        let mut open: Vec<String> = words.into_iter().rev().collect();
        while let Some(word) = open.pop() {
            // Checked in the loop, because each group may add words.
            if tokens.len() + open.len() > WORD_LIMIT {
                return Err(Error::Compound { target: shortened(&target), reason: "too many words".into() });
            }
            if let Some(operator) = Token::operator(&word) {
                tokens.push(operator);
                said.push(word);
                continue;
            }
            let parsed = parse_word(&word);
            if parsed.engine == Some('N') {
                let empty = Map::new();
                let groups = self.context.nodegroups.unwrap_or(&empty);
                // As in Salt, an unknown group leaves a gap, which usually makes the expression invalid.
                let group = match expand_nodegroup(parsed.pattern, groups) {
                    Err(Error::TooExpensive) => return Err(Error::TooExpensive),
                    Err(error) => {
                        tracing::error!("{error}");
                        gap = gap.or(Some(error));
                        Vec::new()
                    }
                    Ok(group) => group,
                };
                open.extend(group.into_iter().rev());
                continue;
            }
            let atom = self.word(&word)?;
            // Ids that are excluded are not missed when they do not exist.
            if matches!(atom, Atom::List(_)) && tokens.last() != Some(&Token::Not) {
                compiled.named.extend(split_list(&Value::from(parsed.pattern))?);
            }
            tokens.push(Token::Atom(compiled.atoms.len()));
            compiled.atoms.push(atom);
            said.push(word);
        }
        let invalid = |fault: Fault| {
            let place = fault.at.and_then(|at| said.get(at).map(|word| format!(": word {}, '{word}'", at + 1)));
            let reason = format!("{}{}", fault.reason, place.unwrap_or_default());
            Error::Compound { target: shortened(&target), reason }
        };
        // The gap says more than what it has made of the expression.
        compiled.expression = parse(tokens, self.side).map_err(|fault| gap.unwrap_or_else(|| invalid(fault)))?;
        Ok(compiled)
    }

    fn word(&self, word: &str) -> Result<Atom, Error> {
        let parsed = parse_word(word);
        let mut delimiter = [0; 4];
        // The option `--delimiter` does not reach into compound words; each word may bring its own.
        let delimiter = parsed.delimiter.map_or(DEFAULT_DELIMITER, |letter| letter.encode_utf8(&mut delimiter));
        let path = |compare| SubdictMatcher::new(parsed.pattern, delimiter, compare);
        Ok(match parsed.engine {
            // The whole word: `a@b` without a known engine is an id with an `@`.
            None => Atom::Glob(Glob::new(word)),
            Some('G') => Atom::Grain(path(Compare::Glob)),
            Some('P') => Atom::Grain(path(Compare::Regex)),
            Some('I' | 'J') if self.exact_pillar => Atom::Pillar(path(Compare::Exact)),
            Some('I') => Atom::Pillar(path(Compare::Glob)),
            Some('J') => Atom::Pillar(path(Compare::Regex)),
            Some('L') => Atom::List(split_list(&Value::from(parsed.pattern))?.into_iter().collect()),
            Some('E') => Atom::Pcre(PyRegex::within(parsed.pattern, self.budget)?),
            Some('S') => Atom::Ipcidr(Subnet::new(parsed.pattern)?),
            Some('M') => Atom::Manager(parsed.pattern.to_owned()),
            Some('T') => Atom::Resource,
            Some(engine) => return Err(Error::UnknownEngine { engine, word: word.to_owned() }),
        })
    }
}

fn shortened(target: &str) -> String {
    match target.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &target[..end]),
        None => target.to_owned(),
    }
}

fn wrong_type(found: &Value, kind: TargetType) -> Error {
    Error::WrongType { kind: kind.name(), found: found.type_name() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(target: &str, kind: TargetType) -> String {
        Compiled::for_master(&target.into(), kind, &Context::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_broken_expression_names_the_word() {
        for (target, reason) in [
            ("a and and", "operator where a word should be: word 3, 'and'"),
            ("and b", "expression begins with an operator: word 1, 'and'"),
            ("a b", "missing operator between two words: word 2, 'b'"),
            ("a and )", "operator where a word should be: word 3, ')'"),
            ("a ) or b", "unexpected right parenthesis: word 2, ')'"),
            ("( and b )", "operator after an opening bracket: word 2, 'and'"),
            ("a not not b or", "operator where a word should be: word 3, 'not'"),
            ("a or", "expression ends too early"),
        ] {
            assert_eq!(error_of(target, TargetType::Compound), format!("invalid compound target '{target}': {reason}"));
        }
    }

    #[test]
    fn a_group_that_is_missing_is_named() {
        for target in ["N@nope", "web1 or N@nope", "N@nope and N@none"] {
            assert_eq!(
                error_of(target, TargetType::Compound),
                "failed nodegroup expansion of 'nope': unknown nodegroup"
            );
        }
    }

    #[test]
    fn a_broken_regular_expression_is_explained_in_one_line() {
        for pattern in ["web[", "web(", "*x", "a{2,1}", "(?P<n", "\\q"] {
            let said = error_of(pattern, TargetType::Pcre);
            assert!(said.starts_with(&format!("invalid regular expression '{pattern}': ")), "{said}");
            assert!(!said.contains('\n') && said.len() < 120, "{said}");
        }
    }
}
