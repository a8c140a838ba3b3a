//! The files that remain on the disks of master and minion, and what a local user finds there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::scene::{Scene, VICTIM};

/// An archive whose symbolic link leads out of the directory it is extracted to.
pub fn link_in_an_archive(scene: &mut Scene<'_>) -> Result<String> {
    let outside = scene.sandbox.folder("outside")?;
    let archive = scene.sandbox.root().join("hostile.zip");
    fs::write(&archive, hostile_zip(&outside)).context("failed to write an archive")?;
    let archive = archive.display().to_string();
    for function in ["archive.unzip", "archive.cmd_unzip"] {
        let target = scene.sandbox.folder(function)?.display().to_string();
        let _ = scene.master.ask(VICTIM, &[function, &archive, &target])?;
        ensure!(!outside.join("trophy").exists(), "{function} wrote outside of its directory");
    }
    let target = scene.sandbox.folder("extracted")?.display().to_string();
    let source = format!("source={archive}");
    let state =
        scene.master.ask(VICTIM, &["state.single", "archive.extracted", &target, &source, "enforce_toplevel=False"]);
    ensure!(!outside.join("trophy").exists(), "archive.extracted wrote outside of its directory: {state:?}");
    link_in_a_tar(scene, &outside)?;
    Ok("five ways to extract stay inside".to_owned())
}

fn link_in_a_tar(scene: &Scene<'_>, outside: &Path) -> Result<()> {
    let archive = scene.sandbox.root().join("hostile.tar");
    fs::write(&archive, hostile_tar(outside)).context("failed to write an archive")?;
    let archive = archive.display().to_string();
    let target = scene.sandbox.folder("archive.tar")?;
    let dest = format!("dest={}", target.display());
    // The program tar fails at the link, after what stands before it.
    let answer = scene.master.ask(VICTIM, &["archive.tar", "xf", &archive, &dest]);
    ensure!(target.join("honest").exists(), "archive.tar did not extract the honest file: {answer:?}");
    ensure!(!outside.join("trophy").exists(), "archive.tar wrote outside of its directory");
    let target = scene.sandbox.folder("extracted-tar")?.display().to_string();
    let source = format!("source={archive}");
    let state =
        scene.master.ask(VICTIM, &["state.single", "archive.extracted", &target, &source, "enforce_toplevel=False"]);
    ensure!(!outside.join("trophy").exists(), "archive.extracted wrote outside of its directory: {state:?}");
    Ok(())
}

/// A tar archive with a file, a link named `way` to a folder, and a file `way/trophy`.
fn hostile_tar(outside: &Path) -> Vec<u8> {
    let link = outside.display().to_string();
    let mut archive = Vec::new();
    for (name, kind, leads_to) in [("honest", b'0', ""), ("way", b'2', link.as_str()), ("way/trophy", b'0', "")] {
        let content: &[u8] = if kind == b'0' { b"x" } else { b"" };
        let mut header = [0_u8; 512];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name.as_bytes());
        put(100, b"0000644\x000000000\x000000000\0");
        put(124, format!("{:011o}\0{:011o}\0        ", content.len(), 0).as_bytes());
        put(156, &[kind]);
        put(157, leads_to.as_bytes());
        put(257, b"ustar\x0000");
        // The sum counts its own field as spaces.
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// A zip archive with a link named `way` to a folder, and a file `way/trophy`; neither is compressed.
fn hostile_zip(outside: &Path) -> Vec<u8> {
    let link = outside.display().to_string();
    let entries = [("way", link.as_bytes(), 0o120_777_u32), ("way/trophy", b"x".as_slice(), 0o100_644)];
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content, mode) in entries {
        let offset = u32::try_from(file.len()).unwrap_or_default();
        let (length, sum) = (u32::try_from(content.len()).unwrap_or_default(), crypto::crc32(content));
        let name_length = u16::try_from(name.len()).unwrap_or_default();
        let mut common = Vec::new();
        for number in [20_u16, 0, 0, 0, 33] {
            common.extend(number.to_le_bytes());
        }
        for number in [sum, length, length] {
            common.extend(number.to_le_bytes());
        }
        common.extend(name_length.to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(content);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (begin, length) = (file.len() as u32, directory.len() as u32);
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
    file.extend(length.to_le_bytes());
    file.extend(begin.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// Every file and directory that master and minion wrote, as another local user finds it.
pub fn readable_files(scene: &mut Scene<'_>) -> Result<String> {
    let secret = "a password in an argument";
    let _ = scene.master.ask(VICTIM, &["test.echo", secret])?;
    let roots =
        [scene.master.cache(), scene.master.pki(), scene.victim.root().join("cache"), scene.victim.root().join("pki")];
    let mut seen = 0;
    for root in roots {
        for path in everything_below(&root) {
            let mode =
                fs::symlink_metadata(&path).with_context(|| path.display().to_string())?.permissions().mode() & 0o777;
            seen += 1;
            let public = path.extension().is_some_and(|kind| kind == "pub") || is_key_of_minion(&path);
            let link = fs::symlink_metadata(&path)?.file_type().is_symlink();
            ensure!(mode & 0o007 == 0 || public || link, "{} has the mode {mode:o}", path.display());
        }
    }
    Ok(format!("{seen} paths, none open to others but public keys"))
}

/// Returns whether a file is in one of the folders with public keys of minions.
fn is_key_of_minion(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    folder.starts_with("minions")
}

fn everything_below(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// A core file of the master would hold its keys.
pub fn core_files(scene: &mut Scene<'_>) -> Result<String> {
    // A minion keeps the limit for its child processes; separate tests check that it cannot be dumped.
    let pid = scene.master.daemon()?.pid();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).context("failed to read limits")?;
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).context("no limit of core files")?;
    ensure!(core.split_whitespace().nth(4) == Some("0"), "the master may write core files: {core}");
    Ok("the master writes none".to_owned())
}
