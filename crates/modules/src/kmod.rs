//! `kmod` — modules of the kernel.

use std::collections::BTreeSet;
use std::path::Path;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::subprocess;
use crate::util;

/// Registers the functions of `kmod`.
pub static MODULE: Module = Module::new(
    "kmod",
    "Functions that look at modules of the kernel, load and remove them.",
    &[&AVAILABLE, &CHECK_AVAILABLE, &IS_LOADED, &LOAD, &LSMOD, &MOD_LIST, &REMOVE],
);

/// Returns the file of modules to load at boot.
fn settings(ctx: &Context) -> &'static str {
    // systemd reads /etc/modules only on Debian, but this directory everywhere.
    if ctx.grains.contains_key("systemd") { "/etc/modules-load.d/salt_managed.conf" } else { "/etc/modules" }
}

fn first_word(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

/// The modules named in a file.
fn kept(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(first_word).map(str::to_owned).collect()
}

/// Reads lines such as "ext4 745472 1 - Live 0x0000000000000000" of `/proc/modules`.
fn loaded_modules(text: &str) -> Vec<Map> {
    let module = |line: &str| {
        let [name, size, count, users, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        // The kernel ends the list with a comma and prints a dash for an empty one.
        let users: Vec<&str> = users.split(',').filter(|user| !["", "-"].contains(user)).collect();
        Some(map! { "size" => size, "module" => name, "depcount" => count, "deps" => users })
    };
    text.lines().filter_map(module).collect()
}

fn loaded(ctx: &Context) -> Result<BTreeSet<String>> {
    let text = ctx.blocking(|| std::fs::read_to_string("/proc/modules").unwrap_or_default());
    Ok(loaded_modules(&text).iter().filter_map(|module| module.get_str("module")).map(str::to_owned).collect())
}

/// Finds all modules below a directory, and those built into the kernel.
fn found_below(folder: &Path) -> Vec<String> {
    let built_in = std::fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
    // Files may be packed: `.ko.xz` and `.ko.zst` end with more than `.ko`.
    let name = |file: &str| Some(file.rsplit('/').next()?.split_once(".ko")?.0.to_owned());
    let mut found: Vec<String> = built_in.lines().filter_map(name).collect();
    files_below(folder, &mut found);
    found.sort();
    found
}

fn files_below(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(&entry.path(), found);
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            // modprobe takes both signs for the same, and /proc/modules always shows the underscore.
            found.push(name.replace('-', "_"));
        }
    }
}

fn all(ctx: &Context) -> Result<Vec<String>> {
    Ok(ctx.blocking(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        found_below(&Path::new("/lib/modules").join(release.trim()))
    }))
}

/// Returns the available modules.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.available
#[function]
fn available(ctx: &Context) -> Result<Value> {
    Ok(all(ctx)?.into())
}

