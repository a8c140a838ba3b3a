//! The fields of addresses and forms.

use crate::body::media_type;
use crate::failure::Failure;

/// The largest number of fields. A page of keys has a box for each.
const MOST: usize = 2000;

/// Fields by name; a name may be there several times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Parses a query or the body of a form.
    ///
    /// # Errors
    /// When there are too many.
    pub fn parse(text: &[u8]) -> Result<Self, Failure> {
        let fields: Vec<(String, String)> = form_urlencoded::parse(text)
            .take(MOST + 1)
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        match fields.len() > MOST {
            true => Err(Failure::bad_request("The form has too many fields")),
            false => Ok(Fields(fields)),
        }
    }

    /// Returns a field without blanks around it; an empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        let named = self.0.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.trim()).find(|value| !value.is_empty())
    }

    /// Returns all values of a field, without empty ones.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns a field as it was sent, such as a password.
    pub fn exact(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    /// Returns the fields as a query, unless there are none.
    pub fn packed(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| packed(self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
    }

    /// Returns the fields as a query with one of them changed, or removed.
    pub fn with(&self, name: &str, value: Option<&str>) -> String {
        let others = self.0.iter().filter(|(known, _)| known != name);
        let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
        packed(others.chain(value.map(|value| (name, value))))
    }
}

/// Writes fields as a query. Empty ones are left out.
pub fn packed<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    query.finish()
}

/// Reads the body of a form.
///
/// # Errors
/// When it is none.
pub fn read(content_type: Option<&str>, body: &[u8]) -> Result<Fields, Failure> {
    match media_type(content_type.unwrap_or_default()).as_str() {
        "application/x-www-form-urlencoded" => Fields::parse(body),
        _ if body.is_empty() => Ok(Fields::default()),
        _ => Err(Failure::new(415, "The console reads forms (application/x-www-form-urlencoded)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written() {
        let fields = Fields::parse(b"q=+web+&key=a&key=b%26&empty=&password=+x+").unwrap();
        assert_eq!((fields.get("q"), fields.get("empty"), fields.get("none")), (Some("web"), None, None));
        assert_eq!(fields.all("key").collect::<Vec<_>>(), ["a", "b&"]);
        assert_eq!(fields.exact("password"), " x ");
        assert_eq!(Fields::parse(b"q=a&after=x").unwrap().with("after", Some("y z")), "q=a&after=y+z");
        assert_eq!(Fields::parse(b"q=a&after=x").unwrap().with("after", None), "q=a");
        assert_eq!(Fields::default().packed(), None);
    }

    #[test]
    fn only_forms_of_some_size_are_read() {
        assert_eq!(Fields::parse("a&".repeat(MOST + 1).as_bytes()).unwrap_err().status, 400);
        assert_eq!(read(Some("text/plain"), b"a=b").unwrap_err().status, 415);
        assert_eq!(read(None, b"").unwrap(), Fields::default());
    }
}
