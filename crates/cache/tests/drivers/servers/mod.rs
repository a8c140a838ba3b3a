//! Servers for one test each.

pub mod consul;
pub mod etcd;
pub mod http;
pub mod mysql;
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
    let child = command.spawn();
    is_there(&command.get_program().to_string_lossy(), child).map(Process)
}

/// Returns a process that was started; `None` if there is no such program.
pub fn is_there(name: &str, child: std::io::Result<Child>) -> Option<Child> {
    child
        .inspect_err(|error| {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{name} cannot be started: {error}");
            println!("skipped: {name} cannot be started: {error}");
        })
        .ok()
}
