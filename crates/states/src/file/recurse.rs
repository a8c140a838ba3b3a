//! `file.recurse`.

use std::collections::BTreeSet;
use std::path::Path;

use exec::{Context, KwArgs, Result, function};
use modules::file::paths::expand_user;
use modules::file::perms::normalize_mode;
use modules::file::tree;
use value::{Map, Value, map};

use super::clean;
use super::common::{apply, check_user, start, user_or_owner};
use super::directory::DIRECTORY;
use super::managed::MANAGED;
use super::recurse_plan::{self, Plan};
use super::symlink::{SYMLINK, remove};
use crate::Ret;

/// Makes a directory hold the files of a directory of the file server.
#[function]
pub fn recurse(
    ctx: &Context,
    name: String,
    source: Value,
    #[default(true)] keep_source: bool,
    #[default(false)] clean: bool,
    #[default(Value::Null)] require: Value,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] dir_mode: Value,
    #[default(Value::Null)] file_mode: Value,
    #[default(Value::Null)] sym_mode: Value,
    #[default(Value::Null)] template: Value,
    #[default(Value::Null)] context: Value,
    #[default(true)] replace: bool,
    #[default(Value::Null)] defaults: Value,
    #[default(false)] include_empty: bool,
    #[default("")] backup: Value,
    #[default(Value::Null)] include_pat: Value,
    #[default(Value::Null)] exclude_pat: Value,
    maxdepth: Option<i64>,
    #[default(false)] keep_symlinks: bool,
    #[default(false)] force_symlinks: bool,
    #[default(Value::Null)] win_owner: Value,
    #[default(Value::Null)] win_perms: Value,
    #[default(Value::Null)] win_deny_perms: Value,
    #[default(true)] win_inheritance: bool,
    #[default(false)] merge: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = (win_owner, win_perms, win_deny_perms, win_inheritance);
    let name = expand_user(&name);
    let user = user_or_owner(user, &kwargs);
    let ret = start(&name);
    // One mode for files and directories would make either files executable or directories
    // unreadable.
    if kwargs.0.contains_key("mode") {
        return Ok(ret.fail("'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'."));
    }
    if let Some(wrong) = check_user(ctx, &user, &group) {
        return Ok(ret.fail(wrong));
    }
    if !name.starts_with('/') {
        return Ok(ret.fail(format!("Specified file {name} is not an absolute path")));
    }
    let sources = match recurse_plan::sources(ctx, &source)? {
        Ok(sources) => sources,
        Err(wrong) => return Ok(ret.fail(format!("Recurse failed: {wrong}"))),
    };
    let dir_mode = normalize_mode(&dir_mode).map_or(Value::Null, Value::from);
    let directory =
        map! { "user" => user.clone(), "group" => group.clone(), "dir_mode" => dir_mode.clone(), "makedirs" => true };
    if let Some(wrong) = make_target(ctx, &name, [&user, &group, &dir_mode])? {
        return Ok(ret.fail(wrong));
    }
    let keep_mode = file_mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("keep"));
    let file_mode = if keep_mode { "keep".into() } else { normalize_mode(&file_mode).map_or(Value::Null, Value::from) };
    let mut file = map! {
        "keep_source" => keep_source, "user" => user.clone(), "group" => group.clone(), "mode" => file_mode,
        "template" => template, "makedirs" => true, "replace" => replace, "context" => context, "defaults" => defaults,
        "backup" => backup,
    };
    // Everything else goes to `file.managed`. These four would contradict what this state sets
    // itself.
    let more =
        kwargs.0.into_iter().filter(|(key, _)| !matches!(key.as_str(), Some("env" | "mode" | "makedirs" | "owner")));
    file.update(more.collect());
    let plan = Plan {
        name: name.clone(),
        sources,
        keep_symlinks,
        include: include_pat,
        exclude: exclude_pat.clone(),
        depth: maxdepth,
        include_empty,
        merge,
    };
    let link = map! {
        "makedirs" => true, "force" => force_symlinks, "user" => user, "group" => group, "mode" => sym_mode,
    };
    // The whole plan is made before the first change: a failing file server must not leave half a
    // tree.
    let made = plan.make(ctx)?;
    let mut work = Work { ctx, ret, said: Vec::new(), clean, replace };
    work.apply(&made, &directory, &file, &link)?;
    let mut keep: Vec<String> = made.keep.into_iter().collect();
    if clean {
        keep.extend(clean::kept_by_others(ctx, &name, &require)?);
        work.clean(&name, &keep, &exclude_pat)?;
    }
    Ok(work.finish(&name))
}

/// Creates the target directory with this user, group and mode. Returns why there can be none.
fn make_target(ctx: &Context, name: &str, [user, group, mode]: [&Value; 3]) -> Result<Option<String>> {
    if Path::new(name).is_dir() {
        return Ok(None);
    }
    if Path::new(name).exists() {
        return Ok(Some(format!("The path {name} exists and is not a directory")));
    }
    // Made here, because an empty source yields no file whose parents would be created.
    if !ctx.is_test() {
        tree::makedirs_perms(ctx, name.to_owned(), user.clone(), group.clone(), mode.clone())?;
    }
    Ok(None)
}

