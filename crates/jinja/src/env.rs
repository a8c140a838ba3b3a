//! The environment: templates are compiled and rendered with it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::loader::Loader;
use crate::run::State;
use crate::syntax::Syntax;
use crate::value::{CallArgs, Native, Str, UndefinedKind, Value};

/// Variables by name.
pub type Vars = HashMap<Str, Value, foldhash::fast::RandomState>;

/// A hook that converts a printed value to text; `None` leaves the value to `str()`.
pub type Finalize = Arc<dyn Fn(&mut State, &Value) -> Result<Option<String>, Error> + Send + Sync>;

/// The resources a rendering may use; a rendering that exceeds one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Statements, calls, and iterated items.
    pub steps: u64,
    /// Bytes of text written, in all templates and macros together.
    pub output_bytes: usize,
    /// Nested calls of macros, includes and recursive loops.
    pub depth: u32,
    /// Bytes of one text or integer.
    pub value_bytes: usize,
    /// Items of one list.
    pub items: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Far above what formulas need, and low enough that a template that runs away ends before the machine runs out
        // of memory. Python has no such bounds, so a limit that a working formula reaches would be an incompatibility.
        Limits { steps: 200_000_000, output_bytes: 1 << 30, depth: 300, value_bytes: 256 << 20, items: 16 << 20 }
    }
}

/// A tag that the host adds to the language.
#[derive(Clone, Debug)]
pub enum TagKind {
    /// `{% tag as target %}…{% end %}`: the text of the body goes through a filter into the target.
    Load {
        /// The filter.
        filter: Str,
        /// The tag that ends it.
        end: &'static [&'static str],
    },
    /// `{% tag "path" as target [with context] %}`: the imported template goes through a filter into the target.
    Import {
        /// The filter.
        filter: Str,
    },
    /// `{% tag as label %}…{% end %}`: the body is printed; the label is evaluated and dropped.
    Labelled {
        /// The tag that ends it.
        end: &'static [&'static str],
    },
}

/// Options, filters, tests, globals and the loader; templates are compiled against it and keep it.
#[derive(Clone)]
pub struct Environment {
    /// The delimiters of tags.
    pub syntax: Syntax,
    /// The behaviour of undefined values.
    pub undefined: UndefinedKind,
    /// Refuses attributes that begin with an underscore, and ranges of more than 100,000 numbers.
    pub sandbox: bool,
    /// Escapes output for HTML.
    pub autoescape: bool,
    /// The hook that converts printed values to text.
    pub finalize: Option<Finalize>,
    /// Variables of every template, imported ones too.
    pub globals: Vars,
    /// Filters by name; the filtered value is the first argument.
    pub filters: HashMap<Str, Native>,
    /// Tests by name; the tested value is the first argument.
    pub tests: HashMap<Str, Native>,
    /// Tags of the host by name.
    pub tags: HashMap<Str, TagKind>,
    /// Enables the tag `do`.
    pub do_tag: bool,
    /// Enables the tags `break` and `continue`.
    pub loop_controls: bool,
    /// Finds templates by name.
    pub loader: Option<Arc<dyn Loader>>,
    /// The default limits of a rendering.
    pub limits: Limits,
}

impl Default for Environment {
    fn default() -> Self {
        Environment::new()
    }
}

impl Environment {
    /// Creates an environment with Jinja's defaults, filters, tests and globals, and the `do` and loop control tags.
    pub fn new() -> Self {
        let mut env = Environment {
            syntax: Syntax::default(),
            undefined: UndefinedKind::Lenient,
            sandbox: true,
            autoescape: false,
            finalize: None,
            globals: Vars::default(),
            filters: HashMap::new(),
            tests: HashMap::new(),
            tags: HashMap::new(),
            do_tag: true,
            loop_controls: true,
            loader: None,
            limits: Limits::default(),
        };
        crate::filters::install(&mut env);
        crate::tests::install(&mut env);
        crate::globals::install(&mut env);
        env
    }

    /// Adds a filter or replaces one.
    pub fn add_filter(
        &mut self,
        name: &str,
        call: impl Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync + 'static,
    ) {
        self.filters.insert(name.into(), Arc::new(call));
    }

    /// Adds a test or replaces one.
    pub fn add_test(
        &mut self,
        name: &str,
        call: impl Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync + 'static,
    ) {
        self.tests.insert(name.into(), Arc::new(call));
    }

    /// Adds a global function or replaces one.
    pub fn add_function(
        &mut self,
        name: &str,
        call: impl Fn(&mut CallArgs) -> Result<Value, Error> + Send + Sync + 'static,
    ) {
        self.globals.insert(name.into(), Value::function(name, call));
    }

    /// Adds a global variable or replaces one.
    pub fn add_global(&mut self, name: &str, value: impl Into<Value>) {
        self.globals.insert(name.into(), value.into());
    }
}
