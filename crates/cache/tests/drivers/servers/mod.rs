//! Servers for one test each.

pub mod consul;
pub mod etcd;
pub mod http;
pub mod redis;

use std::process::{Child, Command};

/// A process that ends with the test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts a program; `None` if it is not installed.
pub fn started(command: &mut Command) -> Option<Process> {
    match command.spawn() {
        Ok(process) => Some(Process(process)),
        Err(error) => {
            let name = command.get_program().display();
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{name} cannot be started: {error}");
            println!("skipped: {name} cannot be started: {error}");
            None
        }
    }
}
