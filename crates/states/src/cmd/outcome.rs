//! Converts the outcome of a command to the result of the state.

use exec::{Context, Result};
use value::{Map, Value};

use super::stateful;
use crate::Ret;

/// A state whose command has run.
pub(super) struct Outcome {
    /// The result so far.
    pub ret: Ret,
    code: Value,
}

impl Outcome {
    /// Takes what the command returned for the changes.
    pub fn of(ret: Ret, changes: Map, comment: String) -> Self {
        // The code may already be turned to 0 by `success_retcodes`.
        let code = changes.get("retcode").cloned().unwrap_or_default();
        let mut ret = ret.changed(changes).ok(comment);
        ret.result = Some(!code.truthy());
        Outcome { ret, code }
    }

    /// Makes a success of a command that was killed for taking too long.
    pub fn forgive_timeout(&mut self) {
        let stdout = self.ret.changes.get_str("stdout").unwrap_or_default();
        // A timeout has no separate code; it is recognized by the text that `cmd.run_all` puts in stdout.
        if self.code == Value::Int(1) && stdout.contains("Timed out after") {
            self.code = 0.into();
            self.ret.changes.insert("retcode", 0);
            self.ret.result = Some(true);
        }
    }

    /// Applies `stateful` and test mode.
    pub fn finish(self, ctx: &Context, is_stateful: bool) -> Result<Ret> {
        let mut ret = if is_stateful { stateful::reinterpreted(self.ret)? } else { self.ret };
        // Only a `test_name` command gets here in test mode. Its changes are announcements.
        if ctx.is_test() && self.code == Value::Int(0) && !ret.changes.is_empty() {
            ret.result = None;
        }
        Ok(ret)
    }
}
