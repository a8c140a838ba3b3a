//! One rendering: what it may use, what it loaded, where it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::context::{Context, Scope};
use super::modules::Module;
use crate::env::{Environment, Limits, Vars};
use crate::error::{Error, ErrorKind};
use crate::loader::Source;
use crate::python;
use crate::template::{RenderOptions, Template};
use crate::value::{CallArgs, Kwargs, Native, Str, Undefined, UndefinedKind, Value, lock};

/// The number of nested calls after which a new stack is started.
// Each nested call takes several Rust frames, and a debug build's are large. The host's thread may have as little as 2
// MiB.
const CALLS_PER_STACK: u32 = 24;

/// The size of such a stack in bytes.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// Adds a weak reference; dead ones are removed before the list grows.
fn note<T>(list: &mut Vec<Weak<T>>, one: &Arc<T>) {
    // Amortized: a loop that defines a macro a million times must neither scan the list each time nor keep dead
    // entries.
    if list.len() == list.capacity() {
        list.retain(|one| one.strong_count() > 0);
    }
    list.push(Arc::downgrade(one));
}

/// A rendering in progress.
pub struct State {
    env: Arc<Environment>,
    limits: Limits,
    steps: u64,
    written: usize,
    depth: u32,
    /// The depth at which the current stack began.
    stack_base: u32,
    globals: Arc<Scope>,
    loaded: Vars,
    templates: HashMap<Str, Template>,
    pub(crate) modules: HashMap<Str, Arc<Module>>,
    pub(crate) context: Option<Arc<Context>>,
    /// Variables set in the loop or block that is running.
    pub(crate) loop_vars: Vec<(Str, Value)>,
    /// The contexts of this rendering.
    contexts: Vec<Weak<Context>>,
    /// The variables that macros share with what is around them.
    cells: Vec<Weak<Mutex<Option<Value>>>>,
}

/// A macro refers to the context and the variables around it and is itself one of them. These cycles are broken here;
/// otherwise each rendering with a macro would leak its variables.
impl Drop for State {
    fn drop(&mut self) {
        for context in self.contexts.iter().filter_map(Weak::upgrade) {
            // Dropped after the lock is released: dropping a value may run code of the host.
            let vars = std::mem::take(&mut *lock(&context.vars));
            drop(vars);
        }
        for cell in self.cells.iter().filter_map(Weak::upgrade) {
            let value = lock(&cell).take();
            drop(value);
        }
    }
}

