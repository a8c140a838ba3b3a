//! Requests that fail: status and message.

use client::RequestPortError;
use value::Map;

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// The message.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Failure { status, message: message.into() }
    }

    /// The request is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Failure::new(400, message)
    }

    /// The client has not logged in.
    pub fn no_session() -> Self {
        Failure::new(401, "No permission -- see authorization schemes")
    }

    /// The request has no credentials.
    pub fn no_credentials() -> Self {
        Failure::new(401, "No authentication credentials given")
    }

    /// Nothing has this path.
    pub fn not_found(path: &str) -> Self {
        Failure::new(404, format!("The path '{path}' was not found."))
    }

    /// The master is away.
    pub fn no_master() -> Self {
        Failure::new(503, "Salt Master is not available.")
    }

    /// The master went away while a job ran.
    pub fn lost_master(jid: &str) -> Self {
        let Failure { status, message } = Failure::no_master();
        Failure::new(status, format!("{message} Minions may still run job {jid}: salt-run jobs.lookup_jid {jid}"))
    }

    /// Something else went wrong; the log says what.
    pub fn unexpected() -> Self {
        Failure::new(500, "An unexpected error occurred")
    }

    /// The client must wait.
    pub fn too_many(message: &str) -> Self {
        Failure::new(429, message)
    }

    /// A runner took too long.
    pub fn too_late() -> Self {
        Failure::new(504, "The gateway server did not receive a timely response")
    }

    /// Reads the error in an answer of the master.
    pub fn of_master(error: &Map) -> Self {
        let message = error.get("message").map(ToString::to_string).unwrap_or_default();
        match error.get_str("name").unwrap_or_default() {
            "SaltInvocationError" => Failure::bad_request(message),
            "AuthenticationError"
            | "AuthorizationError"
            | "TokenAuthenticationError"
            | "EauthAuthenticationError"
            | "UserAuthenticationError" => Failure::new(401, message),
            name => {
                tracing::error!("the master refused a request: {name}: {message}");
                Failure::unexpected()
            }
        }
    }
}

impl From<RequestPortError> for Failure {
    fn from(error: RequestPortError) -> Self {
        tracing::error!("failed to ask the master: {error}");
        Failure::no_master()
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn errors_of_the_master_have_a_status() {
        for (name, status) in
            [("AuthorizationError", 401), ("TokenAuthenticationError", 401), ("SaltInvocationError", 400)]
        {
            let failure = Failure::of_master(&map! { "name" => name, "message" => "text" });
            assert_eq!(failure, Failure::new(status, "text"), "{name}");
        }
        // The message of an unknown error may say more than the client should know.
        let failure = Failure::of_master(&map! { "name" => "OSError", "message" => "/etc/secret" });
        assert_eq!(failure, Failure::unexpected());
    }
}
