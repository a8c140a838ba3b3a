//! The names that templates of the external pillar `stack` have beside the usual ones: `__salt__` and `__stack__`.

use jinja::value::Object;
use jinja::{CallArgs, Error, State, Value};

use crate::convert;

/// `__stack__`: the path of the list, and a function that walks a path of keys.
pub(super) struct Stack {
    cfg_path: String,
}

impl Stack {
    /// For the list of files at this path.
    pub fn new(cfg_path: &str) -> Self {
        Stack { cfg_path: cfg_path.to_owned() }
    }

    fn named(&self, name: &str) -> Option<Value> {
        match name {
            "cfg_path" => Some(Value::str(self.cfg_path.as_str())),
            "traverse" => Some(Value::function("traverse_dict_and_list", traverse)),
            _ => None,
        }
    }
}

impl Object for Stack {
    fn type_name(&self) -> &str {
        "dict"
    }

    fn get_attr(&self, _state: &mut State, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.named(name))
    }

    fn get_item(&self, _state: &mut State, key: &Value) -> Result<Option<Value>, Error> {
        Ok(key.as_str().and_then(|name| self.named(name)))
    }
}

fn traverse(call: &mut CallArgs) -> Result<Value, Error> {
    let names = [("data", None), ("key", None), ("default", Some(Value::None)), ("delimiter", Some(Value::str(":")))];
    let [data, key, default, delimiter] = call.bind("traverse_dict_and_list", names)?;
    let data = convert::plain(call.state, &data)?;
    let path = convert::plain(call.state, &key)?.to_string();
    let found = data.traverse(&path, delimiter.as_str().unwrap_or(":"));
    Ok(found.map_or(default, convert::seen))
}
