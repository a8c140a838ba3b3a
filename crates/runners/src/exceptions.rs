//! Failures under the names of Python's and Salt's exceptions.

use exec::Error;
use value::python::repr;

/// Python's own exceptions that take any message.
const PYTHON: &str = "ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError \
    ChildProcessError ConnectionError EOFError Exception FileExistsError FileNotFoundError FloatingPointError ImportError \
    IndexError InterruptedError IsADirectoryError KeyError LookupError MemoryError ModuleNotFoundError NameError \
    NotADirectoryError NotImplementedError OSError OverflowError PermissionError ProcessLookupError RecursionError \
    ReferenceError RuntimeError SyntaxError SystemError UnicodeError UserWarning ValueError Warning ZeroDivisionError";

/// Salt's exceptions whose names do not begin with its own.
const SALT: &str = "ArgumentValueError AuthenticationError AuthorizationError CheckError CommandExecutionError \
    CommandNotFoundError EauthAuthenticationError FileLockError FileserverConfigError GitLockError GitRemoteError \
    InvalidConfigError InvalidEntityError InvalidKeyError LoaderError LoggingRuntimeError MinionError NotImplemented \
    PkgParseError PublishError TemplateError TimedProcTimeoutError TimeoutError TokenAuthenticationError \
    TokenExpiredError UnsupportedAlgorithm";

/// Makes a failure that shows as an exception of the name; an unknown name is a `SaltException`, as in Salt.
pub fn on_purpose(name: &str, message: &str) -> Error {
    let is_in = |list: &str| list.split(' ').any(|known| known == name);
    match name {
        "SaltInvocationError" | "TypeError" => Error::Invocation(message.to_owned()),
        "" => Error::Other(format!("Exception: {message}")),
        "KeyError" => Error::Other(format!("KeyError: {}", repr(&message.into()))),
        _ if is_in(PYTHON) => Error::Other(format!("{name}: {message}")),
        _ if name.starts_with("Salt") || is_in(SALT) => Error::Other(format!("salt.exceptions.{name}: {message}")),
        _ => Error::Other(format!("salt.exceptions.SaltException: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As real Salt 3008.5 names them.
    #[test]
    fn exceptions_have_their_full_names() {
        for (name, shown) in [
            ("", "Exception: boo"),
            ("ValueError", "ValueError: boo"),
            ("KeyError", "KeyError: 'boo'"),
            ("CommandExecutionError", "salt.exceptions.CommandExecutionError: boo"),
            ("SaltRenderError", "salt.exceptions.SaltRenderError: boo"),
            ("Nope", "salt.exceptions.SaltException: boo"),
        ] {
            assert_eq!(on_purpose(name, "boo").to_string(), shown);
        }
        assert!(matches!(on_purpose("TypeError", "boo"), Error::Invocation(text) if text == "boo"));
    }
}
