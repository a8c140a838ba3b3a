//! From text to a tree.

mod expressions;
mod lexer;
mod parser;
mod statements;
mod strings;
mod token;
pub(crate) mod tree;

pub use lexer::Syntax;
pub(crate) use parser::parse;
