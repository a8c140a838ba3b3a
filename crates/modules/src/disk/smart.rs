//! The health of drives (SMART), through `smartctl`.

use exec::{Call, Context, Error, Result, function};
use value::{Map, Value, map};

use super::integer;

/// Reads one value: a number, several of them, or text.
fn reading(text: &str) -> Value {
    // Some raw values are several counters, such as `0 0 0`.
    let several = || text.split(' ').map(integer).collect::<Option<Vec<_>>>().map(Value::from);
    integer(text).or_else(several).unwrap_or_else(|| text.into())
}

/// Splits a line at blanks, at most `cuts` times; the last part keeps its blanks.
fn columns(line: &str, cuts: usize) -> Vec<&str> {
    let (mut rest, mut found) = (line.trim(), Vec::new());
    while let (true, Some(end)) = (found.len() < cuts, rest.find(char::is_whitespace)) {
        found.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    found.push(rest);
    found
}

/// Reads the wanted attributes: a list of numbers, or text such as `5,187` with or without brackets.
fn numbers(wanted: &Value) -> Result<Option<Vec<i64>>> {
    let wrong = || Error::invocation(format!("attributes is a list of numbers, not {wanted}"));
    match wanted {
        Value::Null => Ok(None),
        Value::List(items) => Ok(Some(items.iter().filter_map(Value::as_i64).collect())),
        Value::Int(number) => Ok(Some(vec![*number])),
        Value::Str(text) => {
            let parts = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']).split(',');
            let parts = parts.map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_>>().map(Some)
        }
        _ => Err(wrong()),
    }
}

fn is_wanted(field: &str, wanted: &Value) -> bool {
    match wanted {
        Value::Null => true,
        Value::List(names) => names.iter().any(|name| name.as_str() == Some(field)),
        Value::Map(names) => names.get(field).is_some(),
        // Python's `in` searches a text, so a name that is part of another one matches too.
        names => names.to_string().contains(field),
    }
}

/// Reads the table of attributes, reduced to the wanted rows and columns.
fn table(text: &str, attributes: Option<&[i64]>, values: &Value) -> Map {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("ID#"));
    let fields: Vec<String> =
        lines.next().unwrap_or_default().split_whitespace().skip(1).map(str::to_lowercase).collect();
    let starts_with_number = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let mut found = Map::new();
    for line in lines.take_while(starts_with_number) {
        // The raw value is the last column and may hold blanks itself.
        let words = columns(line, fields.len());
        let Ok(number) = words[0].parse::<i64>() else { break };
        if attributes.is_some_and(|wanted| !wanted.contains(&number)) {
            continue;
        }
        let row = fields.iter().zip(&words[1..]).filter(|(field, _)| is_wanted(field, values));
        found.insert(number, row.map(|(field, word)| (field.as_str(), reading(word))).collect::<Map>());
    }
    found
}

/// Returns the SMART attributes of a drive by their numbers, all or some of them, with all or some of the columns that
/// ``smartctl`` prints.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.smart_attributes /dev/sda
///     salt '*' disk.smart_attributes /dev/sda attributes=[5,187,188,197,198] values=[raw_value]
#[function]
fn smart_attributes(
    ctx: &Context,
    dev: String,
    #[default(Value::Null)] attributes: Value,
    #[default(Value::Null)] values: Value,
) -> Result<Map> {
    let attributes = numbers(&attributes)?;
    let device = if dev.starts_with("/dev/") { dev } else { format!("/dev/{dev}") };
    let line = format!("smartctl --attributes {device}");
    let call = Call { args: vec![line.into()], kwargs: map! { "output_loglevel" => "quiet" } };
    let said = ctx.call_with("cmd.run_all", call)?.into_map().unwrap_or_default();
    let stream = |name: &str| said.get_str(name).unwrap_or_default();
    if said.get("retcode").is_some_and(Value::truthy) {
        // Most of its complaints are on stdout.
        let complaint = if stream("stderr").is_empty() { stream("stdout") } else { stream("stderr") };
        return Err(Error::execution(complaint));
    }
    Ok(table(stream("stdout"), attributes.as_deref(), &values))
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn attributes_have_numbers_for_keys() {
        let text = "smartctl 7.3\n\nID# NAME RAW_VALUE\n  5 Spare 99999999999999999999\n\n9 later 1\n";
        let raw: value::BigInt = "99999999999999999999".parse().unwrap();
        let row = map! { "name" => "Spare", "raw_value" => Value::from(raw) };
        assert_eq!(table(text, None, &Value::Null), Map::from_iter([(5, row)]));
    }

    #[test]
    fn attributes_may_be_text() {
        for text in ["5,187", "(5, 187)", "[5,187,]"] {
            assert_eq!(numbers(&text.into()).unwrap(), Some(vec![5, 187]));
        }
        assert_eq!(numbers(&list![5]).unwrap(), Some(vec![5]));
        assert!(matches!(numbers(&"all".into()), Err(Error::Invocation(_))));
    }
}
