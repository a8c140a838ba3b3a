//! `match` — whether a target means this minion.

use exec::{Context, Error, Module, Result, VarArgs, function};
use targeting::{Compiled, Facts, TargetType};
use value::{Map, Value};

use crate::util;

/// Registers the functions of `match`.
pub static MODULE: Module = Module::new(
    "match",
    "Whether a target means this minion.",
    &[
        &COMPOUND,
        &DATA,
        &FILTER_BY,
        &GLOB,
        &GRAIN,
        &GRAIN_PCRE,
        &IFELSE,
        &IPCIDR,
        &LIST,
        &PCRE,
        &PILLAR,
        &PILLAR_PCRE,
        &SEARCH_BY,
    ],
);

/// A target and the settings it is matched with.
struct Question<'a> {
    kind: TargetType,
    target: &'a Value,
    id: Option<&'a str>,
    delimiter: &'a str,
}

impl<'a> Question<'a> {
    fn new(kind: TargetType, target: &'a Value) -> Self {
        Question { kind, target, id: None, delimiter: targeting::DEFAULT_DELIMITER }
    }

    /// Matches the target. An invalid one matches no minion, and the reason is logged.
    fn answer(&self, ctx: &Context) -> bool {
        let nodegroups = ctx.opt("nodegroups").and_then(Value::as_map);
        let around = targeting::Context { delimiter: self.delimiter, nodegroups };
        // A foreign id is matched with this minion's grains and pillar, as in Salt: the others are not known here.
        let facts = Facts { id: self.id.unwrap_or_else(|| ctx.id()), grains: &ctx.grains, pillar: &ctx.pillar };
        match Compiled::new(self.target, self.kind, &around) {
            Ok(compiled) => compiled.matches(&facts),
            // An error would fail the calling state or template; Salt answers no and logs.
            Err(error) => {
                // It quotes the target.
                tracing::error!("{error}");
                false
            }
        }
    }
}

/// Returns whether a compound target matches this minion, or the named one as far as ids go.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.compound 'G@os:Debian and not web*'
#[function]
fn compound(ctx: &Context, tgt: Value, minion_id: Option<String>) -> Result<bool> {
    Ok(Question { id: minion_id.as_deref(), ..Question::new(TargetType::Compound, &tgt) }.answer(ctx))
}

/// Returns whether a glob matches this minion, or the named one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.glob 'web*'
#[function]
fn glob(ctx: &Context, tgt: Value, minion_id: Option<String>) -> Result<bool> {
    Ok(Question { id: minion_id.as_deref(), ..Question::new(TargetType::Glob, &tgt) }.answer(ctx))
}

/// Returns whether this minion, or the named one, is on a list.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.list web1,web2
#[function]
fn list(ctx: &Context, tgt: Value, minion_id: Option<String>) -> Result<bool> {
    Ok(Question { id: minion_id.as_deref(), ..Question::new(TargetType::List, &tgt) }.answer(ctx))
}

/// Returns whether a regular expression matches this minion, or the named one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.pcre 'web\d+'
#[function]
fn pcre(ctx: &Context, tgt: Value, minion_id: Option<String>) -> Result<bool> {
    Ok(Question { id: minion_id.as_deref(), ..Question::new(TargetType::Pcre, &tgt) }.answer(ctx))
}

/// Returns whether this minion has an address, or one in a network.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.ipcidr 192.168.0.0/24
#[function]
fn ipcidr(ctx: &Context, tgt: Value) -> Result<bool> {
    Ok(Question::new(TargetType::Ipcidr, &tgt).answer(ctx))
}

/// Returns whether a grain of this minion matches a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.grain 'os:Deb*'
#[function]
fn grain(ctx: &Context, tgt: Value, #[default(":")] delimiter: String) -> Result<bool> {
    Ok(Question { delimiter: &delimiter, ..Question::new(TargetType::Grain, &tgt) }.answer(ctx))
}

/// Returns whether a grain of this minion matches a regular expression.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.grain_pcre 'os:(Debian|Ubuntu)'
#[function]
fn grain_pcre(ctx: &Context, tgt: Value, #[default(":")] delimiter: String) -> Result<bool> {
    Ok(Question { delimiter: &delimiter, ..Question::new(TargetType::GrainPcre, &tgt) }.answer(ctx))
}

