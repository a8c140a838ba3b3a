//! `config` — options, wherever they are set: in the minion's files, grains, pillar, or the master's files.

use std::borrow::Cow;

use exec::{Context, Error, Module, Result, function};
use targeting::Glob;
use value::{Map, Value, list, map};

use crate::util;

/// Registers the functions of `config`.
pub static MODULE: Module = Module::new(
    "config",
    "Options of the minion, with grains, pillar and the master's options behind them.",
    &[&BACKUP_MODE, &DOT_VALS, &GATHER_BOOTSTRAP_SCRIPT, &GET, &ITEMS, &MANAGE_MODE, &MERGE, &OPTION, &VALID_FILEPROTO],
);

/// The defaults that modules rely on.
fn defaults() -> Map {
    map! {
        "mongo.db" => "salt",
        "mongo.password" => "",
        "mongo.port" => 27017,
        "mongo.user" => "",
        "redis.db" => "0",
        "redis.host" => "salt",
        "redis.port" => 6379,
        "test.foo" => "unconfigured",
        // Values of modules that do not exist here stay in the table: states and templates read them through
        // `config.get`.
        "ca.cert_base_path" => "/etc/pki",
        "solr.cores" => list![],
        "solr.host" => "localhost",
        "solr.port" => "8983",
        "solr.baseurl" => "/solr",
        "solr.type" => "master",
        "solr.request_timeout" => (),
        "solr.init_script" => "/etc/rc.d/solr",
        "solr.dih.import_options" => map! { "clean" => false, "optimize" => true, "commit" => true, "verbose" => false },
        "solr.backup_path" => (),
        "solr.num_backups" => 1,
        "poudriere.config" => "/usr/local/etc/poudriere.conf",
        "poudriere.config_dir" => "/usr/local/etc/poudriere.d",
        "ldap.uri" => "",
        "ldap.server" => "localhost",
        "ldap.port" => "389",
        "ldap.tls" => false,
        "ldap.no_verify" => false,
        "ldap.anonymous" => true,
        "ldap.scope" => 2,
        "ldap.attrs" => (),
        "ldap.binddn" => "",
        "ldap.bindpw" => "",
        "hosts.file" => "/etc/hosts",
        "aliases.file" => "/etc/aliases",
        "virt" => map! { "tunnel" => false, "images" => "/srv/salt-images" },
        "docker.exec_driver" => "docker-exec",
        "docker.compare_container_networks" => map! {
            "static" => list!["Aliases", "Links", "IPAMConfig"],
            "automatic" => list!["IPAddress", "Gateway", "GlobalIPv6Address", "IPv6Gateway"],
        },
    }
}

/// Returns the master's options, if the pillar carries them.
fn of_master(ctx: &Context) -> Option<&Map> {
    ctx.pillar.get("master").and_then(Value::as_map)
}

/// Returns the options to look for `name` in. The grains and the pillar are among them in Salt, and are copied only for a
/// name that may mean them.
fn options_for<'a>(ctx: &'a Context, name: &str) -> Cow<'a, Map> {
    if ["grains", "pillar"].iter().any(|data| name.starts_with(data)) {
        return Cow::Owned(ctx.opts_with_data());
    }
    Cow::Borrowed(&ctx.opts)
}

