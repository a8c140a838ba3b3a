//! Errors of functions, and the texts that a minion returns for them.

use value::Map;

use crate::nested;

/// The result of an execution function.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an execution function. The kind decides the words of the return (Salt's exceptions of about
/// the same names).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The function could not do its work (`CommandExecutionError`).
    #[error("{0}")]
    Execution(String),
    /// Like `Execution`, with details (`CommandExecutionError` with `info`). Changes that were made before the failure
    /// are in
    /// `info` under `changes`.
    #[error("{}", detailed(.what, .info))]
    Detailed {
        /// The error.
        what: String,
        /// The details.
        info: Map,
    },
    /// The call makes no sense (`SaltInvocationError`).
    #[error("{0}")]
    Invocation(String),
    /// The arguments do not match the function (Python's `TypeError` at the call).
    #[error("{0}")]
    Arguments(String),
    /// A program the function needs is not installed (`CommandNotFoundError`).
    #[error("{0}")]
    CommandNotFound(String),
    /// There is no such function here, or its module does not work on this machine.
    #[error("{0}")]
    NotAvailable(String),
    /// The job was killed.
    #[error("the job was terminated")]
    Terminated,
    /// Anything else; shown as an exception of the function.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Returns an error of a function that could not do its work.
    pub fn execution(reason: impl Into<String>) -> Self {
        Error::Execution(reason.into())
    }

    /// Returns an error about a call that makes no sense.
    pub fn invocation(reason: impl Into<String>) -> Self {
        Error::Invocation(reason.into())
    }

    /// Returns an error about a file operation, such as reading or writing, that failed.
    pub fn io(doing: &str, path: impl AsRef<std::path::Path>, error: &std::io::Error) -> Self {
        Error::Execution(format!("failed to {doing} {}: {error}", path.as_ref().display()))
    }

    /// Returns an error of a function that could not do its work, with details.
    pub fn detailed(what: impl Into<String>, info: Map) -> Self {
        Error::Detailed { what: what.into(), info }
    }

    /// Returns the text without what was changed, and what was changed (both for a state's result).
    pub fn without_changes(&self) -> (String, Map) {
        match self {
            Error::Detailed { what, info } => {
                let mut rest = info.clone();
                let changes = rest.remove("changes").and_then(value::Value::into_map).unwrap_or_default();
                (if rest.is_empty() { what.clone() } else { detailed(what, &rest) }, changes)
            }
            other => (other.to_string(), Map::new()),
        }
    }

    /// Returns the text a minion returns for this failure of the named function. `doc` is the function's documentation,
    /// shown when the arguments do not match.
    pub fn return_text(&self, fun: &str, doc: &str) -> String {
        match self {
            Error::Execution(_) | Error::Detailed { .. } => format!("ERROR: {self}"),
            Error::Invocation(reason) => format!("ERROR executing '{fun}': {reason}"),
            Error::Arguments(reason) => format!("Passed invalid arguments to {fun}: {reason}\n\n{doc}"),
            Error::CommandNotFound(reason) => format!("Command required for '{fun}' not found: {reason}"),
            // The reason is a whole sentence of Salt's already.
            Error::NotAvailable(reason) => reason.clone(),
            Error::Terminated => format!("ERROR: the job running '{fun}' was terminated"),
            Error::Other(reason) => format!("The minion function caused an exception: {reason}"),
        }
    }
}

fn detailed(what: &str, info: &Map) -> String {
    // As in Salt, a sentence that has no end gets a period.
    let between = match what.chars().last() {
        None => "",
        Some('.' | '?' | '!') => " ",
        Some(_) => ". ",
    };
    format!("{what}{between}Additional info follows:\n\n{}", nested(&info.clone().into()))
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Other(error.to_string())
    }
}
