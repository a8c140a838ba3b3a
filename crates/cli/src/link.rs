//! `saltern link DIR`: links to this file with the programs' names.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::args::Program;

/// Makes the links and prints them.
///
/// Links to other programs are replaced only with `force`: packages of Salt install links, and without them there is no
/// way back.
pub fn link(directory: &Path, force: bool) -> ExitCode {
    let done = std::env::current_exe()
        .context("failed to find the file of this program")
        .and_then(|program| link_names(&program, directory, force));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            rt::complain!("saltern link: {}", value::error::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn link_names(program: &Path, directory: &Path, force: bool) -> Result<()> {
    if !directory.is_dir() {
        bail!("{} is not a directory", directory.display());
    }
    let links = Program::ALL.map(|program| directory.join(program.name()));
    // All are checked first, so that a refusal leaves everything as it was.
    links.iter().try_for_each(|link| may_replace(link, program, force))?;
    for link in links {
        if link.is_symlink() {
            std::fs::remove_file(&link).with_context(|| format!("failed to replace {}", link.display()))?;
        }
        std::os::unix::fs::symlink(program, &link).with_context(|| format!("failed to make {}", link.display()))?;
        crate::terminal::print(&format!("{} -> {}\n", link.display(), program.display()));
    }
    Ok(())
}

fn may_replace(link: &Path, program: &Path, force: bool) -> Result<()> {
    let Ok(old) = std::fs::symlink_metadata(link) else { return Ok(()) };
    // A real program stands there, perhaps that of a packaged Salt.
    if !old.is_symlink() {
        bail!("{} exists and is not a link; it is left alone", link.display());
    }
    let target = std::fs::read_link(link).with_context(|| format!("failed to read {}", link.display()))?;
    if !force && target != program && target.file_name() != Some("saltern".as_ref()) {
        bail!(
            "{} is a link to {}; nothing is changed. Note where the links lead, and use --force to replace them",
            link.display(),
            target.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_and_replaced_but_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        link_names(Path::new("/opt/old/saltern"), directory.path(), false).unwrap();
        link_names(Path::new("/opt/saltern"), directory.path(), false).unwrap();
        for program in Program::ALL {
            assert_eq!(std::fs::read_link(directory.path().join(program.name())).unwrap(), Path::new("/opt/saltern"));
        }
        std::fs::remove_file(directory.path().join("salt-run")).unwrap();
        std::fs::write(directory.path().join("salt-run"), "").unwrap();
        let error = link_names(Path::new("/opt/saltern"), directory.path(), true).unwrap_err();
        assert!(error.to_string().ends_with("salt-run exists and is not a link; it is left alone"), "{error}");
    }

    #[test]
    fn links_to_other_programs_are_replaced_by_force_only() {
        let directory = tempfile::tempdir().unwrap();
        let (packaged, link) = (Path::new("/opt/saltstack/salt/salt-minion"), directory.path().join("salt-minion"));
        std::os::unix::fs::symlink(packaged, &link).unwrap();
        let error = link_names(Path::new("/opt/saltern"), directory.path(), false).unwrap_err();
        assert!(
            error.to_string().contains("is a link to /opt/saltstack/salt/salt-minion; nothing is changed"),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "none of the others is made");
        assert_eq!(std::fs::read_link(&link).unwrap(), packaged);
        link_names(Path::new("/opt/saltern"), directory.path(), true).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/opt/saltern"));
    }
}
