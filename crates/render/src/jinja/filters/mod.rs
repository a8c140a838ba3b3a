//! Salt's filters and tests.

mod dicts;
mod lists;
mod network;
mod products;
mod python_regex;
mod random;
mod regex;
mod serial;
mod system;
mod text;
mod xml;

use std::borrow::Cow;

use jinja::{CallArgs, Environment, Error, ErrorKind, State, Str, Value};

pub(super) use serial::double_quoted;

type Filter = fn(&mut CallArgs) -> Result<Value, Error>;

/// All filters by name.
const FILTERS: &[(&str, Filter)] = &[
    ("append_dict_key_value", dicts::append),
    ("avg", lists::avg),
    ("base64_decode", text::base64_decode),
    ("base64_encode", text::base64_encode),
    ("check_whitelist_blacklist", text::check_whitelist_blacklist),
    ("combinations", products::combinations),
    ("combinations_with_replacement", products::combinations_with_replacement),
    ("compare_dicts", dicts::compare),
    ("compare_lists", lists::compare),
    ("compress", products::compress),
    ("contains_whitespace", text::contains_whitespace),
    ("date_format", text::strftime),
    ("dict_to_sls_yaml_params", serial::dict_to_sls_yaml_params),
    ("difference", lists::difference),
    ("dns_check", system::dns_check),
    ("exactly_n_true", lists::exactly_n_true),
    ("exactly_one_true", lists::exactly_one_true),
    ("extend_dict_key_value", dicts::extend),
    ("file_hashsum", system::file_hashsum),
    ("filter_by_networks", network::filter_by_networks),
    ("flatten", lists::flatten),
    ("from_entries", dicts::from_entries),
    ("gen_mac", random::gen_mac),
    ("get_uid", system::get_uid),
    ("hmac", text::hmac),
    ("hmac_compute", text::hmac_compute),
    ("http_query", system::http_query),
    ("human_to_bytes", text::human_to_bytes),
    ("intersect", lists::intersect),
    ("ip_host", network::ip_host),
    ("ipaddr", network::ipaddr),
    ("ipv4", network::ipv4),
    ("ipv6", network::ipv6),
    ("ipwrap", network::ipwrap),
    ("is_bin_file", system::is_bin_file),
    ("is_empty", system::is_empty),
    ("is_hex", text::is_hex),
    ("is_ip", network::is_ip),
    ("is_ipv4", network::is_ipv4),
    ("is_ipv6", network::is_ipv6),
    ("is_iter", lists::is_iter),
    ("is_list", lists::is_list),
    ("is_text_file", system::is_text_file),
    ("json", serial::json),
    // The names are Salt's, although the filters encode.
    ("json_decode_dict", serial::encode_dict),
    ("json_decode_list", serial::encode_list),
    ("json_encode_dict", serial::encode_dict),
    ("json_encode_list", serial::encode_list),
    ("json_query", dicts::json_query),
    ("list_files", system::list_files),
    ("load_json", serial::load_json),
    ("load_text", serial::load_text),
    ("load_yaml", serial::load_yaml),
    ("mac_str_to_bytes", text::mac_str_to_bytes),
    ("max", lists::max),
    ("md5", text::md5),
    ("method_call", dicts::method_call),
    ("min", lists::min),
    ("mysql_to_dict", dicts::mysql_to_dict),
    ("network_hosts", network::network_hosts),
    ("network_size", network::network_size),
    ("path_join", system::path_join),
    ("permutations", products::permutations),
    ("product", products::product),
    ("python", serial::python),
    ("quote", text::quote),
    ("rand_str", random::random_hash),
    ("random_hash", random::random_hash),
    ("random_sample", random::random_sample),
    ("random_shuffle", random::random_shuffle),
    ("random_str", random::random_str),
    ("regex_escape", regex::regex_escape),
    ("regex_match", regex::regex_match),
    ("regex_replace", regex::regex_replace),
    ("regex_search", regex::regex_search),
    ("sequence", lists::sequence),
    ("set_dict_key_value", dicts::set),
    ("sha1", text::sha1),
    ("sha256", text::sha256),
    ("sha512", text::sha512),
    ("skip", text::skip),
    ("sorted_ignorecase", lists::sorted_ignorecase),
    ("str_to_num", text::to_num),
    ("strftime", text::strftime),
    ("substring_in_list", lists::substring_in_list),
    ("symmetric_difference", lists::symmetric_difference),
    ("to_bool", text::to_bool),
    ("to_bytes", text::to_bytes),
    ("to_camelcase", text::to_camelcase),
    ("to_entries", dicts::to_entries),
    ("to_num", text::to_num),
    ("to_snake_case", text::to_snake_case),
    ("tojson", serial::tojson),
    ("traverse", dicts::traverse),
    ("union", lists::union),
    ("unique", lists::unique),
    ("update_dict_key_value", dicts::update),
    ("uuid", text::uuid),
    ("which", system::which),
    ("xml", xml::xml),
    ("yaml", serial::yaml),
    ("yaml_dquote", serial::yaml_dquote),
    ("yaml_encode", serial::yaml_encode),
    ("yaml_squote", serial::yaml_squote),
    ("zip", products::zip),
    ("zip_longest", products::zip_longest),
];