/// Returns an option: from the minion's files, else the grains, the pillar, the master's options, the built-in
/// defaults. A key may be nested: ``docker:registry``. ``merge`` (recurse or overwrite) merges all of them instead of
/// taking the first.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.get master
///     salt '*' config.get pkg:apache default=apache2 omit_grains=True
#[function]
fn get(
    ctx: &Context,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    merge: Option<String>,
    #[default(false)] omit_opts: bool,
    #[default(false)] omit_pillar: bool,
    #[default(false)] omit_master: bool,
    #[default(false)] omit_grains: bool,
) -> Result<Value> {
    let defaults = defaults();
    let opts = options_for(ctx, &key);
    let found = match merge {
        Some(strategy) => {
            let all = merged(ctx, &opts, &strategy, &defaults);
            util::traverse(&all, &key, &delimiter).cloned()
        }
        None => {
            // The order is Salt's: options of the machine take precedence over grains, pillar and the master, in this
            // order.
            let places = [
                (!omit_opts).then_some(&*opts),
                (!omit_grains).then_some(&*ctx.grains),
                (!omit_pillar).then_some(&*ctx.pillar),
                of_master(ctx).filter(|_| !omit_master),
                Some(&defaults),
            ];
            places.into_iter().flatten().find_map(|place| util::traverse(place, &key, &delimiter)).cloned()
        }
    };
    match found {
        // The bare address would pass for the secret itself, so an error is safer than the text.
        Some(Value::Str(text)) if text.starts_with("sdb://") => {
            Err(Error::execution(format!("not supported: option '{key}' refers to a secret in an sdb store")))
        }
        Some(found) => Ok(found),
        None => Ok(default),
    }
}

fn merged(ctx: &Context, opts: &Map, strategy: &str, defaults: &Map) -> Map {
    if !matches!(strategy, "recurse" | "overwrite") {
        // As in Salt, a warning is logged and the default strategy is used.
        tracing::warn!("Unsupported merge strategy '{strategy}'. Falling back to 'recurse'.");
    }
    let mut all = defaults.clone();
    // From the weakest to the strongest: each map is merged over those before it.
    let places = [of_master(ctx), Some(&*ctx.pillar), Some(&*ctx.grains), Some(opts)];
    for place in places.into_iter().flatten() {
        if strategy == "overwrite" {
            all.update(place.clone());
        } else {
            util::merge_maps(&mut all, place.clone(), false);
        }
    }
    all
}

