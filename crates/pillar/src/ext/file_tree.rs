//! `file_tree`: the files in a directory of the minion and of its node groups become values.

use std::path::{Path, PathBuf};

use render::Request;
use targeting::Glob;
use value::{Map, Value};

use super::ExternalCall;
use crate::merge::{Strategy, merge};

const PARAMETERS: [&str; 8] = [
    "root_dir",
    "follow_dir_links",
    "debug",
    "keep_newline",
    "render_default",
    "renderer_blacklist",
    "renderer_whitelist",
    "template",
];

/// Deeper directories are left out, because links may be circular.
const MAX_DEPTH: usize = 64;

struct Tree<'a> {
    call: &'a ExternalCall<'a>,
    follow: bool,
    keep_newline: KeepNewline,
    /// The renderer and the default pipeline, if files are rendered.
    templates: Option<(render::Renderer, Option<String>)>,
}

enum KeepNewline {
    All(bool),
    Matching(Vec<String>),
}

pub fn load(call: &ExternalCall) -> Result<Map, String> {
    let arguments = call.named(&PARAMETERS)?;
    let Some(root) = arguments.get_str("root_dir").filter(|root| !root.is_empty()) else {
        tracing::error!("file_tree: no root_dir specified");
        return Ok(Map::new());
    };
    let truthy = |name: &str| arguments.get(name).is_some_and(Value::truthy);
    let Some(keep_newline) = KeepNewline::read(arguments.get("keep_newline")) else {
        tracing::error!(
            "file_tree: keep_newline must be either True/False or a list of file globs. Skipping this ext_pillar for \
             root_dir {root}"
        );
        return Ok(Map::new());
    };
    let templates = (arguments.get("template") == Some(&Value::Bool(true))).then(|| renderer(call, &arguments));
    let tree = Tree { call, follow: truthy("follow_dir_links"), keep_newline, templates };
    let mut pillar = Map::new();
    for directory in directories(call, Path::new(root)) {
        pillar = merged(pillar, &tree.root(&directory)?);
    }
    Ok(pillar)
}

fn merged(first: Map, second: &Map) -> Map {
    merge(first, second, Strategy::Recurse, false)
}

/// Returns a renderer with the arguments' lists of allowed renderers in place of the options'.
fn renderer(call: &ExternalCall, arguments: &Map) -> (render::Renderer, Option<String>) {
    let mut ctx = call.ctx.clone();
    // The master's lists are replaced even by empty ones: an administrator may allow other renderers here than for SLS
    // files.
    let mut opts = (*ctx.opts).clone();
    for name in ["renderer_blacklist", "renderer_whitelist"] {
        opts.insert(name, arguments.get(name).cloned().unwrap_or_default());
    }
    ctx.opts = std::sync::Arc::new(opts);
    let default = arguments.get_str("render_default").map(str::to_owned);
    (render::Renderer::new(ctx, std::sync::Arc::new(render::NoFiles)), default)
}

/// Returns the directories to read. A relative one is looked up in each directory of the pillar environment.
fn directories(call: &ExternalCall, root: &Path) -> Vec<PathBuf> {
    if root.is_absolute() {
        return vec![root.to_owned()];
    }
    let Some(env) = call.pillarenv else {
        tracing::error!("file_tree: root_dir is relative but pillarenv is not set");
        return Vec::new();
    };
    let Some(roots) = call.roots.get(env) else {
        tracing::error!("file_tree: root_dir is relative but no pillar_roots are specified  for pillarenv {env}");
        return Vec::new();
    };
    let mut all: Vec<PathBuf> = roots.iter().map(|directory| directory.join(root)).collect();
    all.dedup();
    all
}

impl KeepNewline {
    fn read(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(KeepNewline::All(false)),
            Some(Value::Bool(keep)) => Some(KeepNewline::All(*keep)),
            Some(Value::List(globs)) => Some(KeepNewline::Matching(globs.iter().map(Value::to_string).collect())),
            Some(_) => None,
        }
    }

    fn keeps(&self, path: &str) -> bool {
        match self {
            KeepNewline::All(keep) => *keep,
            KeepNewline::Matching(globs) => globs.iter().any(|glob| Glob::new(glob).matches(path)),
        }
    }
}

impl Tree<'_> {
    fn root(&self, root: &Path) -> Result<Map, String> {
        if !root.is_dir() {
            tracing::error!("file_tree: root_dir {} does not exist or is not a directory", root.display());
            return Ok(Map::new());
        }
        let mut pillar = Map::new();
        for group in names(&root.join("nodegroups")) {
            let Some(definition) = self.call.compiler.nodegroups.get(&group) else { continue };
            if self.call.is_in(definition) {
                let directory = root.join("nodegroups").join(&group);
                pillar = merged(pillar, &self.directory(&directory, ".", 0)?);
            }
        }
        let id = self.call.id;
        // The minion chooses its id, which becomes part of a path here: it must not read the files of other minions.
        if id.contains('/') || matches!(id, "" | "." | "..") {
            return Ok(pillar);
        }
        let host = root.join("hosts").join(id);
        match std::fs::metadata(&host) {
            Err(_) => Ok(pillar),
            Ok(state) if !state.is_dir() => {
                tracing::error!("file_tree: {} exists, but is not a directory", host.display());
                Ok(pillar)
            }
            Ok(_) => Ok(merged(pillar, &self.directory(&host, ".", 0)?)),
        }
    }

    /// Converts a directory to a map. `prefix` is its path below the minion's own directory.
    fn directory(&self, directory: &Path, prefix: &str, depth: usize) -> Result<Map, String> {
        let mut map = Map::new();
        let names = names(directory);
        let (directories, files): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| directory.join(name).is_dir());
        let inner = |name: &str| if prefix == "." { name.to_owned() } else { format!("{prefix}/{name}") };
        for name in directories {
            let full = directory.join(&name);
            // A directory that is not entered still appears, as an empty map.
            let enter = depth < MAX_DEPTH && (self.follow || !full.is_symlink());
            let content = if enter { self.directory(&full, &inner(&name), depth + 1)? } else { Map::new() };
            map.insert(name, content);
        }
        for name in files {
            let full = directory.join(&name);
            if !full.is_file() {
                tracing::error!("file_tree: {}: not a regular file", full.display());
                continue;
            }
            match std::fs::read(&full) {
                // As in Salt, the prefix of the top directory, a dot, is joined to the name.
                Ok(content) => drop(map.insert(name.as_str(), self.file(content, &format!("{prefix}/{name}"), &full)?)),
                Err(error) => tracing::error!("file_tree: Error reading {}: {error}", full.display()),
            }
        }
        Ok(map)
    }

    fn file(&self, mut content: Vec<u8>, path: &str, full: &Path) -> Result<Value, String> {
        if content.last() == Some(&b'\n') && !self.keep_newline.keeps(path) {
            content.pop();
        }
        // Without rendering, the content stays bytes: these may be keys or archives instead of text.
        let Some((renderer, default)) = &self.templates else { return Ok(Value::bytes(content)) };
        let text = String::from_utf8(content).map_err(|_| format!("{} is not valid UTF-8", full.display()))?;
        let request = Request {
            text: &text,
            path: Some(full),
            saltenv: "base",
            default: Some(default.as_deref().unwrap_or("")),
            ..Request::default()
        };
        renderer.render(&request).map_err(|error| format!("{}: {error}", full.display()))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    // `read_dir` returns names in no particular order, but the order of the pillar should not change between runs.
    names.sort();
    names
}
