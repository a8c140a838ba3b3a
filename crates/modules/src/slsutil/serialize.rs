//! `slsutil.serialize` and `slsutil.deserialize`.

use exec::{Error, KwArgs, Result, function};
use python::json;
use value::{Map, Value};
use yaml::{Flow, Style};

/// Serializers of Salt that are not here.
// Salt has these. The error should say that they are missing here, and not look like a typing mistake.
const MISSING: [&str; 5] = ["configparser", "msgpack", "python", "toml", "yamlex"];

fn unknown(serializer: &str) -> Error {
    match MISSING.contains(&serializer) {
        true => Error::execution(format!("not supported: the serializer '{serializer}'")),
        false => Error::execution(format!("Serializer '{serializer}' not found.")),
    }
}

/// Serializes a value in a format: ``yaml`` or ``json``. Other named arguments are options of the format.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.serialize 'json' obj="{'foo': 'Foo!'}"
#[function]
fn serialize(serializer: String, obj: Value, mod_kwargs: KwArgs) -> Result<String> {
    let options = mod_kwargs.given();
    match serializer.as_str() {
        "yaml" => to_yaml(&obj, &options),
        "json" => to_json(&obj, &options),
        other => Err(unknown(other)),
    }
}

/// Deserializes a text in a format: ``yaml`` or ``json``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.deserialize 'json' '{"foo": "Foo!"}'
#[function]
fn deserialize(serializer: String, stream_or_string: String, mod_kwargs: KwArgs) -> Result<Value> {
    refuse(&mod_kwargs.given(), &[], "deserialize")?;
    let failed = |why: String| Error::Other(why);
    match serializer.as_str() {
        "yaml" => yaml::load(&stream_or_string, yaml::UNNAMED).map_err(|error| failed(error.to_string())),
        "json" => json::loads(&stream_or_string).map_err(failed),
        other => Err(unknown(other)),
    }
}

fn refuse(options: &Map, known: &[&str], what: &str) -> Result<()> {
    match options.keys().find(|name| !name.as_str().is_some_and(|name| known.contains(&name))) {
        Some(name) => Err(Error::execution(format!("not supported: the option '{name}' of {what}"))),
        None => Ok(()),
    }
}

fn to_yaml(value: &Value, options: &Map) -> Result<String> {
    const KNOWN: [&str; 6] = ["default_flow_style", "indent", "width", "sort_keys", "allow_unicode", "encoding"];
    refuse(options, &KNOWN, "the serializer yaml")?;
    let number = |name: &str, default: i32| {
        options.get(name).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok()).unwrap_or(default)
    };
    let style = Style {
        flow: match options.get("default_flow_style") {
            // PyYAML's None: innermost collections in one line, the rest as blocks.
            None | Some(Value::Null) => Flow::Leaves,
            Some(flow) if flow.truthy() => Flow::All,
            Some(_) => Flow::Block,
        },
        sort_keys: options.get("sort_keys").is_none_or(Value::truthy),
        indent: number("indent", 2),
        width: number("width", 80),
        unicode: options.get("allow_unicode").is_some_and(Value::truthy),
    };
    let text = yaml::dump_with(value, style).map_err(|error| Error::Other(error.to_string()))?;
    // PyYAML ends a plain scalar with `...`, which Salt's serializer strips.
    let plain = text.strip_suffix("\n...\n").or_else(|| text.strip_suffix('\n'));
    Ok(plain.unwrap_or(&text).to_owned())
}

fn to_json(value: &Value, options: &Map) -> Result<String> {
    const KNOWN: [&str; 4] = ["indent", "sort_keys", "ensure_ascii", "separators"];
    refuse(options, &KNOWN, "the serializer json")?;
    let style = json::Style {
        indent: match options.get("indent") {
            None | Some(Value::Null) => None,
            Some(Value::Str(text)) => Some(text.clone()),
            Some(number) => Some(" ".repeat(usize::try_from(number.as_i64().unwrap_or(0)).unwrap_or(0).min(100))),
        },
        sort_keys: options.get("sort_keys").is_some_and(Value::truthy),
        ensure_ascii: options.get("ensure_ascii").is_some_and(Value::truthy),
        separators: match options.get("separators") {
            Some(Value::List(two)) if two.len() == 2 => Some((two[0].to_string(), two[1].to_string())),
            _ => None,
        },
        ..json::Style::default()
    };
    json::dumps(value, &style).map_err(Error::Other)
}