/// Adds Salt's filters and tests; some take the place of Jinja's own.
pub fn install(env: &mut Environment) {
    for (name, filter) in FILTERS {
        env.add_filter(name, filter);
    }
    env.add_test("match", regex::is_match);
    env.add_test("equalto", regex::is_equal);
    env.add_test("list", lists::is_list);
}

/// Returns a text, or the error Python gives when something else is used as one.
fn text(value: &Value) -> Result<Str, Error> {
    match value {
        Value::Undefined(undefined) => Err(undefined.fail()),
        other => other.as_shared_str().cloned().ok_or_else(|| {
            Error::type_error(format!("expected string or bytes-like object, got '{}'", value.type_name()))
        }),
    }
}

/// Returns the bytes of a text or of bytes.
fn bytes_of(value: &Value) -> Result<Cow<'_, [u8]>, Error> {
    match value {
        Value::Str(text) | Value::Markup(text) => Ok(text.as_bytes().into()),
        Value::Bytes(bytes) => Ok((**bytes).into()),
        Value::Undefined(undefined) => Err(undefined.fail()),
        other => Err(Error::type_error(format!("expected str, bytes, or bytearray not {}", class(other)))),
    }
}

/// Returns what Python prints for the type of a value.
fn class(value: &Value) -> String {
    match value {
        Value::Markup(_) => "<class 'markupsafe.Markup'>".to_owned(),
        Value::Undefined(_) => format!("<class 'jinja2.runtime.{}'>", value.type_name()),
        Value::Dict(dict) if dict.type_name() != "dict" => format!("<class 'collections.{}'>", dict.type_name()),
        other => format!("<class '{}'>", other.type_name()),
    }
}

fn flag(state: &mut State, value: &Value) -> Result<bool, Error> {
    jinja::python::truthy(state, value)
}

/// Returns `str(value)`.
fn python_str(state: &mut State, value: &Value) -> Result<String, Error> {
    Ok(state.str(value)?.to_string())
}

/// An exception of Salt's.
fn salt_error(class: &str, text: impl Into<String>) -> Error {
    Error::other(class, text)
}

/// Returns the error that Python's `re` raises.
fn re_error(text: String) -> Error {
    Error::other("error", text)
}

/// Returns an integer argument, or Python's TypeError with the parameter's name.
fn whole(value: &Value, name: &str) -> Result<i64, Error> {
    value.as_i64().ok_or_else(|| {
        Error::type_error(format!("'{}' object cannot be interpreted as an integer ({name})", value.type_name()))
    })
}

/// The error for a list that would become too large.
fn too_many() -> Error {
    Error::new(ErrorKind::Memory, "the list would become too large")
}

/// The strictly undefined values in a value, joined to one: what Salt's serializers return in place of their result.
fn undefined_in(state: &mut State, value: &Value) -> Option<Value> {
    let mut hints = Vec::new();
    let mut seen = std::collections::HashSet::new();
    collect_undefined(value, &mut seen, &mut hints);
    if hints.is_empty() {
        return None;
    }
    let kind = state.env().undefined;
    Some(jinja::Undefined::hint(kind, hints.join("\n"), Value::None))
}

fn collect_undefined(value: &Value, seen: &mut std::collections::HashSet<usize>, hints: &mut Vec<String>) {
    match value {
        Value::Undefined(undefined) if undefined.kind == jinja::UndefinedKind::Strict => {
            hints.push(undefined.message())
        }
        Value::List(list) if seen.insert(list.id()) => {
            list.to_vec().iter().for_each(|item| collect_undefined(item, seen, hints));
        }
        Value::Tuple(items) if seen.len() < 100_000 => {
            items.iter().for_each(|item| collect_undefined(item, seen, hints));
        }
        Value::Dict(dict) if seen.insert(dict.id()) => {
            dict.entries().iter().for_each(|(_, item)| collect_undefined(item, seen, hints));
        }
        _ => {}
    }
}
