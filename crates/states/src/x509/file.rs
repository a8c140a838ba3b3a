//! The file of an `x509` state: `file.managed` checks it before anything is made, and writes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exec::{Call, Context, Error, KwArgs, Result};
use modules::file::store::{Content, Keep, put};
use value::{Map, Value, list, map};

use crate::Ret;

/// Arguments that go to `file.managed`.
const OF_FILES: &[&str] = &[
    "user",
    "group",
    "mode",
    "attrs",
    "makedirs",
    "dir_mode",
    "backup",
    "create",
    "follow_symlinks",
    "check_cmd",
    "tmp_dir",
    "tmp_ext",
    "selinux",
    "file_encoding",
    "encoding_errors",
    "win_owner",
    "win_perms",
    "win_deny_perms",
    "win_inheritance",
    "win_perms_reset",
];

/// Sorts the other arguments of a state: those of the file, and the rest.
pub fn sorted(kwargs: &KwArgs) -> (Map, Map) {
    // A difference would show a private key.
    let (mut of_file, mut others) = (map! { "show_changes" => false }, Map::new());
    for (name, value) in kwargs.given() {
        let text = name.to_string();
        match text.as_str() {
            "file_encoding" => drop(of_file.insert("encoding", value)),
            known if OF_FILES.contains(&known) => drop(of_file.insert(name, value)),
            known if modules::util::is_internal(known) => {}
            _ => drop(others.insert(name, value)),
        }
    }
    (of_file, others)
}

/// Refuses arguments a state does not know.
///
/// # Errors
/// There are some.
pub fn refuse_unknown(others: &Map) -> Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let names: Value = others.keys().map(Value::to_string).collect();
    Err(Error::invocation(format!("Unrecognized keyword arguments: {names}")))
}

/// The file of a state.
pub struct Managed<'a> {
    ctx: &'a Context,
    /// Its path.
    pub name: String,
    /// The kind of file, such as `certificate`.
    what: &'static str,
    args: Map,
}

/// The facts before anything is made.
pub enum Before {
    /// There is nothing to do, or nothing can be done.
    Done(Ret),
    /// The state continues.
    Ready(Ready),
}

/// A file that can be written.
pub struct Ready {
    /// The result of `file.managed` in test mode.
    test: Map,
    /// The path behind links.
    pub path: PathBuf,
    /// True if a link is replaced by a file.
    pub replaces_link: bool,
}

impl Ready {
    /// Returns whether there is a file.
    pub fn exists(&self) -> bool {
        !self.replaces_link && self.path.is_file()
    }

    /// The path as an argument.
    pub fn reference(&self) -> Value {
        self.path.to_string_lossy().into_owned().into()
    }
}

/// The changes to make.
pub struct Plan {
    /// The changes of the content.
    pub changes: Map,
    /// True if there was one of its kind before.
    pub again: bool,
    /// True if it is written as text.
    pub is_text: bool,
}

impl<'a> Managed<'a> {
    /// The file of a state with the arguments that are the file's.
    pub fn new(ctx: &'a Context, name: &str, what: &'static str, args: Map) -> Self {
        Managed { ctx, name: name.to_owned(), what, args }
    }

    /// Makes the result that the state begins with.
    pub fn start(&self) -> Ret {
        Ret::new(self.name.as_str()).ok(format!("The {} is in the correct state", self.what))
    }

    fn file_managed(&self, test: bool, more: Map) -> Result<Map> {
        let mut ctx = self.ctx.clone();
        if test {
            let mut opts = (*ctx.opts).clone();
            opts.insert("test", true);
            ctx.opts = Arc::new(opts);
        }
        let mut kwargs = self.args.clone();
        kwargs.update(more);
        let call = Call { args: vec![self.name.as_str().into()], kwargs };
        let done = ctx.call_state("file.managed", call)?;
        done.into_map().ok_or_else(|| Error::execution("Failed running file.managed"))
    }

    /// Writes through `file.managed` alone.
    ///
    /// # Errors
    /// Those of the state.
    pub fn written(&self, contents: Value) -> Result<Ret> {
        let done = self.file_managed(false, map! { "contents" => contents })?;
        Ok(Ret::from_value(done.into()))
    }

