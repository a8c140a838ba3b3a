//! The tables of known options: name, types and default, one line each in `options/*.txt`. Saltern's own options are in
//! `options/ours-*.txt`.

use std::sync::LazyLock;

use value::{Map, Value};

use crate::{Role, host};

/// A type of an option, as the tables name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Str,
    Int,
    Float,
    Bool,
    List,
    Map,
    /// May be null.
    None,
    /// Not checked.
    Any,
}

/// An option that Salt knows.
#[derive(Debug)]
pub(crate) struct KnownOption {
    pub(crate) name: &'static str,
    pub(crate) types: Vec<Type>,
    /// `None` for an option that is absent until it is set.
    pub(crate) default: Option<&'static str>,
}

static MASTER: LazyLock<Vec<KnownOption>> =
    LazyLock::new(|| parse(concat!(include_str!("options/master.txt"), include_str!("options/ours-master.txt"))));
static MINION: LazyLock<Vec<KnownOption>> =
    LazyLock::new(|| parse(concat!(include_str!("options/minion.txt"), include_str!("options/ours-minion.txt"))));
static UNSET: LazyLock<Vec<KnownOption>> = LazyLock::new(|| parse(include_str!("options/unset.txt")));

/// Returns the options that have a default, in the order in which they are shown.
pub(crate) fn known(role: Role) -> &'static [KnownOption] {
    match role {
        Role::Master => &MASTER,
        Role::Minion => &MINION,
    }
}

/// Returns the valid types of an option; `None` for an unknown one. Options of the other daemon count too, because Salt checks
/// all names in every file.
pub(crate) fn types(role: Role, name: &str) -> Option<&'static [Type]> {
    let other = match role {
        Role::Master => Role::Minion,
        Role::Minion => Role::Master,
    };
    // The daemon's own table first: a few options have other types on the other side.
    let mut all = known(role).iter().chain(known(other)).chain(UNSET.iter());
    all.find(|known| known.name == name).map(|known| known.types.as_slice())
}

/// Returns the names of all options of one side, including those without a default.
pub(crate) fn names(role: Role) -> impl Iterator<Item = &'static str> {
    known(role).iter().chain(UNSET.iter()).map(|known| known.name)
}

/// Returns the options when no file sets any.
pub(crate) fn defaults(role: Role) -> Map {
    let mut map = Map::with_capacity(known(role).len() + 32);
    for known in known(role) {
        if let Some(text) = known.default {
            map.insert(known.name, parse_default(text));
        }
    }
    map
}

fn parse(table: &'static str) -> Vec<KnownOption> {
    table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &'static str) -> KnownOption {
    let (name, rest) = line.split_once(' ').unwrap_or((line, "any"));
    let (types, default) = match rest.trim_ascii_start().split_once(' ') {
        Some((types, default)) => (types, Some(default.trim_ascii()).filter(|text| !text.is_empty())),
        None => (rest.trim_ascii(), None),
    };
    KnownOption { name, types: types.split('|').map(parse_type).collect(), default }
}

fn parse_type(word: &str) -> Type {
    match word {
        "str" => Type::Str,
        "int" => Type::Int,
        "float" => Type::Float,
        "bool" => Type::Bool,
        "list" => Type::List,
        "map" => Type::Map,
        "none" => Type::None,
        _ => Type::Any,
    }
}

/// Parses a default. The usual forms are parsed here; a YAML parser for each of some hundred lines would slow the start.
fn parse_default(text: &str) -> Value {
    match text {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "[]" => return Value::List(Vec::new()),
        "{}" => return Value::Map(Map::new()),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return Value::Int(number);
    }
    let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    // The only default that depends on the process.
    if quoted == Some("@user") {
        return host::current_user().into();
    }
    if let Some(plain) = quoted.filter(|plain| !plain.contains('\'')) {
        return expand_home(plain).into();
    }
    yaml::load(text, "defaults").unwrap_or_default()
}

/// Replaces a leading `~` by the home directory.
pub(crate) fn expand_home(path: &str) -> String {
    match (path.strip_prefix('~'), home()) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => path.to_owned(),
    }
}

fn home() -> Option<String> {
    std::env::var("HOME").ok().filter(|home| !home.is_empty()).or_else(|| {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()??;
        user.dir.to_str().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_read_and_has_its_type() {
        for role in [Role::Master, Role::Minion] {
            let defaults = defaults(role);
            assert!(defaults.len() > 300);
            for known in known(role) {
                let value = defaults.get(known.name).expect("a default");
                crate::check::check(&known.types, value).unwrap_or_else(|must| panic!("{}: {must}", known.name));
                assert!(known.default == Some("null") || !value.is_null(), "{} is not YAML", known.name);
            }
        }
    }
}
