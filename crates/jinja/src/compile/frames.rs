//! Functions under construction and the scopes in them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::code::{Load, LoadKind, Slot};
use super::symbols::{Ident, SymbolLoad, Symbols};
use crate::value::Str;

/// A scope while its statements are compiled.
#[derive(Clone)]
pub(super) struct Frame {
    pub symbols: Rc<RefCell<Symbols>>,
    pub toplevel: bool,
    pub rootlevel: bool,
    pub loop_frame: bool,
    pub block_frame: bool,
    /// Inside an `if`: an unknown filter is an error only when it runs.
    pub soft: bool,
    /// Output happens only if there is no parent template.
    pub output_check: bool,
}

impl Frame {
    pub fn root(func: usize) -> Self {
        Frame {
            symbols: Rc::new(RefCell::new(Symbols::new(None, func))),
            toplevel: false,
            rootlevel: false,
            loop_frame: false,
            block_frame: false,
            soft: false,
            output_check: false,
        }
    }

    /// A scope inside this one, in the same or in a new function.
    pub fn inner(&self, func: usize) -> Self {
        Frame {
            symbols: Rc::new(RefCell::new(Symbols::new(Some(self.symbols.clone()), func))),
            toplevel: false,
            rootlevel: false,
            loop_frame: false,
            block_frame: false,
            soft: false,
            output_check: self.output_check,
        }
    }

    /// Returns the same scope for code that runs only under a condition.
    pub fn soft(&self) -> Self {
        Frame { rootlevel: false, soft: true, ..self.clone() }
    }
}

/// A function while it is compiled.
pub(super) struct FuncBuilder {
    pub id: usize,
    slots: HashMap<Ident, Slot>,
    outer: HashMap<Ident, Slot>,
    pub captures: Vec<(Slot, Slot)>,
    pub count: usize,
    pub in_loop: bool,
}

/// The functions around the place that is being compiled, outermost first.
#[derive(Default)]
pub(super) struct Funcs {
    stack: Vec<FuncBuilder>,
    next: usize,
}

impl Funcs {
    pub fn begin(&mut self) -> usize {
        self.next += 1;
        self.stack.push(FuncBuilder {
            id: self.next,
            slots: HashMap::new(),
            outer: HashMap::new(),
            captures: Vec::new(),
            count: 0,
            in_loop: false,
        });
        self.next
    }

    pub fn end(&mut self) -> Option<FuncBuilder> {
        self.stack.pop()
    }

    pub fn current(&self) -> usize {
        self.stack.last().map_or(0, |func| func.id)
    }

    /// Sets whether the following statements are in a loop of this function; returns the previous setting.
    pub fn set_in_loop(&mut self, in_loop: bool) -> bool {
        self.stack.last_mut().is_some_and(|func| std::mem::replace(&mut func.in_loop, in_loop))
    }

    pub fn in_loop(&self) -> bool {
        self.stack.last().is_some_and(|func| func.in_loop)
    }

    /// Creates a slot that belongs to no name.
    pub fn fresh(&mut self) -> Slot {
        match self.stack.last_mut() {
            Some(func) => {
                func.count += 1;
                func.count - 1
            }
            None => 0,
        }
    }

    /// Returns the slot of a variable of the current function.
    pub fn local(&mut self, ident: &Ident) -> Slot {
        let top = self.stack.len().saturating_sub(1);
        self.local_at(top, ident)
    }

    fn local_at(&mut self, at: usize, ident: &Ident) -> Slot {
        let Some(func) = self.stack.get_mut(at) else { return 0 };
        *func.slots.entry(ident.clone()).or_insert_with(|| {
            func.count += 1;
            func.count - 1
        })
    }

    /// Returns the slot of a variable of the current function or of one around it.
    pub fn slot(&mut self, ident: &Ident, owner: usize) -> Slot {
        let top = self.stack.len().saturating_sub(1);
        self.slot_at(top, ident, owner)
    }

    fn slot_at(&mut self, at: usize, ident: &Ident, owner: usize) -> Slot {
        // The owner's own slot; the bottom of the stack owns everything without another owner.
        let known = self.stack.get(at).is_none_or(|func| func.id == owner) || at == 0;
        if known {
            return self.local_at(at, ident);
        }
        if let Some(slot) = self.stack[at].outer.get(ident) {
            return *slot;
        }
        // Captured through every function in between, since each sees only the one directly around it.
        let outer = self.slot_at(at - 1, ident, owner);
        let func = &mut self.stack[at];
        let inner = func.count;
        func.count += 1;
        func.captures.push((outer, inner));
        func.outer.insert(ident.clone(), inner);
        inner
    }

    /// Returns the slot a name means in a scope.
    pub fn name(&mut self, frame: &Frame, name: &Str) -> Slot {
        let found = frame.symbols.borrow().find(name);
        match found {
            Some((ident, owner)) => self.slot(&ident, owner),
            // A name that no scope knows gets a slot that is never set, and is thus undefined.
            None => self.fresh(),
        }
    }

    /// Returns the loads to perform when a scope is entered.
    pub fn enter(&mut self, frame: &Frame) -> Vec<Load> {
        let loads: Vec<(Ident, SymbolLoad)> =
            frame.symbols.borrow().loads.iter().map(|(ident, load)| (ident.clone(), load.clone())).collect();
        let mut entered = Vec::new();
        let mut undefined = Vec::new();
        for (ident, load) in loads {
            let slot = self.local(&ident);
            let kind = match load {
                SymbolLoad::Parameter => continue,
                SymbolLoad::Resolve(name) => LoadKind::Resolve(name),
                SymbolLoad::Alias(outer) => LoadKind::Alias(self.outer_slot(frame, &outer)),
                SymbolLoad::Undefined => {
                    undefined.push(Load { slot, kind: LoadKind::Undefined });
                    continue;
                }
            };
            entered.push(Load { slot, kind });
        }
        // Last, as in the code that Jinja generates.
        entered.extend(undefined);
        entered
    }

    fn outer_slot(&mut self, frame: &Frame, ident: &Ident) -> Slot {
        let parent = frame.symbols.borrow().parent.clone();
        let owner = parent.and_then(|parent| parent.borrow().find(&ident.1)).map_or(0, |(_, owner)| owner);
        self.slot(ident, owner)
    }

    /// Returns the slots that are emptied when a scope is left.
    pub fn leave(&mut self, frame: &Frame) -> Vec<Slot> {
        let idents: Vec<Ident> = frame.symbols.borrow().loads.keys().cloned().collect();
        idents.iter().map(|ident| self.local(ident)).collect()
    }

    /// Returns all variables that are visible in a scope and were set in templates.
    pub fn visible(&mut self, frame: &Frame) -> Vec<(Str, Slot)> {
        let names = frame.symbols.borrow().all_stores();
        names.into_iter().map(|name| (name.clone(), self.name(frame, &name))).collect()
    }
}
