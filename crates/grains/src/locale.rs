//! Language and time zone: `locale_info`.

use value::{Map, map};

use crate::{Machine, system};

/// Returns language, encoding and time zone.
pub fn locale(machine: &Machine) -> Map {
    let chosen =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| machine.env(name)).find(|text| !text.is_empty());
    let (language, encoding) = language(chosen.unwrap_or_default());
    let info = map! {
        "defaultlanguage" => language,
        "defaultencoding" => encoding,
        "detectedencoding" => "utf-8",
        "timezone" => system::zone_name().unwrap_or_else(|| "unknown".into()),
    };
    map! { "locale_info" => info }
}

/// Splits `de_DE.UTF-8@euro`. As in Python, the default is American English.
fn language(locale: &str) -> (String, String) {
    let plain = locale.split('@').next().unwrap_or_default();
    let (language, encoding) = plain.split_once('.').unwrap_or((plain, ""));
    // Python starts with `C.UTF-8` in place of `C`, and its table of aliases calls that one en_US.UTF-8.
    if ["", "C", "POSIX"].contains(&language) {
        return ("en_US".into(), "UTF-8".into());
    }
    let short: String = encoding.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let encoding = match short.as_str() {
        // The result of Python's table of aliases for a locale without an encoding.
        "" => "ISO8859-1".into(),
        "utf8" => "UTF-8".into(),
        other => other.strip_prefix("iso8859").map_or_else(|| encoding.to_owned(), |part| format!("ISO8859-{part}")),
    };
    (language.to_owned(), encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_are_split() {
        for (locale, expected) in [
            ("", ("en_US", "UTF-8")),
            ("C.UTF-8", ("en_US", "UTF-8")),
            ("POSIX", ("en_US", "UTF-8")),
            ("de_DE.utf8", ("de_DE", "UTF-8")),
            ("de_DE.ISO-8859-15@euro", ("de_DE", "ISO8859-15")),
            ("de_DE", ("de_DE", "ISO8859-1")),
        ] {
            let (language, encoding) = language(locale);
            assert_eq!((language.as_str(), encoding.as_str()), expected, "{locale}");
        }
    }

    #[test]
    fn the_variable_with_the_highest_precedence_counts() {
        let machine = Machine::recorded("/", &[("LC_ALL", ""), ("LC_CTYPE", "fr_FR.UTF-8"), ("LANG", "de_DE.UTF-8")]);
        let grains = value::Value::from(locale(&machine));
        assert_eq!(grains.traverse("locale_info:defaultlanguage", ":"), Some(&"fr_FR".into()));
    }
}
