//! `key`: the lists of `salt-key`.

use ::value::Value;

use super::WrongShape;
use super::settings::Settings;
use super::text::sorted;

/// Returns a heading for each class of keys and a line for each key.
pub fn output(data: &Value, settings: &Settings) -> Result<String, WrongShape> {
    let mut lines = Vec::new();
    for (class, keys) in sorted(data.as_map().ok_or(WrongShape)?)? {
        let look = look(class.as_str().ok_or(WrongShape)?, settings)?;
        let end = &settings.colors.end;
        lines.push(format!("{}{} Keys:{end}", look.heading_color, look.heading));
        match keys {
            Value::List(ids) => {
                let mut ids: Vec<String> = ids.iter().map(Value::to_string).collect();
                // By code point, unlike the lists in JSON and YAML, which ignore case.
                ids.sort_unstable();
                lines.extend(ids.iter().map(|id| format!("{}{id}{end}", look.color)));
            }
            Value::Map(map) => {
                for (id, content) in sorted(map)? {
                    lines.push(format!("{}{id}:  {content}{end}", look.color));
                }
            }
            _ => return Err(WrongShape),
        }
    }
    Ok(lines.join("\n"))
}

struct KeyStyle<'a> {
    heading: &'static str,
    heading_color: &'a str,
    color: &'a str,
}

fn look<'a>(class: &str, settings: &'a Settings) -> Result<KeyStyle<'a>, WrongShape> {
    let colors = &settings.colors;
    let (heading, heading_color, color) = match class {
        "minions" => ("Accepted", &colors.light_green, &colors.green),
        "minions_pre" => ("Unaccepted", &colors.light_red, &colors.red),
        "minions_denied" => ("Denied", &colors.light_magenta, &colors.magenta),
        "minions_rejected" => ("Rejected", &colors.light_blue, &colors.blue),
        "local" => ("Local", &colors.light_magenta, &colors.magenta),
        _ => return Err(WrongShape),
    };
    Ok(KeyStyle { heading, heading_color, color })
}
