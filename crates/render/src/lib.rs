//! From the text of an SLS file or a template to data: the pipeline of renderers.
//!
//! A file names its renderers in its first line (`#!jinja|yaml|gpg`), or the option `renderer` does (`jinja|yaml`). Each
//! takes what the one before it made. [`Renderer::render`] runs the pipeline of an SLS file, [`Renderer::template`] runs one
//! template engine over a text, as `file.managed` wants it.
//!
//! Everything here blocks: templates call execution functions, which may run programs and ask a master. Call it on a thread
//! for blocking work, as plain functions are.

mod convert;
mod error;
mod jinja;
mod jmespath;
mod loader;
mod pipe;
mod renderer;
mod request;
mod steps;

pub use error::{Error, around};
pub use loader::{Loader, NoFiles, Roots, Source};
pub use pipe::{Limits, Step, pipeline, unsupported};
pub use renderer::Renderer;
pub use request::{Request, Template};
pub use steps::gpg::Gpg;

#[cfg(test)]
mod tests;
