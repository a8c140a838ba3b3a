//! Failures of a chosen kind.

use exec::{Call, Context, Error, KwArgs, Result, VarArgs, function};
use value::{Value, python};

use super::arguments::tuple;

/// Fails unless the argument counts as true.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.assertion False
#[function(name = "assertion")]
pub(super) fn assert_true(assertion: Value) -> Result<()> {
    if assertion.truthy() { Ok(()) } else { Err(Error::Other("AssertionError".into())) }
}

/// Calls another function with the named arguments and returns None if it fails, or the failure's text with
/// ``return_try_exception=True``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.try module=user.info name=nobody
#[function(name = "try")]
pub(super) fn try_(
    ctx: &Context,
    module: String,
    #[default(false)] return_try_exception: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let call = Call { args: Vec::new(), kwargs: kwargs.given() };
    match ctx.call_permitted(&module, call) {
        // To Salt a missing function is a missing key of a dict.
        Err(Error::NotAvailable(_)) if return_try_exception => Ok(format!("KeyError('{module}')").into()),
        Err(error) if return_try_exception => Ok(error.to_string().into()),
        Err(_) => Ok(Value::Null),
        done => done,
    }
}

/// Fails with the given message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.exception 'This went wrong'
#[function]
pub(super) fn exception(#[default("Test Exception")] message: String) -> Result<()> {
    Err(Error::Other(message))
}

/// Python's built-in exceptions and Salt's own, apart from those that have their own kind here.
pub(super) const EXCEPTIONS: [&str; 38] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BlockingIOError",
    "BufferError",
    "ConnectionError",
    "EOFError",
    "EnvironmentError",
    "Exception",
    "FileExistsError",
    "FileNotFoundError",
    "FloatingPointError",
    "IOError",
    "ImportError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "LookupError",
    "MemoryError",
    "NameError",
    "NotADirectoryError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "ProcessLookupError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "SystemError",
    "TimeoutError",
    "UnicodeError",
    "ValueError",
    "Warning",
    "ZeroDivisionError",
    "salt.exceptions.SaltException",
];

/// Fails with the named exception, one of Python's or Salt's, and the given arguments. Returns False for an unknown
/// name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.raise_exception ValueError 'not like this'
///     salt '*' test.raise_exception salt.exceptions.CommandExecutionError 'it did not work'
#[function]
pub(super) fn raise_exception(name: String, args: VarArgs, kwargs: KwArgs) -> Result<bool> {
    if let Some(key) = kwargs.given().keys().next() {
        return Err(Error::Arguments(format!("{name}() takes no keyword argument {key}")));
    }
    let text = match args.0.as_slice() {
        [] => String::new(),
        // Python shows the argument of this one exception with its quotes.
        [one] if name == "KeyError" => python::repr(one),
        [one] => one.to_string(),
        several => tuple(several),
    };
    match name.as_str() {
        "salt.exceptions.CommandExecutionError" => Err(Error::Execution(text)),
        "salt.exceptions.SaltInvocationError" => Err(Error::Invocation(text)),
        "salt.exceptions.CommandNotFoundError" => Err(Error::CommandNotFound(text)),
        "TypeError" => Err(Error::Arguments(text)),
        known if EXCEPTIONS.contains(&known) => Err(Error::Other(format!("{known}: {text}"))),
        unknown => {
            // Salt logs it and returns False.
            tracing::error!("No such exception: {unknown}");
            Ok(false)
        }
    }
}
