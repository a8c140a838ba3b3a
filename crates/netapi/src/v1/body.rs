//! Bodies of requests: JSON objects with known fields.

use value::{Map, Value};

use super::V1Request;
use crate::body::media_type;
use crate::exchange::text;
use crate::failure::Failure;
use crate::json;

/// Reads the body, which must be an object with no other fields than these.
///
/// # Errors
/// When it is something else.
pub fn object(request: &V1Request, known: &[&str]) -> Result<Map, Failure> {
    let kind = media_type(text(&request.headers, "content-type").unwrap_or_default());
    // Also because a form of any page can send other types.
    if kind != "application/json" {
        return Err(Failure::new(415, "The body must be application/json"));
    }
    let body = json::parse(&request.body).map_err(|error| Failure::bad_request(format!("Invalid JSON: {error}")))?;
    let object = body.into_map().ok_or_else(|| Failure::bad_request("The body must be an object"))?;
    match object.keys().filter_map(Value::as_str).find(|name| !known.contains(name)) {
        Some(name) => {
            let name = value::escape::brief(name, 40);
            Err(Failure::bad_request(format!("There is no field '{name}' here; there are: {}", known.join(", "))))
        }
        None => Ok(object),
    }
}

/// Returns a text that must be there.
///
/// # Errors
/// When it is not, or is no text.
pub fn needed<'a>(object: &'a Map, name: &str) -> Result<&'a str, Failure> {
    match object.get(name) {
        Some(Value::Str(text)) => Ok(text),
        Some(_) => Err(Failure::bad_request(format!("'{name}' must be a text"))),
        None => Err(Failure::bad_request(format!("'{name}' is missing"))),
    }
}
