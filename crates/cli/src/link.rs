//! `saltern link DIR`: links to this file with the programs' names.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::args::Program;

/// Makes the links and prints them.
pub fn link(directory: &Path) -> ExitCode {
    let done = std::env::current_exe()
        .context("failed to find the file of this program")
        .and_then(|program| link_names(&program, directory));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saltern link: {}", value::error::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn link_names(program: &Path, directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        bail!("{} is no directory", directory.display());
    }
    for name in Program::ALL.map(Program::name) {
        let link = directory.join(name);
        match std::fs::symlink_metadata(&link) {
            Ok(old) if old.is_symlink() => {
                std::fs::remove_file(&link).with_context(|| format!("failed to replace {}", link.display()))?;
            }
            // A real program stands there, perhaps that of a packaged Salt.
            Ok(_) => bail!("{} exists and is no link; it is left alone", link.display()),
            Err(_) => {}
        }
        std::os::unix::fs::symlink(program, &link).with_context(|| format!("failed to make {}", link.display()))?;
        crate::terminal::print(&format!("{} -> {}\n", link.display(), program.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_and_replaced_but_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        link_names(Path::new("/opt/old"), directory.path()).unwrap();
        link_names(Path::new("/opt/saltern"), directory.path()).unwrap();
        for program in Program::ALL {
            assert_eq!(std::fs::read_link(directory.path().join(program.name())).unwrap(), Path::new("/opt/saltern"));
        }
        std::fs::remove_file(directory.path().join("salt-run")).unwrap();
        std::fs::write(directory.path().join("salt-run"), "").unwrap();
        let error = link_names(Path::new("/opt/saltern"), directory.path()).unwrap_err();
        assert!(error.to_string().ends_with("salt-run exists and is no link; it is left alone"), "{error}");
    }
}
