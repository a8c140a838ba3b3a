//! The execution and state functions of the programs.

/// All of them.
pub const CATALOGUE: exec::Catalogue = exec::Catalogue { modules: modules::ALL, states: states::ALL };
