//! What templates are compiled and rendered with.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::loader::Loader;
use crate::run::State;
use crate::syntax::Syntax;
use crate::value::{CallArgs, Native, Str, UndefinedKind, Value};

/// Variables by name.
pub type Vars = HashMap<Str, Value, foldhash::fast::RandomState>;

/// Prints a value that a template prints; none for what `str()` gives.
pub type Finalize = Arc<dyn Fn(&mut State, &Value) -> Result<Option<String>, Error> + Send + Sync>;

/// How much a rendering may use before it is ended with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Statements, expressions that call something, and items walked.
    pub steps: u64,
    /// Bytes of text written, in all templates and macros together.
    pub output_bytes: usize,
    /// Calls of macros, includes and recursive loops inside each other.
    pub depth: u32,
    /// Bytes of one text or integer.
    pub value_bytes: usize,
    /// Items of one list.
    pub items: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 200_000_000, output_bytes: 1 << 30, depth: 300, value_bytes: 256 << 20, items: 16 << 20 }
    }
}

/// A tag of the host.
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
    /// `{% tag as label %}…{% end %}`: the body is printed, the label only evaluated.
    Labelled {
        /// The tag that ends it.
        end: &'static [&'static str],
    },
}

/// Options, filters, tests, globals and the loader; templates are compiled against it and keep it.
#[derive(Clone)]
pub struct Environment {
    /// How tags are written.
    pub syntax: Syntax,
    /// What undefined values do.
    pub undefined: UndefinedKind,
    /// Refuses attributes that begin with an underscore, and ranges of more than 100,000 numbers.
    pub sandbox: bool,
    /// Escapes what is printed for HTML.
    pub autoescape: bool,
    /// Prints values in a way of its own.
    pub finalize: Option<Finalize>,
    /// Variables of every template, imported ones too.
    pub globals: Vars,
    /// Filters by name; the filtered value is the first argument.
    pub filters: HashMap<Str, Native>,
    /// Tests by name; the tested value is the first argument.
    pub tests: HashMap<Str, Native>,
    /// Tags of the host by name.
    pub tags: HashMap<Str, TagKind>,
    /// Knows the tag `do`.
    pub do_tag: bool,
    /// Knows the tags `break` and `continue`.
    pub loop_controls: bool,
    /// Finds templates by name.
    pub loader: Option<Arc<dyn Loader>>,
    /// The bounds of a rendering.
    pub limits: Limits,
}

impl Default for Environment {
    fn default() -> Self {
        Environment::new()
    }
}

impl Environment {
    /// Makes an environment with Jinja's defaults, filters, tests and globals, and the `do` and loop control tags.
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
