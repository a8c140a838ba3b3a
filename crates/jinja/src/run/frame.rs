//! The variables of a function while it runs.

use std::sync::{Arc, Mutex};

use super::context::Context;
use super::state::State;
use crate::compile::{Func, Load, LoadKind, LoopCore, Slot};
use crate::template::Template;
use crate::value::{Str, Value, lock};

/// A variable that is shared with inner functions.
pub(super) type Cell = Arc<Mutex<Option<Value>>>;

#[derive(Default)]
enum Var {
    #[default]
    Missing,
    Value(Value),
    Shared(Cell),
}

/// A running function: its variables, template and current line.
pub(super) struct Frame {
    vars: Vec<Var>,
    pub context: Arc<Context>,
    pub template: Template,
    pub line: u32,
    /// The text of the block that is being filtered.
    pub captured: Option<Value>,
    pub parent_template: Option<Template>,
    pub autoescape: bool,
    /// The loop that runs.
    pub current_loop: Option<Arc<LoopCore>>,
}

/// The variables that an inner function shares with the outer one: its slot, and the cell.
pub(super) type Captured = Vec<(Slot, Cell)>;

impl Frame {
    pub fn new(func: &Func, template: &Template, context: &Arc<Context>, captured: &[(Slot, Cell)]) -> Self {
        let mut vars: Vec<Var> = Vec::with_capacity(func.slots);
        vars.resize_with(func.slots, Var::default);
        for (slot, cell) in captured {
            vars[*slot] = Var::Shared(cell.clone());
        }
        Frame {
            vars,
            context: context.clone(),
            template: template.clone(),
            line: func.line,
            captured: None,
            parent_template: None,
            // Each template starts with the environment's setting; `{% autoescape %}` does not reach into included
            // ones.
            autoescape: template.env.autoescape,
            current_loop: None,
        }
    }

    pub fn get(&self, slot: Slot) -> Option<Value> {
        match &self.vars[slot] {
            Var::Value(value) => Some(value.clone()),
            Var::Missing => None,
            Var::Shared(cell) => lock(cell).clone(),
        }
    }

    /// Borrows a variable that is not shared.
    pub fn peek(&self, slot: Slot) -> Option<&Value> {
        match &self.vars[slot] {
            Var::Value(value) => Some(value),
            _ => None,
        }
    }

    pub fn set(&mut self, slot: Slot, value: Value) {
        match &mut self.vars[slot] {
            Var::Shared(cell) => *lock(cell) = Some(value),
            var => *var = Var::Value(value),
        }
    }

    pub fn clear(&mut self, slot: Slot) {
        match &mut self.vars[slot] {
            Var::Shared(cell) => *lock(cell) = None,
            var => *var = Var::Missing,
        }
    }

    fn put(&mut self, slot: Slot, value: Option<Value>) {
        match value {
            Some(value) => self.set(slot, value),
            None => self.clear(slot),
        }
    }

    /// Turns the captured variables into shared cells and returns them for the inner function.
    pub fn capture(&mut self, func: &Func) -> Captured {
        func.captures
            .iter()
            .map(|(outer, inner)| {
                let var = &mut self.vars[*outer];
                // From now on both functions use the cell. A macro thus sees what is set after its definition, as a
                // Python closure does.
                let cell = match std::mem::take(var) {
                    Var::Shared(cell) => cell,
                    Var::Value(value) => Arc::new(Mutex::new(Some(value))),
                    Var::Missing => Arc::default(),
                };
                *var = Var::Shared(cell.clone());
                (*inner, cell)
            })
            .collect()
    }

    pub fn enter(&mut self, loads: &[Load]) {
        for load in loads {
            match &load.kind {
                // Slots are reused from one round of a loop to the next and must not show the last round's value.
                LoadKind::Undefined => self.clear(load.slot),
                LoadKind::Alias(outer) => {
                    let value = self.get(*outer);
                    self.put(load.slot, value);
                }
                LoadKind::Resolve(name) => {
                    let value = self.context.resolve(name);
                    self.put(load.slot, value);
                }
            }
        }
    }

    pub fn leave(&mut self, slots: &[Slot]) {
        slots.iter().for_each(|slot| self.clear(*slot));
    }

    /// Returns the variables that are set.
    pub fn dump(&self, vars: &[(Str, Slot)]) -> Vec<(Str, Value)> {
        vars.iter().filter_map(|(name, slot)| Some((name.clone(), self.get(*slot)?))).collect()
    }

    /// Makes this frame the context that host functions see; returns the previous context and loop variables.
    pub fn activate(&self, state: &mut State) -> (Option<Arc<Context>>, Vec<(Str, Value)>) {
        // A macro runs with the context of its definition, and the caller's loop variables are none of its business.
        (state.context.replace(self.context.clone()), std::mem::take(&mut state.loop_vars))
    }
}
