//! Errors of templates in Salt's words.

use jinja::{Error as Failure, ErrorKind, Place};

use super::session::Session;
use crate::{Error, around};

/// Converts an error of the engine to Salt's: the kind, the text, and the lines around the place in the requested
/// template; for a place in an imported file, its name and the lines there instead.
pub(super) fn in_salts_words(failure: &Failure, text: &str, sls: Option<&str>, session: &Session) -> Error {
    let message = failure.message();
    if let Some(what) = message.strip_prefix("not supported: ") {
        return Error::unsupported(what);
    }
    let words = format!("{} {message}", beginning(failure.kind()));
    let Some(place) = place(failure) else { return Error::new(words) };
    let line = place.line as usize;
    if let Some(elsewhere) = imported(place, sls, session) {
        return Error::new(words + &elsewhere);
    }
    Error::at(&words, text, line)
}

fn beginning(kind: &ErrorKind) -> &'static str {
    match kind {
        // The four beginnings of Salt, by the class of the exception.
        ErrorKind::Undefined => "Jinja variable",
        ErrorKind::Other(class) if matches!(&**class, "CommandExecutionError" | "SaltInvocationError") => {
            "Problem running salt function in Jinja template:"
        }
        kind if kind.is_syntax() || kind.is_runtime() => "Jinja syntax error:",
        _ => "Jinja error:",
    }
}

/// Returns the innermost place that Salt considers; it skips blocks.
fn place(failure: &Failure) -> Option<&Place> {
    // Salt's filter on the traceback: the location of a block is named after it and does not count.
    let counts = |place: &&Place| matches!(&*place.location, "top-level template code" | "template");
    failure.places().iter().find(counts)
}

/// Returns the name of the imported file that contains the place, with the lines around; `None` for the template
/// itself.
fn imported(place: &Place, sls: Option<&str>, session: &Session) -> Option<String> {
    let source = session.source(place.template.as_deref()?)?;
    let path = source.path.to_string_lossy();
    // A file that is called as the SLS counts as the SLS.
    if sls.is_some_and(|sls| path.ends_with(&sls.replace('.', "/"))) {
        return None;
    }
    Some(format!("\n{path}({}):\n{}", place.line, around(&source.text, place.line as usize)))
}