struct Work<'a> {
    ctx: &'a Context,
    ret: Ret,
    /// The comments by path.
    said: Vec<(String, Vec<String>)>,
    clean: bool,
    replace: bool,
}

impl Work<'_> {
    /// Makes directories, files and links, with the arguments of their states.
    fn apply(&mut self, made: &recurse_plan::Made, directory: &Map, file: &Map, link: &Map) -> Result<()> {
        // Directories come before files, so that they get their own mode and not the one `makedirs`
        // would choose.
        for path in &made.directories {
            self.directory(path, directory.clone())?;
        }
        for (path, source) in &made.files {
            self.file(path, source, file.clone())?;
        }
        // Links come last: their targets are often files of this very state.
        self.links(made, link)
    }

    fn say(&mut self, path: &str, lines: Vec<String>) {
        match self.said.iter_mut().find(|(known, _)| known == path) {
            Some((_, said)) => said.extend(lines),
            None => self.said.push((path.to_owned(), lines)),
        }
    }

    fn merge(&mut self, path: &str, part: Ret) {
        // A failure always wins. "Would change" replaces success, but never a failure.
        if part.result == Some(false) || self.ret.result == Some(true) {
            self.ret.result = part.result;
        }
        if part.result != Some(true) && part.comment.truthy() {
            self.say(path, vec![part.comment.to_string()]);
        }
        if !part.changes.is_empty() {
            self.ret.changes.insert(path, part.changes);
        }
    }

    /// Removes paths that are in the way, or reports that they would be removed; returns whether that is all.
    fn make_way(&mut self, path: &str, would: String, done: &str) -> Result<bool> {
        let part = start(path);
        if self.ctx.is_test() {
            self.merge(path, part.would(would));
            return Ok(true);
        }
        remove(self.ctx, path)?;
        self.merge(path, part.changed(map! { "diff" => done }));
        Ok(false)
    }

    fn directory(&mut self, path: &str, mut args: Map) -> Result<()> {
        // A file server may list such names. Applied, they would manage the parent of the target.
        if path.ends_with("/..") {
            return Ok(());
        }
        // Only `clean` allows a file to give way to a directory; without it `file.directory` fails
        // with its own text.
        if self.clean && Path::new(path).exists() && !Path::new(path).is_dir() {
            let would = format!("Replacing {path} with a directory");
            if self.make_way(path, would, "Replaced file with a directory")? {
                return Ok(());
            }
        }
        args.insert("name", path);
        let part = apply(self.ctx, &DIRECTORY, args)?;
        self.merge(path, part);
        Ok(())
    }

    fn file(&mut self, path: &str, source: &str, mut args: Map) -> Result<()> {
        if self.clean && self.replace && Path::new(path).is_dir() {
            let would = format!("Replacing directory {path} with a file");
            if self.make_way(path, would, "Replaced directory with a new file")? {
                return Ok(());
            }
        }
        args.insert("name", path);
        args.insert("source", source);
        let part = apply(self.ctx, &MANAGED, args)?;
        self.merge(path, part);
        Ok(())
    }

    /// Makes the links, beginning with those that are targets of others.
    fn links(&mut self, made: &recurse_plan::Made, args: &Map) -> Result<()> {
        let mut open: BTreeSet<&String> = made.links.keys().collect();
        while !open.is_empty() {
            let ready: Vec<&String> =
                open.iter().copied().filter(|link| !open.contains(&made.links[*link].1)).collect();
            // Links that lead in a circle are made in their order.
            let ready = if ready.is_empty() { open.iter().copied().collect() } else { ready };
            for link in ready {
                open.remove(link);
                let mut args = args.clone();
                args.insert("name", link.as_str());
                args.insert("target", made.links[link].0.as_str());
                let part = apply(self.ctx, &SYMLINK, args)?;
                self.merge(link, part);
            }
        }
        Ok(())
    }

    fn clean(&mut self, name: &str, keep: &[String], exclude: &Value) -> Result<()> {
        let removed = clean::clean(self.ctx, name, keep, exclude)?;
        if removed.is_empty() {
            return Ok(());
        }
        if self.ctx.is_test() {
            if self.ret.result == Some(true) {
                self.ret.result = None;
            }
            // Test mode lists removals in the comment and not among the changes, as in Salt.
            self.say("removed", removed);
        } else {
            self.ret.changes.insert("removed", removed);
        }
        Ok(())
    }

    fn finish(self, name: &str) -> Ret {
        let parts = self.said.iter().map(|(path, lines)| format!("\n#### {path} ####\n{}", lines.join("\n")));
        let mut comment = parts.collect::<Vec<_>>().join("\n").trim().to_owned();
        // Successful files stay silent, so an empty comment means that all went well.
        if comment.is_empty() {
            comment = format!("Recursively updated {name}");
        }
        if self.ret.changes.is_empty() && self.ret.result == Some(true) {
            comment = format!("The directory {name} is in the correct state");
        }
        Ret { comment: comment.into(), ..self.ret }
    }
}