    /// Checks the file.
    ///
    /// # Errors
    /// Those of `file.managed`.
    pub fn look(&self) -> Result<Before> {
        // Everything that could go wrong with the file is found out before a certificate is issued.
        let test = self.file_managed(true, map! { "replace" => false })?;
        let told = |ret: Ret| with_part(ret, self, test.clone());
        if test.get("result") == Some(&Value::Bool(false)) {
            let text = "Problem while testing file.managed changes, see its output";
            return Ok(Before::Done(told(self.start().fail(text))));
        }
        let comment = test.get("comment").map(Value::to_string).unwrap_or_default();
        if comment.contains("is not present and is not set for creation") {
            return Ok(Before::Done(told(self.start())));
        }
        let path = PathBuf::from(&self.name);
        let mut ready = Ready { test, path, replaces_link: false };
        if ready.path.is_symlink() {
            if self.args.get("follow_symlinks").is_none_or(Value::truthy) {
                // The file behind the link is compared and replaced, and the link stays.
                ready.path = target(&ready.path);
            } else {
                ready.replaces_link = true;
            }
        }
        Ok(Before::Ready(ready))
    }

    /// Makes the changes. `make` is not run when nothing is made.
    ///
    /// # Errors
    /// Those of making and writing.
    pub fn apply(&self, ready: Ready, plan: Plan, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Ret> {
        let ret = self.start();
        let unchanged = |part: &Map| part.get("changes").is_none_or(|changes| !changes.truthy());
        if plan.changes.is_empty() && ready.test.get("result").is_some_and(Value::truthy) && unchanged(&ready.test) {
            return Ok(with_part(ret, self, ready.test));
        }
        let verb = if plan.again && !plan.changes.is_empty() { "recreate" } else { "create" };
        let changes = plan.changes;
        let making = !changes.is_empty();
        if self.ctx.is_test() {
            let ret = ret.changed(changes);
            let text = format!("The {} would have been {verb}d", self.what);
            return Ok(with_part(if making { ret.would(text) } else { ret }, self, ready.test));
        }
        // Owner or mode may still be wrong.
        if !making {
            return self.parts(ret, map! { "replace" => false }, plan.again).map(|(ret, _)| ret);
        }
        // Made only now, since making a key or asking a CA is expensive and leaves traces.
        let content = make()?;
        if ready.replaces_link {
            std::fs::remove_file(&self.name).map_err(|error| Error::io("remove", &self.name, &error))?;
        }
        let ret = ret.changed(changes).ok(format!("The {} has been {verb}d", self.what));
        // `file.managed` handles text. Binary files are written beside it below, or it would decode
        // them.
        if plan.is_text {
            let contents = String::from_utf8_lossy(&content).into_owned();
            let more = map! { "contents" => contents, "replace" => true };
            return self.parts(ret, more, plan.again).map(|(ret, _)| ret);
        }
        let (ret, done) = self.parts(ret, map! { "replace" => false }, plan.again)?;
        if done {
            let keep = Keep::of(self.ctx, self.args.get("backup").unwrap_or(&Value::Null));
            put(Content::Bytes(&content), &ready.path, &keep).map_err(Error::execution)?;
        }
        Ok(ret)
    }

    /// Runs `file.managed` as a part of the state and returns whether it worked.
    fn parts(&self, ret: Ret, more: Map, again: bool) -> Result<(Ret, bool)> {
        let part = self.file_managed(false, more)?;
        let failed = part.get("result") == Some(&Value::Bool(false));
        let ret = with_part(ret, self, part);
        if !failed {
            return Ok((ret, true));
        }
        let verb = if again { "update" } else { "create" };
        let text = format!("Could not {verb} file, see file.managed output");
        Ok((ret.fail(text).changed(Map::new()), false))
    }
}

/// The path a link leads to, also when nothing is there.
fn target(link: &Path) -> PathBuf {
    // `canonicalize` fails on a dangling link, whose target is where the file will be made.
    let direct = || std::fs::read_link(link).ok().map(|to| link.parent().unwrap_or(Path::new("/")).join(to));
    link.canonicalize().ok().or_else(direct).unwrap_or_else(|| link.to_owned())
}

/// Adds the result of `file.managed` as a sub-state.
fn with_part(mut ret: Ret, file: &Managed<'_>, mut part: Map) -> Ret {
    let id = file.ctx.state.as_ref().and_then(|state| state.low.get("__id__").cloned());
    let id = id.unwrap_or_else(|| file.name.as_str().into());
    part.insert("low", map! { "name" => file.name.as_str(), "state" => "file", "__id__" => id, "fun" => "managed" });
    ret.more.insert("sub_state_run", list![part]);
    ret
}

/// Converts a failure that states report to a result.
///
/// # Errors
/// Any other failure.
pub fn reported(name: &str, outcome: Result<Ret>) -> Result<Ret> {
    match outcome {
        Err(Error::Execution(text) | Error::Invocation(text)) => Ok(Ret::new(name).fail(text)),
        other => other,
    }
}
