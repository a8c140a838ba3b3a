//! The variables of a template while it is rendered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use indexmap::{IndexMap, IndexSet};

use crate::env::Vars;
use crate::template::Template;
use crate::value::{Str, Value, lock};

/// A chain of variables: those of this scope, then those of the enclosing scopes.
pub(crate) struct Scope {
    pub vars: Vars,
    pub next: Option<Arc<Scope>>,
}

impl Scope {
    pub fn get(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some(value) = scope.vars.get(name) {
                return Some(value.clone());
            }
            scope = scope.next.as_deref()?;
        }
    }

    /// Adds all variables that an inner scope has not added already.
    fn collect(&self, all: &mut IndexMap<Str, Value>) {
        for (name, value) in &self.vars {
            all.entry(name.clone()).or_insert_with(|| value.clone());
        }
        if let Some(next) = &self.next {
            next.collect(all);
        }
    }
}

/// A block: its template and its index there.
pub(crate) type BlockRef = (Template, usize);

/// The context of a template: the variables it was given, those it set, and its blocks.
pub(crate) struct Context {
    pub name: Option<Str>,
    pub parent: Arc<Scope>,
    pub vars: Mutex<Vars>,
    pub exported: Mutex<IndexSet<Str>>,
    pub blocks: Mutex<HashMap<Str, Vec<BlockRef>>>,
}

impl Context {
    pub fn new(template: &Template, parent: Arc<Scope>) -> Arc<Context> {
        let mut blocks: HashMap<Str, Vec<BlockRef>> = HashMap::new();
        for (index, (name, _)) in template.code.blocks.iter().enumerate() {
            // A stack for each name: `extends` pushes the parent's block below, and `super()` goes one down.
            blocks.entry(name.clone()).or_default().push((template.clone(), index));
        }
        Arc::new(Context {
            name: template.code.name.clone(),
            parent,
            vars: Mutex::default(),
            exported: Mutex::default(),
            blocks: Mutex::new(blocks),
        })
    }

    pub fn resolve(&self, name: &str) -> Option<Value> {
        let set = lock(&self.vars).get(name).cloned();
        set.or_else(|| self.parent.get(name))
    }

    /// Sets a variable; exports it unless its name makes it private.
    pub fn set(&self, name: &Str, value: Value, export: bool) {
        lock(&self.vars).insert(name.clone(), value);
        // Jinja's convention: `{% import %}` does not see private names.
        if export && !name.starts_with('_') {
            lock(&self.exported).insert(name.clone());
        }
    }

    pub fn unexport(&self, name: &str) {
        lock(&self.exported).shift_remove(name);
    }

    /// Returns all variables as of now, with `locals` on top.
    pub fn snapshot(&self, locals: Vec<(Str, Value)>) -> Arc<Scope> {
        let mut vars = lock(&self.vars).clone();
        // An include in a loop costs no copy when the template has set nothing.
        if vars.is_empty() && locals.is_empty() {
            return self.parent.clone();
        }
        vars.extend(locals);
        Arc::new(Scope { vars, next: Some(self.parent.clone()) })
    }

    /// Creates a context of the same template with `locals` on top, for a scoped block.
    pub fn derived(&self, locals: Vec<(Str, Value)>) -> Arc<Context> {
        Arc::new(Context {
            name: self.name.clone(),
            parent: self.snapshot(locals),
            vars: Mutex::default(),
            exported: Mutex::default(),
            blocks: Mutex::new(lock(&self.blocks).clone()),
        })
    }

    pub fn all(&self) -> IndexMap<Str, Value> {
        let mut all: IndexMap<Str, Value> = lock(&self.vars).iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        self.parent.collect(&mut all);
        all
    }

    pub fn exports(&self) -> Vec<(Str, Value)> {
        let vars = lock(&self.vars);
        let exported = lock(&self.exported);
        exported.iter().filter_map(|name| Some((name.clone(), vars.get(name)?.clone()))).collect()
    }
}
