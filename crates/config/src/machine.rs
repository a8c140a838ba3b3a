//! The facts of the machine that the search for an id uses.

use std::path::Path;

/// The machine's names as the search for an id needs them; a trait, so that tests need no machine.
pub trait Machine {
    /// The host name.
    fn hostname(&self) -> String;
    /// The fully qualified name the resolver knows for a host name, or the host name.
    fn fqdn(&self, hostname: &str) -> String;
    /// The text of a file, if it can be read.
    fn file(&self, path: &Path) -> Option<String>;
    /// The IPv4 addresses of the interfaces, without loopback.
    fn addresses(&self) -> Vec<String>;
    /// Writes a text into a file, and creates its directory.
    fn keep(&self, path: &Path, text: &str) -> std::io::Result<()>;
}