/// Returns whether a pillar value of this minion matches a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.pillar 'role:web*'
#[function]
fn pillar(ctx: &Context, tgt: Value, #[default(":")] delimiter: String) -> Result<bool> {
    Ok(Question { delimiter: &delimiter, ..Question::new(TargetType::Pillar, &tgt) }.answer(ctx))
}

/// Returns whether a pillar value of this minion matches a regular expression.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.pillar_pcre 'role:web|db'
#[function]
fn pillar_pcre(ctx: &Context, tgt: Value, #[default(":")] delimiter: String) -> Result<bool> {
    Ok(Question { delimiter: &delimiter, ..Question::new(TargetType::PillarPcre, &tgt) }.answer(ctx))
}

/// Returns whether an entry of this minion's data store matches.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.data 'spam:eggs'
#[function]
fn data(ctx: &Context, tgt: String) -> Result<bool> {
    Ok(stored(ctx, &tgt))
}

fn stored(ctx: &Context, target: &str) -> bool {
    targeting::data_match(target, |key| crate::data::read(ctx).get(key).cloned())
}

/// Calls a match function by name, for `filter_by` and similar functions.
fn by_name(ctx: &Context, name: &str, target: &Value, id: Option<&str>) -> Result<bool> {
    // The data store is not a kind of target for a master, so the enumeration does not have it.
    if name == "data" {
        return Ok(stored(ctx, &target.to_string()));
    }
    let kind =
        // Salt's functions are called `glob_` and so on where Python has the word; callers write either.
        TargetType::from_name(name.trim_end_matches('_')).map_err(|error| Error::execution(error.to_string()))?;
    Ok(Question { id, ..Question::new(kind, target) }.answer(ctx))
}

/// Returns the first entry of a map whose key is a target that matches this minion, else that under ``default``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.filter_by '{"web*": nginx, default: none}' tgt_type=glob
#[function]
fn filter_by(
    ctx: &Context,
    lookup: Map,
    #[default("compound")] tgt_type: String,
    minion_id: Option<String>,
    merge: Option<Value>,
    #[default(false)] merge_lists: bool,
    #[default("default")] default: Value,
) -> Result<Value> {
    let merge = merge.filter(Value::truthy).map(|merge| Merge { over: merge, lists: merge_lists });
    filtered(ctx, lookup, FilterOptions { tgt_type, minion_id, merge, default })
}

struct FilterOptions {
    tgt_type: String,
    minion_id: Option<String>,
    merge: Option<Merge>,
    default: Value,
}

struct Merge {
    over: Value,
    lists: bool,
}

fn filtered(ctx: &Context, lookup: Map, options: FilterOptions) -> Result<Value> {
    for (key, value) in &lookup {
        if by_name(ctx, &options.tgt_type, key, options.minion_id.as_deref())? {
            return options.merge.map_or_else(|| Ok(value.clone()), |merge| merge.onto(value.clone()));
        }
    }
    Ok(lookup.get_value(&options.default).cloned().unwrap_or_default())
}

impl Merge {
    fn onto(self, value: Value) -> Result<Value> {
        match (value, self.over) {
            // A key without a value means that only the merged data count.
            (Value::Null, over @ Value::Map(_)) => Ok(over),
            (Value::Map(mut map), Value::Map(over)) => {
                util::merge_maps(&mut map, over, self.lists);
                Ok(map.into())
            }
            (_, Value::Map(_)) => Err(Error::execution("Cannot update using non-dict types in dictupdate.update()")),
            _ => Err(Error::execution("filter_by merge argument must be a dictionary.")),
        }
    }
}

/// Returns the keys of a map whose lists hold a target that matches this minion, or None.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.search_by '{web: ["web*", "G@role:web"], db: ["db*"]}'
#[function]
fn search_by(
    ctx: &Context,
    lookup: Map,
    #[default("compound")] tgt_type: String,
    minion_id: Option<String>,
) -> Result<Option<Vec<Value>>> {
    let mut keys = Vec::new();
    for (key, targets) in &lookup {
        for target in targets.as_list().unwrap_or_default() {
            if by_name(ctx, &tgt_type, target, minion_id.as_deref())? {
                // A key whose list has several matching targets is listed once for each, as in Salt.
                keys.push(key.clone());
            }
        }
    }
    // Salt returns None and not an empty list.
    Ok((!keys.is_empty()).then_some(keys))
}