/// Returns an option by its full name: from the minion's files, else the grains, the pillar, the master's options, the
/// built-in defaults. With ``wildcard=True`` the name is a glob and the result a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.option redis.host
///     salt '*' config.option 'ldap.*' wildcard=True
#[function]
fn option(
    ctx: &Context,
    value: String,
    default: Option<Value>,
    #[default(false)] omit_opts: bool,
    #[default(false)] omit_grains: bool,
    #[default(false)] omit_pillar: bool,
    #[default(false)] omit_master: bool,
    #[default(false)] omit_all: bool,
    #[default(false)] wildcard: bool,
) -> Result<Value> {
    let defaults = defaults();
    let keep = |omit: bool| !omit && !omit_all;
    let opts = if wildcard { Cow::Owned(ctx.opts_with_data()) } else { options_for(ctx, &value) };
    let places: Vec<&Map> = [
        keep(omit_opts).then_some(&*opts),
        keep(omit_grains).then_some(&*ctx.grains),
        keep(omit_pillar).then_some(&*ctx.pillar),
        of_master(ctx).filter(|_| keep(omit_master)),
        Some(&defaults),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !wildcard {
        // `config.option` takes the name literally; only `config.get` walks down at colons.
        let found = places.iter().find_map(|place| place.get(&value)).cloned();
        return Ok(found.or(default).unwrap_or_else(|| "".into()));
    }
    let glob = Glob::new(&value);
    let mut found = Map::new();
    for (name, entry) in places.into_iter().flatten() {
        if name.as_str().is_some_and(|name| glob.matches(name) && !found.contains_key(name)) {
            found.insert(name.clone(), entry.clone());
        }
    }
    Ok(if found.is_empty() { default.unwrap_or_else(|| found.into()) } else { found.into() })
}

/// Returns an option, merged from the minion's files, the master's options, and the pillar: maps are merged, lists
/// appended, and of other values the first counts.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.merge mine_functions
#[function]
fn merge(
    ctx: &Context,
    value: String,
    #[default("")] default: Value,
    #[default(false)] omit_opts: bool,
    #[default(false)] omit_master: bool,
    #[default(false)] omit_pillar: bool,
) -> Result<Value> {
    Ok(merged_option(ctx, &value, [omit_opts, omit_master, omit_pillar]).unwrap_or(default))
}

/// Returns what `config.merge` finds. `omit` leaves out the minion's options, the master's, and the pillar.
pub fn merged_option(ctx: &Context, name: &str, omit: [bool; 3]) -> Option<Value> {
    let opts = options_for(ctx, name);
    let places = [Some(&*opts), of_master(ctx), Some(&*ctx.pillar)];
    let kept = places.into_iter().zip(omit).filter(|(_, omit)| !omit).filter_map(|(place, _)| place);
    let mut result: Option<Value> = None;
    for found in kept.filter_map(|place| place.get(name)) {
        match (&mut result, found) {
            (None, Value::Null) => {}
            // Text cannot be merged: the first place that has it decides.
            (None, Value::Str(_)) => return Some(found.clone()),
            (None, _) => result = Some(found.clone()),
            (Some(Value::Map(first)), Value::Map(more)) => {
                // Values that were found first take precedence.
                let mut below = more.clone();
                below.update(std::mem::take(first));
                *first = below;
            }
            (Some(Value::List(first)), Value::List(more)) => first.extend(more.iter().cloned()),
            _ => {}
        }
    }
    result.or_else(|| defaults().get(name).cloned())
}

/// Returns all options of the minion.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.items
#[function]
fn items(ctx: &Context) -> Result<Map> {
    Ok(ctx.opts_with_data())
}

/// Returns the options whose names begin with a word and a dot, the master's and the minion's.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.dot_vals host
#[function]
fn dot_vals(ctx: &Context, value: String) -> Result<Map> {
    Ok(starting_with(ctx, &format!("{value}.")).into_iter().collect())
}

/// Returns the options whose names begin with a prefix, the master's first.
pub fn starting_with(ctx: &Context, prefix: &str) -> Vec<(String, Value)> {
    // The minion's own options come last, so they win when the pairs become a map.
    let all = of_master(ctx).into_iter().flatten().chain(&*ctx.opts);
    let named = all.filter_map(|(name, entry)| Some((name.as_str()?, entry)));
    let chosen = named.filter(|(name, _)| name.starts_with(prefix));
    chosen.map(|(name, entry)| (name.to_owned(), entry.clone())).collect()
}

/// Returns the backup mode of files: the given mode, or the option.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.backup_mode
#[function]
fn backup_mode(ctx: &Context, #[default("")] backup: Value) -> Result<Value> {
    if backup.truthy() {
        return Ok(backup);
    }
    Ok(util::config_get(ctx, "backup_mode").unwrap_or_else(|| "".into()))
}

/// Returns a file mode in its usual form, four digits.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.manage_mode 644
#[function]
fn manage_mode(mode: Value) -> Result<Value> {
    if mode.is_null() {
        return Ok(Value::Null);
    }
    // YAML 1.1 reads 0644 as the number 420, so modes are written as text, and in every notation people know.
    let text = mode.to_string().replace("0o", "0");
    let digits = text.trim_matches('"').trim_matches('\'').trim_start_matches('0');
    Ok(format!("{digits:0>4}").into())
}

/// Returns whether files can be fetched from such an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.valid_fileproto salt://path/to/file
#[function]
fn valid_fileproto(uri: String) -> Result<bool> {
    let scheme = uri.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let known = ["salt", "file", "http", "https", "ftp", "swift", "s3"];
    Ok(scheme.is_some_and(|scheme| known.contains(&scheme.as_str())))
}

/// Refused: it would load a script from the internet for salt-cloud.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' config.gather_bootstrap_script
#[function]
fn gather_bootstrap_script(bootstrap: Option<Value>) -> Result<()> {
    let _ = bootstrap;
    Err(Error::execution("not supported: config.gather_bootstrap_script serves salt-cloud"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;

    fn ctx() -> Context {
        let opts = map! { "master" => "a", "nested" => map! { "x" => 1 }, "l" => list![1], "secret" => "sdb://v/k", "host.a" => 1 };
        let pillar = map! {
            "nested" => map! { "y" => 2 },
            "l" => list![2],
            "master" => map! { "nested" => map! { "z" => 3, "x" => 9 }, "only" => "there", "host.b" => 2 },
        };
        context(&[&MODULE], opts, map! { "grain" => "g" }, pillar).0
    }

    fn call(fun: &str, args: Value, kwargs: Map) -> Value {
        let call = exec::Call { args: args.into_list().unwrap(), kwargs };
        ctx().call_with(&format!("config.{fun}"), call).unwrap()
    }

    #[test]
    fn the_nearest_place_counts() {
        assert_eq!(call("get", list!["nested:x"], map! {}), 1.into());
        assert_eq!(call("get", list!["nested:y"], map! {}), 2.into());
        assert_eq!(call("get", list!["nested:z"], map! {}), 3.into());
        assert_eq!(call("get", list!["grain"], map! {}), "g".into());
        assert_eq!(call("get", list!["grain"], map! { "omit_grains" => true }), "".into());
        assert_eq!(call("get", list!["virt:tunnel"], map! {}), false.into());
        assert_eq!(call("get", list!["none", 7], map! {}), 7.into());
        let merged = map! { "z" => 3, "x" => 1, "y" => 2 };
        assert_eq!(call("get", list!["nested"], map! { "merge" => "recurse" }), merged.into());
        assert!(ctx().call("config.get", vec!["secret".into()]).is_err());
    }

    #[test]
    fn grains_and_pillar_are_options() {
        let pillar = ctx().pillar;
        assert_eq!(call("get", list!["grains:grain"], map! { "omit_grains" => true }), "g".into());
        assert_eq!(call("get", list!["pillar:l"], map! { "merge" => "recurse" }), list![2]);
        assert_eq!(call("option", list!["grains"], map! {}), map! { "grain" => "g" }.into());
        assert_eq!(
            call("option", list!["pill*"], map! { "wildcard" => true }),
            map! { "pillar" => (*pillar).clone() }.into()
        );
        assert_eq!(call("merge", list!["pillar"], map! {}), (*pillar).clone().into());
        let items = call("items", list![], map! {}).into_map().unwrap();
        assert_eq!(
            (items.get("pillar"), items.get("nested")),
            (Some(&(*pillar).clone().into()), Some(&map! { "x" => 1 }.into()))
        );
        assert_eq!(call("get", list!["grains:grain"], map! { "omit_opts" => true }), "".into());
    }

    #[test]
    fn whole_options_are_found_or_merged() {
        assert_eq!(call("option", list!["only"], map! {}), "there".into());
        assert_eq!(call("option", list!["test.foo"], map! {}), "unconfigured".into());
        assert_eq!(call("option", list!["none"], map! {}), "".into());
        let mongo = map! { "mongo.db" => "salt", "mongo.password" => "", "mongo.port" => 27017, "mongo.user" => "" };
        assert_eq!(call("option", list!["mongo*"], map! { "wildcard" => true }), mongo.into());
        assert_eq!(call("merge", list!["l"], map! {}), list![1, 2]);
        assert_eq!(call("merge", list!["nested"], map! {}), map! { "y" => 2, "z" => 3, "x" => 1 }.into());
        assert_eq!(call("dot_vals", list!["host"], map! {}), map! { "host.b" => 2, "host.a" => 1 }.into());
    }

    #[test]
    fn modes_and_addresses_are_checked() {
        for (mode, normal) in [("644", "0644"), ("\"0o755\"", "0755"), ("00644", "0644"), ("0", "0000")] {
            assert_eq!(call("manage_mode", list![mode], map! {}), normal.into());
        }
        assert_eq!(call("valid_fileproto", list!["salt://x"], map! {}), true.into());
        assert_eq!(call("valid_fileproto", list!["/x"], map! {}), false.into());
    }
}
