//! The attributes with two underscores that each type has; the sandbox forbids them all.

use crate::value::Value;

/// Common to all objects.
const COMMON: &str = "__class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ __gt__ __hash__ \
    __init__ __init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ \
    __sizeof__ __str__ __subclasshook__";

/// Those of `str`.
const TEXT: &str = "__add__ __contains__ __getitem__ __getnewargs__ __iter__ __len__ __mod__ __mul__ __rmod__ __rmul__";

/// Those of `list`.
const LIST: &str = "__add__ __class_getitem__ __contains__ __delitem__ __getitem__ __iadd__ __imul__ __iter__ __len__ __mul__ \
    __reversed__ __rmul__ __setitem__";

/// Those of `tuple`.
const TUPLE: &str =
    "__add__ __class_getitem__ __contains__ __getitem__ __getnewargs__ __iter__ __len__ __mul__ __rmul__";

/// Those of `dict`.
const DICT: &str = "__class_getitem__ __contains__ __delitem__ __getitem__ __ior__ __iter__ __len__ __or__ __reversed__ __ror__ \
    __setitem__";

/// Those of `int`, `bool` and `float`.
const NUMBER: &str = "__abs__ __add__ __bool__ __ceil__ __divmod__ __float__ __floor__ __floordiv__ __getnewargs__ __int__ __mod__ \
    __mul__ __neg__ __pos__ __pow__ __radd__ __rdivmod__ __rfloordiv__ __rmod__ __rmul__ __round__ __rpow__ \
    __rsub__ __rtruediv__ __sub__ __truediv__ __trunc__";

/// Those of functions.
const FUNCTION: &str =
    "__call__ __name__ __module__ __qualname__ __self__ __code__ __globals__ __dict__ __closure__ __defaults__";

/// Those of other objects.
const OBJECT: &str = "__dict__ __module__ __weakref__ __call__";

/// Those of undefined values.
const UNDEFINED: &str = "__module__ __slots__ __call__ __len__ __iter__ __bool__";

/// Those of `None`.
const NONE: &str = "__bool__";

/// Returns whether Python's object has this attribute, which the sandbox forbids.
pub(crate) fn is_dunder(object: &Value, name: &str) -> bool {
    // The lists decide between two errors: an attribute that exists is forbidden, any other is undefined.
    let more = match object {
        Value::Str(_) | Value::Markup(_) => TEXT,
        Value::List(_) => LIST,
        Value::Tuple(_) => TUPLE,
        Value::Dict(_) => DICT,
        Value::Int(_) | Value::Big(_) | Value::Bool(_) | Value::Float(_) => NUMBER,
        Value::Function(_) => FUNCTION,
        Value::Object(_) => OBJECT,
        Value::Undefined(_) => UNDEFINED,
        Value::None => NONE,
        _ => "",
    };
    COMMON.split(' ').chain(more.split(' ')).any(|known| known == name)
}
