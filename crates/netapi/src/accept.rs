//! Which form an answer has: the header `Accept`, as CherryPy reads it.

/// The media types of data, in the order of preference.
const DATA: [(&str, Form); 2] = [("application/json", Form::Json), ("application/x-yaml", Form::Yaml)];

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// An HTML page, for errors only.
    Html,
}

impl Form {
    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Yaml => "application/x-yaml",
            Form::Html => "text/html;charset=utf-8",
        }
    }
}

/// Returns the form of data that the client likes best; `None` if it accepts neither.
pub fn data_form(accept: Option<&str>) -> Option<Form> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else { return Some(Form::Json) };
    ranges(accept).into_iter().find_map(|range| match range {
        "*/*" | "application/*" => Some(Form::Json),
        name => DATA.iter().find(|(known, _)| *known == name).map(|(_, form)| *form),
    })
}

/// Returns the form of an error: data if the client asks for it by name, else a page.
pub fn error_form(accept: Option<&str>) -> Form {
    let first = ranges(accept.unwrap_or_default()).into_iter().next();
    let named = first.and_then(|name| DATA.iter().find(|(known, _)| *known == name));
    named.map_or(Form::Html, |(_, form)| *form)
}

/// Returns whether a client is a browser that shows what it gets: it prefers a page to data, or has no preference at all.
pub fn prefers_page(accept: Option<&str>) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else { return true };
    let page = ranges(accept).into_iter().find_map(|range| match range {
        "text/html" | "text/*" => Some(true),
        "*/*" | "application/*" => Some(false),
        name => DATA.iter().any(|(known, _)| *known == name).then_some(false),
    });
    page.unwrap_or(false)
}

/// Returns whether a client reads answers that are packed with gzip (`Accept-Encoding`).
pub fn reads_gzip(encodings: Option<&str>) -> bool {
    ranges(encodings.unwrap_or_default()).contains(&"gzip")
}

/// Returns the acceptable media ranges, the best first.
fn ranges(accept: &str) -> Vec<&str> {
    let mut ranges: Vec<(f32, &str)> = accept.split(',').map(range).filter(|(quality, _)| *quality > 0.0).collect();
    // Stable: of equals, the first counts.
    ranges.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranges.into_iter().map(|(_, name)| name).collect()
}

fn range(text: &str) -> (f32, &str) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.trim().parse().unwrap_or(0.0));
    (quality, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_form_is_chosen() {
        for (accept, expected) in [
            (None, Some(Form::Json)),
            (Some(""), Some(Form::Json)),
            (Some("*/*"), Some(Form::Json)),
            (Some("application/*"), Some(Form::Json)),
            (Some("application/json"), Some(Form::Json)),
            (Some("application/x-yaml"), Some(Form::Yaml)),
            (Some("application/x-yaml;q=0.5, application/json"), Some(Form::Json)),
            (Some("application/x-yaml, application/json"), Some(Form::Yaml)),
            (Some("text/html, application/json;q=0.2"), Some(Form::Json)),
            (Some("application/json;q=0"), None),
            (Some("application/json;q=none"), None),
            (Some("application/xml"), None),
            (Some("text/html"), None),
            (Some(",;q=,;;"), None),
        ] {
            assert_eq!(data_form(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn gzip_is_for_those_who_name_it() {
        for (encodings, expected) in [
            (None, false),
            (Some("gzip, deflate, br"), true),
            (Some("br;q=1.0, gzip;q=0.5"), true),
            (Some("gzip;q=0"), false),
            (Some("identity"), false),
            (Some("*"), false),
        ] {
            assert_eq!(reads_gzip(encodings), expected, "{encodings:?}");
        }
    }

    #[test]
    fn browsers_get_the_page() {
        for (accept, expected) in [
            (None, true),
            (Some(" "), true),
            (Some("text/html"), true),
            (Some("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"), true),
            (Some("application/json;q=0.5, text/html"), true),
            (Some("*/*"), false),
            (Some("application/json"), false),
            (Some("application/json, text/plain, */*"), false),
            (Some("application/x-yaml, text/html;q=0.9"), false),
            (Some("text/event-stream"), false),
            (Some("text/html;q=0"), false),
        ] {
            assert_eq!(prefers_page(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn errors_are_data_for_clients_that_ask_for_data() {
        for (accept, expected) in [
            (None, Form::Html),
            (Some("*/*"), Form::Html),
            (Some("text/html,application/json;q=0.9"), Form::Html),
            (Some("application/xml"), Form::Html),
            (Some("application/json"), Form::Json),
            (Some("application/x-yaml"), Form::Yaml),
        ] {
            assert_eq!(error_form(accept), expected, "{accept:?}");
        }
    }
}
