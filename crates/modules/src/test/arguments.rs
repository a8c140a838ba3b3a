//! Functions that return their arguments.

use exec::{KwArgs, Result, VarArgs, function};
use value::{Map, Value, map, python};

/// Returns its arguments, with the fields of the job among the named ones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'
#[function]
pub(super) fn arg(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.0 })
}

/// Returns its arguments, without the fields of the job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg_clean 1 "two" txt="hello"
#[function]
pub(super) fn arg_clean(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => args.0, "kwargs" => kwargs.given() })
}

/// Returns its arguments as Python would write them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg_repr 1 "two" txt="hello"
#[function]
pub(super) fn arg_repr(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    Ok(map! { "args" => tuple(&args.0), "kwargs" => python::repr_map(&kwargs.0) })
}

/// The `repr()` of a Python tuple.
pub(super) fn tuple(items: &[Value]) -> String {
    let inner: Vec<String> = items.iter().map(python::repr).collect();
    match inner.as_slice() {
        // Python writes a tuple of one with a comma.
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    }
}

/// Returns the types of its arguments.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.arg_type 1 'int'
#[function]
pub(super) fn arg_type(args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let class = |value: &Value| format!("<class '{}'>", value.type_name());
    let args: Vec<String> = args.0.iter().map(class).collect();
    let kwargs: Map = kwargs.0.iter().map(|(name, value)| (name.clone(), class(value))).collect();
    Ok(map! { "args" => args, "kwargs" => kwargs })
}

/// Returns its named arguments, with the fields of the job among them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.kwarg num=1 txt="two" env='{a: 1, b: "hello"}'
#[function]
pub(super) fn kwarg(kwargs: KwArgs) -> Result<Map> {
    Ok(kwargs.0)
}
