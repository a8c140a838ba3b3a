//! `salt-api` over HTTP, beside a master that says what a recording or a test expects.

mod attacks;
mod cancelled;
mod console;
mod credentials;
mod files;
mod foreign_text;
mod health;
mod limits;
mod replay;
mod sessions;
mod streams;
mod support;
mod v1;
mod websocket;
