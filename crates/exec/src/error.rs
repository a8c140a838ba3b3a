//! What can go wrong in a function, and how a minion words it.

/// The result of an execution function.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of an execution function. The kind decides the words of the return (Salt's exceptions of about
/// the same names).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The function could not do its work (`CommandExecutionError`).
    #[error("{0}")]
    Execution(String),
    /// The function was asked for something that makes no sense (`SaltInvocationError`).
    #[error("{0}")]
    Invocation(String),
    /// The arguments do not fit the function (Python's `TypeError` at the call).
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
    /// A failure to do the work.
    pub fn execution(reason: impl Into<String>) -> Self {
        Error::Execution(reason.into())
    }

    /// A request that makes no sense.
    pub fn invocation(reason: impl Into<String>) -> Self {
        Error::Invocation(reason.into())
    }

    /// A failure to do something to a file.
    pub fn io(doing: &str, path: impl AsRef<std::path::Path>, error: &std::io::Error) -> Self {
        Error::Execution(format!("failed to {doing} {}: {error}", path.as_ref().display()))
    }

    /// Returns the text a minion returns for this failure of the named function. `doc` is the function's
    /// documentation, shown when the arguments do not fit.
    pub fn return_text(&self, fun: &str, doc: &str) -> String {
        match self {
            Error::Execution(reason) => format!("ERROR: {reason}"),
            Error::Invocation(reason) => format!("ERROR executing '{fun}': {reason}"),
            Error::Arguments(reason) => format!("Passed invalid arguments to {fun}: {reason}\n\n{doc}"),
            Error::CommandNotFound(reason) => format!("Command required for '{fun}' not found: {reason}"),
            Error::NotAvailable(reason) => reason.clone(),
            Error::Terminated => format!("ERROR: the job running '{fun}' was terminated"),
            Error::Other(reason) => format!("The minion function caused an exception: {reason}"),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Other(error.to_string())
    }
}