impl State {
    pub(crate) fn new(env: &Arc<Environment>, options: RenderOptions) -> Self {
        let base = Arc::new(Scope { vars: env.globals.clone(), next: None });
        let globals =
            if options.globals.is_empty() { base } else { Arc::new(Scope { vars: options.globals, next: Some(base) }) };
        State {
            env: env.clone(),
            limits: options.limits.unwrap_or(env.limits),
            steps: 0,
            written: 0,
            depth: 0,
            stack_base: 0,
            globals,
            loaded: Vars::default(),
            templates: HashMap::new(),
            modules: HashMap::new(),
            context: None,
            loop_vars: Vec::new(),
            contexts: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Registers a context, whose variables are dropped at the end of the rendering.
    pub(crate) fn note(&mut self, context: &Arc<Context>) {
        note(&mut self.contexts, context);
    }

    /// Registers a variable that a macro shares; it is cleared at the end of the rendering.
    pub(crate) fn note_shared(&mut self, cell: &Arc<Mutex<Option<Value>>>) {
        note(&mut self.cells, cell);
    }

    /// Returns the environment.
    pub fn env(&self) -> &Arc<Environment> {
        &self.env
    }

    /// Returns the bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Looks a variable up as the running template does, without those local to loops and macros.
    pub fn lookup(&self, name: &str) -> Option<Value> {
        // The last one wins: it belongs to the innermost loop.
        if let Some((_, value)) = self.loop_vars.iter().rev().find(|(have, _)| &**have == name) {
            return Some(value.clone());
        }
        self.context.as_ref().and_then(|context| context.resolve(name))
    }

    /// Returns all variables the running template sees, without those local to loops and macros.
    pub fn variables(&self) -> Vec<(Str, Value)> {
        let mut all = self.context.as_ref().map(|context| context.all()).unwrap_or_default();
        all.extend(self.loop_vars.iter().cloned());
        all.into_iter().collect()
    }

    /// Looks up a global as a template that is imported without context sees it.
    pub fn global(&self, name: &str) -> Option<Value> {
        self.loaded.get(name).cloned().or_else(|| self.globals.get(name))
    }

    pub(crate) fn globals(&self) -> Arc<Scope> {
        if self.loaded.is_empty() {
            return self.globals.clone();
        }
        Arc::new(Scope { vars: self.loaded.clone(), next: Some(self.globals.clone()) })
    }

    /// Counts steps; fails when the rendering has used up its limit.
    pub fn spend(&mut self, steps: u64) -> Result<(), Error> {
        self.steps += steps;
        if self.steps > self.limits.steps {
            return Err(Error::new(ErrorKind::Steps, "the template takes too many steps"));
        }
        Ok(())
    }

    /// Counts written bytes; fails when the rendering has used up its limit.
    pub(crate) fn wrote(&mut self, bytes: usize) -> Result<(), Error> {
        self.written += bytes;
        if self.written > self.limits.output_bytes {
            return Err(Error::new(ErrorKind::Memory, "the template writes too much"));
        }
        Ok(())
    }

    /// Fails if a text or number of this many bytes is too large.
    pub fn check_size(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.limits.value_bytes {
            return Err(Error::new(ErrorKind::Memory, "a value is too large"));
        }
        Ok(())
    }

    /// Fails if a list of this many items is too large.
    pub fn check_items(&self, items: usize) -> Result<(), Error> {
        if items > self.limits.items {
            return Err(Error::new(ErrorKind::Memory, "a list is too large"));
        }
        Ok(())
    }

    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        if self.depth >= self.limits.depth {
            return Err(python::too_deep());
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Runs `part` one level deeper, on a new stack after every [`CALLS_PER_STACK`] levels.
    pub(crate) fn deeper<T: Send>(
        &mut self,
        part: impl FnOnce(&mut State) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        self.enter()?;
        let deep = self.depth - self.stack_base >= CALLS_PER_STACK;
        // Most calls stay on the current stack; a thread is started only once per `CALLS_PER_STACK` levels.
        let result = if deep { self.on_new_stack(part) } else { part(self) };
        self.leave();
        result
    }

    /// Runs `part` on a separate stack.
    pub fn on_new_stack<T: Send>(
        &mut self,
        part: impl FnOnce(&mut State) -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        let base = std::mem::replace(&mut self.stack_base, self.depth);
        let result = on_new_stack(|| part(self));
        self.stack_base = base;
        result
    }

    /// Calls a value.
    pub fn call(&mut self, callee: &Value, args: Vec<Value>, kwargs: Kwargs) -> Result<Value, Error> {
        match callee {
            Value::Function(function) => {
                let function = function.clone();
                self.call_native(&function.call, args, kwargs)
            }
            Value::Object(object) => {
                // The call may drop the last other reference, for example by reassigning the variable that holds the
                // macro.
                let object = object.clone();
                self.deeper(move |state| object.call(&mut CallArgs { state, args, kwargs }))
            }
            Value::Undefined(undefined) => Err(undefined.fail()),
            other => Err(Error::type_error(format!("'{}' object is not callable", other.class_path()))),
        }
    }

    pub(crate) fn call_native(&mut self, native: &Native, args: Vec<Value>, kwargs: Kwargs) -> Result<Value, Error> {
        self.spend(1)?;
        self.enter()?;
        let result = native(&mut CallArgs { state: self, args, kwargs });
        self.leave();
        result
    }

    /// Applies a filter by name; the value is the first argument.
    pub fn call_filter(&mut self, name: &Value, args: Vec<Value>, kwargs: Kwargs) -> Result<Value, Error> {
        // Filters by name serve `map`, which gets the name as a value and therefore as late as this.
        let found = name.as_str().and_then(|name| self.env.filters.get(name)).cloned();
        match found {
            Some(filter) => self.call_native(&filter, args, kwargs),
            None => Err(self.unknown("filter", name)),
        }
    }

    /// Applies a test by name; the value is the first argument.
    pub fn call_test(&mut self, name: &Value, args: Vec<Value>, kwargs: Kwargs) -> Result<Value, Error> {
        let found = name.as_str().and_then(|name| self.env.tests.get(name)).cloned();
        match found {
            Some(test) => self.call_native(&test, args, kwargs),
            None => Err(self.unknown("test", name)),
        }
    }

    fn unknown(&self, what: &str, name: &Value) -> Error {
        let mut text = format!("No {what} named {}.", python::debug(name));
        if let Value::Undefined(undefined) = name {
            if undefined.kind == UndefinedKind::Strict {
                return undefined.fail();
            }
            // Jinja's hint for `|map(upper)` instead of `|map('upper')`.
            text.push_str(&format!(" ({}; did you forget to quote the callable name?)", undefined.message()));
        }
        Error::runtime(text)
    }

    /// Prints a value as `str()`.
    pub fn str(&mut self, value: &Value) -> Result<String, Error> {
        python::str_of(self, value, None)
    }

    /// Prints a value as `repr()`.
    pub fn repr(&mut self, value: &Value) -> Result<String, Error> {
        python::repr(self, value)
    }

    /// Creates an undefined value of the environment's kind with a text that explains it.
    pub fn undefined(&self, hint: &str) -> Value {
        Undefined::hint(self.env.undefined, hint, Value::None)
    }

    /// Loads a template by name.
    pub(crate) fn load(&mut self, name: &str, parent: Option<&str>) -> Result<Template, Error> {
        // One rendering must see one version of a template, even if the file changes during it.
        if let Some(template) = self.templates.get(name) {
            return Ok(template.clone());
        }
        let Some(loader) = self.env.loader.clone() else {
            return Err(Error::type_error("no loader for this environment specified"));
        };
        let loaded = loader.load(self, name, parent)?;
        // Salt's loader sets these before Jinja compiles the text, even if that fails then.
        self.loaded.extend(loaded.globals);
        let template = match loaded.source {
            Source::Text(text) => Template::compile(&self.env, Some(name), &text)?,
            Source::Compiled(template) => template,
        };
        self.templates.insert(name.into(), template.clone());
        Ok(template)
    }
}

/// Runs `part` on a separate stack, which is large enough for the deepest template.
pub(crate) fn on_new_stack<T: Send>(part: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        // A thread is the only safe way to get a fresh stack. Its memory is mapped lazily: untouched pages cost
        // nothing.
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, part);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(result)) => result,
            // The panic belongs to the caller, who may isolate it.
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The system refused another thread: for the template this is a recursion that goes too deep.
            Err(_) => Err(python::too_deep()),
        }
    })
}
