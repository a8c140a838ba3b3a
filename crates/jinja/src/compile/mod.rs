//! From the tree to code with resolved variables.

mod code;
mod expressions;
mod frames;
mod generate;
mod statements;
mod symbols;
mod undeclared;

pub(crate) use code::*;
pub(crate) use generate::compile;
