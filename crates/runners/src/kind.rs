//! Runner or wheel: what differs between the two kinds of functions on the master.

use value::{Map, Value};

/// The table of a function, one of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Runners.
    #[default]
    Runner,
    /// Wheel functions.
    Wheel,
}

/// There is no function of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not available.")]
pub struct NoSuchFunction(pub String);

impl Kind {
    /// Returns Salt's word: `runner` or `wheel`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Runner => "runner",
            Kind::Wheel => "wheel",
        }
    }

    /// Returns the tag events of a job begin with: `salt/run/<jid>` or `salt/wheel/<jid>`.
    pub fn tag(self, jid: &str) -> String {
        let part = if self == Kind::Runner { "run" } else { "wheel" };
        format!("salt/{part}/{jid}")
    }

    /// Checks that the module of a function is not disabled (`disable_runners`, `disable_wheels`).
    ///
    /// # Errors
    /// When it is disabled. The text is that of a missing function, as in Salt, whose loader just does not load the
    /// module.
    pub fn enabled(self, fun: &str, opts: &Map) -> Result<(), NoSuchFunction> {
        let module = fun.split('.').next().unwrap_or_default();
        let option = if self == Kind::Runner { "disable_runners" } else { "disable_wheels" };
        let disabled = opts.get(option).and_then(Value::as_list).unwrap_or_default();
        match disabled.iter().any(|name| name.as_str() == Some(module)) {
            true => Err(NoSuchFunction(fun.to_owned())),
            false => Ok(()),
        }
    }

    /// Returns a hint if the missing function is one of the operator's own, in Python; otherwise an empty text.
    pub fn python_hint(self, fun: &str, opts: &Map) -> String {
        use exec::python::{Folders, Kind as Python};
        let kind = if self == Kind::Runner { Python::Runners } else { Python::Other("wheel") };
        Folders::of(opts, kind).hint(fun)
    }
}
