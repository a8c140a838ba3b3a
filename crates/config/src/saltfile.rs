//! The `Saltfile` with default flags per program, and the client's own file, `~/.saltrc`.

use std::path::{Path, PathBuf};

use value::Map;

use crate::error::Error;
use crate::read::read_plain;
use crate::table::expand_home;

/// Default flags from a `Saltfile`.
#[derive(Clone, Debug, Default)]
pub struct Saltfile {
    /// The file, if there was one.
    pub path: Option<PathBuf>,
    programs: Map,
}

impl Saltfile {
    /// Finds and reads the file: that of the flag, that of `SALT_SALTFILE`, the one in the working directory,
    /// `~/.salt/Saltfile`. A file that was named must exist.
    pub fn load(flag: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let named = flag.map(Path::to_owned).or_else(|| variable("SALT_SALTFILE").map(PathBuf::from));
        let path = named.or_else(|| {
            let here = std::env::current_dir().ok().map(|directory| directory.join("Saltfile"));
            // Salt looks in the working directory first.
            let home = Some(PathBuf::from(expand_home("~/.salt/Saltfile")));
            [here, home].into_iter().flatten().find(|path| path.is_file())
        });
        match path {
            Some(path) => Ok(Saltfile { programs: read_plain(&path)?, path: Some(path) }),
            None => Ok(Saltfile::default()),
        }
    }

    /// Returns the flags of a program by their option names (`config_dir`, `log_level`…).
    pub fn flags(&self, program: &str) -> Option<&Map> {
        self.programs.get(program).and_then(value::Value::as_map)
    }
}

/// Reads the client's own options: the file of `SALT_CLIENT_CONFIG`, or `~/.saltrc`. A missing file sets nothing.
pub fn client_file(variable: impl Fn(&str) -> Option<String>) -> Result<Map, Error> {
    let named = variable("SALT_CLIENT_CONFIG").map(PathBuf::from).filter(|path| path.is_file());
    let path = named.unwrap_or_else(|| PathBuf::from(expand_home("~/.saltrc")));
    if path.is_file() { read_plain(&path) } else { Ok(Map::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_by_program() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Saltfile");
        std::fs::write(&path, "salt-call:\n  log_level: debug\n  config_dir: etc\n").unwrap();
        let file = Saltfile::load(Some(&path), |_| None).unwrap();
        assert_eq!(file.flags("salt-call").unwrap().get_str("log_level"), Some("debug"));
        assert!(file.flags("salt").is_none());
        assert!(Saltfile::load(Some(&dir.path().join("none")), |_| None).is_err());
    }
}
