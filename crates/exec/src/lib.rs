//! The interface of execution functions: how they are declared, called and found.
//!
//! A [`Module`] has a Salt name and a list of [`Function`]s; the `#[function]` attribute makes the entry from a
//! plain Rust function. A function sees the world only through its [`Context`]: options, grains, pillar, the
//! job it runs for, and the [`Agent`] it runs in (the minion, `salt-call`, a test). State functions are functions too: they
//! return a map of `name`, `result`, `changes` and `comment`, and have a separate [`Registry`].

mod args;
mod bind;
mod call;
mod catalogue;
mod context;
mod docstring;
mod error;
mod function;
mod kill;
mod limits;
mod memo;
mod nested;
pub mod python;
mod registry;
pub mod testing;
mod wait;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The release of Salt whose behaviour this program follows where the lines differ.
pub const SALT_LINE: &str = "3008.5";

pub use args::{FromArg, KwArgs, VarArgs};
pub use bind::{Call, bind, bind_within};
pub use catalogue::Catalogue;
pub use context::{
    Agent, Context, Job, MasterRole, MasterState, MasterStatus, Progress, Refresh, RunningJob, Scope, StateCall,
};
pub use docstring::{docstring, raw_docstring};
pub use error::{Error, Result};
pub use exec_macros::function;
pub use function::{Bound, CallFuture, Param};
pub use kill::{Cancel, caught, of_panic};
pub use limits::Limits;
pub use memo::Memo;
pub use nested::nested;
pub use registry::Unavailable;

/// A module of functions. Those of runners and wheel functions get another context.
pub type Module<C = Context> = function::Module<C>;

/// A function.
pub type Function<C = Context> = function::Function<C>;

/// The implementation of a function.
pub type Body<C = Context> = function::Body<C>;

/// The functions that a minion, or a master in the role of one, finds by name.
pub type Registry = registry::Registry<Context>;
