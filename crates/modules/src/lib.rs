//! Execution modules, one file per Salt module name.

pub mod test;

/// All modules. Of several with one name the first that works on the machine is taken.
pub static ALL: &[&exec::Module] = &[&test::MODULE];