/// Takes targets and values in turn and returns the value behind the first target that matches this minion; the last
/// argument is returned when none does. True matches every minion, False none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' match.ifelse 'web*' nginx 'db*' postgresql none
#[function]
fn ifelse(
    ctx: &Context,
    args: VarArgs,
    #[default("compound")] tgt_type: String,
    minion_id: Option<String>,
    merge: Option<Value>,
    #[default(false)] merge_lists: bool,
) -> Result<Value> {
    let mut args = args.0;
    if args.len().is_multiple_of(2) {
        return Err(Error::execution("The ifelse function must have an odd number of arguments!"));
    }
    let last = args.pop().unwrap_or_default();
    if args.is_empty() {
        return Ok(last);
    }
    let mut lookup = Map::new();
    for pair in args.chunks(2) {
        let key = match &pair[0] {
            // The command line turns `True` into a boolean, which is not a target; Salt replaces both values in this
            // way.
            Value::Bool(true) => "*".into(),
            Value::Bool(false) => "SALT_IFELSE_MATCH_NOTHING".into(),
            key => key.clone(),
        };
        lookup.insert(key, pair[1].clone());
    }
    let default = Value::from("SALT_IFELSE_FUNCTION_DEFAULT");
    // No minion has an id like this, so the entry only serves as the default.
    lookup.insert(default.clone(), last);
    let merge = merge.filter(Value::truthy).map(|merge| Merge { over: merge, lists: merge_lists });
    filtered(ctx, lookup, FilterOptions { tgt_type, minion_id, merge, default })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::{list, map};

    fn call(fun: &str, args: Value, kwargs: Map) -> Result<Value> {
        let opts = map! { "id" => "web1", "nodegroups" => map! { "front" => "web*" }, "cachedir" => "/nonexistent" };
        let grains = map! { "os" => "Debian", "ipv4" => list!["10.0.0.5"], "ipv6" => list![] };
        let (ctx, _) = context(&[&MODULE], opts, grains, map! { "role" => "web" });
        let call = exec::Call { args: args.into_list().unwrap(), kwargs };
        ctx.call_with(&format!("match.{fun}"), call)
    }

    #[test]
    fn every_kind_of_target_is_understood() {
        for (fun, target, expected) in [
            ("glob", "web*", true),
            ("glob", "db*", false),
            ("list", "db1,web1", true),
            ("pcre", r"web\d", true),
            ("grain", "os:Deb*", true),
            ("grain_pcre", "os:(Debian|Ubuntu)", true),
            ("pillar", "role:w*", true),
            ("pillar_pcre", "role:db|web", true),
            ("ipcidr", "10.0.0.0/8", true),
            ("ipcidr", "11.0.0.0/8", false),
            ("compound", "G@os:Debian and not db*", true),
            ("compound", "N@front", true),
            // An invalid target matches no minion; it is not an error.
            ("compound", "( web1", false),
            ("pcre", "(", false),
            ("data", "a:b", false),
        ] {
            assert_eq!(call(fun, list![target], map! {}).unwrap(), expected.into(), "{fun} {target}");
        }
        assert_eq!(call("glob", list!["db*"], map! { "minion_id" => "db1" }).unwrap(), true.into());
        assert_eq!(call("grain", list!["os|Debian"], map! { "delimiter" => "|" }).unwrap(), true.into());
    }

    #[test]
    fn entries_are_chosen_by_target() {
        let lookup = || map! { "db*" => 1, "G@os:Debian" => map! { "a" => 1 }, "default" => 3 };
        assert_eq!(call("filter_by", list![lookup()], map! {}).unwrap(), map! { "a" => 1 }.into());
        let merged = call("filter_by", list![lookup()], map! { "merge" => map! { "b" => 2 } }).unwrap();
        assert_eq!(merged, map! { "a" => 1, "b" => 2 }.into());
        let globbed = call("filter_by", list![lookup()], map! { "tgt_type" => "glob" }).unwrap();
        assert_eq!(globbed, 3.into());
        let search = map! { "w" => list!["web*", "G@os:Debian"], "d" => list!["db*"] };
        assert_eq!(call("search_by", list![search], map! {}).unwrap(), list!["w", "w"]);
        assert_eq!(call("ifelse", list!["db*", 1, "web*", 2, 3], map! {}).unwrap(), 2.into());
        assert_eq!(call("ifelse", list![false, 1, 3], map! {}).unwrap(), 3.into());
        assert_eq!(call("ifelse", list![true, 1, 3], map! {}).unwrap(), 1.into());
        assert_eq!(call("ifelse", list![5], map! {}).unwrap(), 5.into());
        assert!(call("ifelse", list![1, 2], map! {}).is_err());
    }
}
