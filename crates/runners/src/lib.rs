//! Runners and wheel functions: the functions of the master itself.
//!
//! They are tables like execution modules, one file per Salt name: runners in `runners/`, wheel functions in `wheel/`.
//! [`run`] calls one and reports it on the event bus, as Salt does. Two programs use this: `salt-run`, where a runner
//! runs in the process of the user who started it, and the master, for requests that come over the wire. They differ
//! only in the parts of the [`RunnerContext`].

mod access;
mod connected;
mod context;
mod docs;
mod events;
mod exceptions;
mod extmods;
mod job_source;
mod key_changes;
mod kind;
mod local;
mod local_batch;
mod low;
mod minions;
mod orchestrate;
mod other_masters;
mod own_pillar;
mod refusal;
mod run;
pub mod runners;
mod secrets;
mod success;
mod tables;
mod texts;
pub mod wheel;

pub use connected::connected;
pub use context::{Connected, Guard, Job, RunnerContext, Silent, Sink, WheelContext};
pub use docs::docs;
pub use events::{Events, Listener};
pub use kind::{Kind, NoSuchFunction};
pub use low::call_from_low;
pub use run::{Outcome, Request, new_jid, run};
pub use runners::RUNNERS;
pub use tables::Tables;
pub use wheel::WHEEL;

/// All runners and wheel functions.
pub static TABLES: Tables = Tables { runners: RUNNERS, wheel: WHEEL };

/// A module of runners or wheel functions.
pub type Module = exec::Module<RunnerContext>;

/// A runner or wheel function.
pub type Function = exec::Function<RunnerContext>;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check_list(folder: &str, all: &[&Module]) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
        let list = std::fs::read_to_string(root.join("mod.rs")).unwrap();
        let mut found = 0;
        for entry in std::fs::read_dir(&root).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            // A module that is missing in the list compiles, and its functions are just not found.
            if std::fs::read_to_string(&path).unwrap().contains("\npub static MODULE: Module") {
                assert!(list.contains(&format!("&{name}::MODULE,")), "{} is not in the list", path.display());
                found += 1;
            }
        }
        assert_eq!(found, all.len());
        let names: Vec<_> = all.iter().map(|module| module.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        for module in all {
            // `docs` prints the tables in their order.
            let names: Vec<_> = module.functions.iter().map(|function| function.name).collect();
            assert!(names.is_sorted(), "{}: {names:?}", module.name);
        }
    }

    #[test]
    fn no_file_is_forgotten_and_everything_is_in_order() {
        check_list("runners", RUNNERS);
        check_list("wheel", WHEEL);
    }

    #[test]
    fn every_runner_has_an_example() {
        for module in RUNNERS {
            for function in module.functions {
                // Salt's documentation of each runner has such a line.
                let call = format!("salt-run {}.{}", module.name, function.name);
                assert!(function.doc.contains(&call), "{call} is not in its documentation");
            }
        }
    }
}
