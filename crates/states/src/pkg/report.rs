//! The report of `pkg.installed`, and the packages it holds.

use exec::{Context, Result};
use value::{Map, Value, map};

use super::targets::{Plan, Wish};
use super::{failed, name_and_version};
use crate::Ret;
use crate::support::{call, caught_or_refused, has};

/// The outcome of an installation.
#[derive(Default)]
pub struct Report {
    /// The lines of the comment.
    pub comment: Vec<String>,
    /// The changes.
    pub changes: Map,
    /// Packages that were installed.
    pub modified: Vec<String>,
    /// Packages that were there.
    pub same: Vec<String>,
    /// Packages that could not be installed.
    pub bad: Vec<String>,
    /// True if something failed.
    pub failed: bool,
}

/// The answers about holding packages, by their results.
#[derive(Default)]
pub struct Holds {
    modified: Vec<Map>,
    same: Vec<Map>,
    failed: Vec<Map>,
}

/// The reason why packages could not be held.
pub enum Refused {
    /// The function failed.
    Said(String),
    /// The function answered that it failed.
    Answered(String),
}

impl Holds {
    /// Holds packages, or lets them go.
    pub fn set(ctx: &Context, hold: bool, kwargs: Map) -> Result<std::result::Result<Holds, Refused>> {
        let action = if hold { "pkg.hold" } else { "pkg.unhold" };
        let answer = match call(ctx, action, Vec::new(), kwargs) {
            Ok(answer) => answer.into_map().unwrap_or_default(),
            // The two kinds of refusal differ in what the state reports beside the text.
            Err(error) => return Ok(Err(Refused::Said(caught_or_refused(error)?.text))),
        };
        if answer.get("result").is_some_and(|result| !result.truthy()) {
            let comment = answer.get("comment").map(Value::to_string).unwrap_or_default();
            let text = format!("An error was encountered while holding/unholding package(s): {comment}");
            return Ok(Err(Refused::Answered(text)));
        }
        let mut holds = Holds::default();
        for entry in answer.values().filter_map(Value::as_map) {
            let is = |name: &str| entry.get(name).is_some_and(Value::truthy);
            if is("changes") {
                holds.modified.push(entry.clone());
            }
            match (is("changes"), is("result")) {
                (false, true) => holds.same.push(entry.clone()),
                // An entry can be both modified and failed, and Salt reports it under both.
                (_, false) => holds.failed.push(entry.clone()),
                (true, true) => {}
            }
        }
        Ok(Ok(holds))
    }
}

fn text(entry: &Map, name: &str) -> String {
    entry.get(name).map(Value::to_string).unwrap_or_default()
}

/// Holds packages that need not be installed.
pub fn hold_done(ctx: &Context, wish: &Wish, kwargs: &Map, ret: Ret) -> Result<Ret> {
    let Some(hold) = kwargs.get("hold").filter(|_| has(ctx, "pkg.hold")) else { return Ok(ret) };
    let own = map! { "name" => wish.name.as_str(), "pkgs" => wish.pkgs.clone(), "sources" => wish.sources.clone() };
    let holds = match Holds::set(ctx, hold.truthy(), own)? {
        Ok(holds) => holds,
        Err(Refused::Said(text) | Refused::Answered(text)) => return Ok(failed(&wish.name, text)),
    };
    let mut ret = ret;
    for (entry, changed) in holds
        .modified
        .iter()
        .map(|entry| (entry, true))
        .chain(holds.same.iter().chain(&holds.failed).map(|e| (e, false)))
    {
        // Every entry overwrites the result, so the last one decides. Salt does the same.
        ret.comment = format!("{}.\n{}", ret.comment, text(entry, "comment")).into();
        ret.result = entry.get("result").and_then(Value::as_bool);
        if changed {
            ret.changes.insert(text(entry, "name"), entry.get("changes").cloned().unwrap_or_default());
        }
    }
    Ok(ret)
}

impl Report {
    /// Turns the outcome into comments and changes.
    pub fn tell(&mut self, wish: &Wish, plan: &Plan, holds: &Holds) {
        let summary = |names: &[String]| {
            let text = |name: &String| {
                if wish.sources.truthy() { name.clone() } else { name_and_version(name, &plan.desired) }
            };
            names.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let several = |count: usize| if count > 1 { ("s", "were") } else { ("", "was") };
        if !self.modified.is_empty() {
            let names = summary(&self.modified);
            let count = self.modified.len();
            let (plural, verb) = several(count);
            // Salt compares the length of the joined text with 20, where it means the number of
            // packages.
            self.comment.push(match names.chars().count() < 20 {
                true => format!("The following packages were installed/updated: {names}"),
                false => format!("{count} targeted package{plural} {verb} installed/updated."),
            });
        }
        for entry in &holds.modified {
            self.held(entry);
        }
        if !self.same.is_empty() {
            let count = self.same.len();
            let (plural, verb) = several(count);
            self.comment.push(match count <= 20 {
                true => format!("The following packages were already installed: {}", summary(&self.same)),
                false => format!("{count} targeted package{plural} {verb} already installed"),
            });
        }
        self.comment.extend(holds.same.iter().map(|entry| text(entry, "comment")));
        if !self.bad.is_empty() {
            let text = format!("The following packages failed to install/update: {}", summary(&self.bad));
            // Failures come first, before everything that went well.
            self.comment.insert(0, text);
            self.failed = true;
        }
        self.comment.extend(holds.failed.iter().map(|entry| text(entry, "comment")));
        self.failed |= !holds.failed.is_empty();
    }

    // A hold is merged into the change of the package itself, so that both show under one name.
    fn held(&mut self, entry: &Map) {
        self.comment.push(text(entry, "comment"));
        let change = |name: &str| entry.get("changes").and_then(|changes| changes.get(name)).map(Value::to_string);
        let (new, old) = (change("new").unwrap_or_default(), change("old").unwrap_or_default());
        let name = text(entry, "name");
        match self.changes.get_mut(&name).and_then(Value::as_map_mut) {
            Some(known) => {
                for (key, value) in [("new", new), ("old", old)] {
                    let before = text(known, key);
                    let value = if before.is_empty() { value } else { format!("{before}\n{value}") };
                    known.insert(key, value);
                }
            }
            None => drop(self.changes.insert(name, map! { "new" => new })),
        }
    }
}