/// Returns whether a module could be loaded.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.check_available kvm
#[function]
fn check_available(ctx: &Context, r#mod: String) -> Result<bool> {
    Ok(all(ctx)?.contains(&r#mod))
}

/// Returns whether a module is loaded.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.is_loaded kvm
#[function]
fn is_loaded(ctx: &Context, r#mod: String) -> Result<bool> {
    Ok(loaded(ctx)?.contains(&r#mod))
}

/// Returns the loaded modules with their sizes and users.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.lsmod
#[function]
fn lsmod(ctx: &Context) -> Result<Value> {
    let text = ctx.blocking(|| std::fs::read_to_string("/proc/modules").unwrap_or_default());
    Ok(loaded_modules(&text).into())
}

/// Returns the names of the loaded modules, or of those loaded at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.mod_list
///     salt '*' kmod.mod_list only_persist=True
#[function]
fn mod_list(ctx: &Context, #[default(false)] only_persist: bool) -> Result<Value> {
    let names = match only_persist {
        true => kept(&std::fs::read_to_string(settings(ctx)).unwrap_or_default()),
        false => loaded(ctx)?,
    };
    Ok(names.into_iter().collect())
}

fn program(ctx: &Context, name: &str, module: &str) -> Result<subprocess::Outcome> {
    // The name would become an option of modprobe, which can run commands.
    if module.starts_with('-') {
        return Err(Error::invocation(format!("'{module}' is not the name of a module")));
    }
    let missing = || Error::execution(format!("Command '{name}' cannot be found"));
    let path = util::which(name).ok_or_else(missing)?;
    // Parameters may follow the name, such as `bonding mode=4`.
    let words: Vec<&str> = module.split_whitespace().collect();
    let path = path.to_string_lossy();
    subprocess::quiet(ctx, &[&[&*path], &words[..]].concat())
}

/// Loads a module; returns the modules that were loaded, or an error message. With ``persist`` also at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.load kvm
#[function]
fn load(ctx: &Context, r#mod: String, #[default(false)] persist: bool) -> Result<Value> {
    let before = loaded(ctx)?;
    let said = program(ctx, "modprobe", &r#mod)?;
    if said.retcode != Some(0) {
        return Ok(format!("Error loading module {}: {}", r#mod, said.stderr.trim_end()).into());
    }
    // Compared before and after: modprobe loads what the module needs as well, and Salt lists it all.
    let mut new: BTreeSet<String> = loaded(ctx)?.difference(&before).cloned().collect();
    if persist {
        new.extend(keep(ctx, &r#mod)?);
    }
    Ok(new.into_iter().collect())
}

fn keep(ctx: &Context, module: &str) -> Result<Option<String>> {
    let path = settings(ctx);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let Some(name) = first_word(module).filter(|name| !kept(&text).contains(*name)) else { return Ok(None) };
    // Salt keeps only names it finds among the files, so that a typing error does not end up in the settings.
    if !all(ctx)?.iter().any(|known| known == name) {
        return Ok(None);
    }
    write(path, &with(&text, module))?;
    Ok(Some(name.to_owned()))
}

fn write(path: &str, text: &str) -> Result<()> {
    util::replace_file(Path::new(path), text.as_bytes(), 0o644).map_err(|error| Error::io("write", path, &error))
}

/// Uncomments a module, or adds it.
fn with(text: &str, module: &str) -> String {
    let is_off = |line: &str| line.strip_prefix('#').is_some_and(|line| line.trim() == module);
    let mut lines: Vec<&str> = text.lines().map(|line| if is_off(line) { module } else { line }).collect();
    if !lines.contains(&module) {
        lines.push(module);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Removes a module; returns the modules that were removed, or an error message. With ``persist`` also at boot, leaving
/// a comment if ``comment``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' kmod.remove kvm
#[function]
fn remove(
    ctx: &Context,
    r#mod: String,
    #[default(false)] persist: bool,
    #[default(true)] comment: bool,
) -> Result<Value> {
    let before = loaded(ctx)?;
    let said = program(ctx, "rmmod", &r#mod)?;
    if said.retcode != Some(0) {
        return Ok(format!("Error removing module {}: {}", r#mod, said.stderr.trim_end()).into());
    }
    let after = loaded(ctx)?;
    let mut gone: BTreeSet<String> = before.difference(&after).cloned().collect();
    let path = settings(ctx);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if let Some(name) = first_word(&r#mod).filter(|name| persist && kept(&text).contains(*name)) {
        write(path, &without(&text, name, comment))?;
        gone.insert(name.to_owned());
    }
    Ok(gone.into_iter().collect())
}

fn without(text: &str, module: &str, comment: bool) -> String {
    let is_on = |line: &&str| !line.trim_start().starts_with('#') && first_word(line) == Some(module);
    let line = |line: &str| match is_on(&line) {
        true if comment => format!("#{line}\n"),
        true => String::new(),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn modules_are_listed() {
        let text = "nf_nat 49152 2 xt_MASQUERADE,nft_chain_nat, Live 0x0\nloop 32768 0 - Live 0x0\n";
        let found = loaded_modules(text);
        assert_eq!(found[0].get("deps"), Some(&list!["xt_MASQUERADE", "nft_chain_nat"]));
        assert_eq!(found[1].get("deps"), Some(&list![]));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kernel")).unwrap();
        std::fs::write(folder.path().join("modules.builtin"), "kernel/fs/ext4/ext4.ko\n").unwrap();
        std::fs::write(folder.path().join("kernel/snd-pcm.ko.xz"), "").unwrap();
        // The kernel takes `-` and `_` for the same and lists modules with the latter.
        assert_eq!(found_below(folder.path()), ["ext4", "snd_pcm"]);
    }

    #[test]
    fn modules_are_kept_and_forgotten() {
        // A line that was commented out is activated again, rather than added a second time.
        assert_eq!(with("# loop\nx\n", "loop"), "loop\nx\n");
        assert_eq!(with("x\n", "loop"), "x\nloop\n");
        assert_eq!(without("x\nloop max=1\n", "loop", true), "x\n#loop max=1\n");
        assert_eq!(without("x\nloop\n", "loop", false), "x\n");
        assert_eq!(kept("# a\n b x\n\n"), BTreeSet::from(["b".to_owned()]));
    }
}
