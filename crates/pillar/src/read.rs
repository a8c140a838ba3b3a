//! Reads and renders one SLS file.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use config::Roots;
use render::{Error, Limits, Renderer, Request};
use value::{Map, Value};

use crate::Compiler;

/// Cached files, with the file status by which a change is noticed.
#[derive(Default)]
pub(crate) struct FileCache(Mutex<HashMap<PathBuf, (Stamp, Cached)>>);

pub(crate) type Content = Arc<Result<Value, Error>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    len: u64,
}

/// The cached form of a file.
#[derive(Clone)]
enum Cached {
    /// Its text, which is rendered for each minion.
    Text(Arc<str>),
    /// Its data, which is the same for every minion.
    Data(Content),
}

/// Reads files for one compilation.
pub(crate) struct Reader<'a> {
    compiler: &'a Compiler,
    context: Box<dyn Fn() -> exec::Context + 'a>,
    roots: Roots,
    /// Created when the first template needs it.
    renderer: OnceCell<Renderer>,
}

/// A file to read.
#[derive(Clone, Copy)]
pub(crate) struct SlsFile<'a> {
    pub path: &'a Path,
    /// The name of the SLS; empty for a top file.
    pub sls: &'a str,
    pub env: &'a str,
    /// Variables that the including file passes to the template.
    pub defaults: Option<&'a Map>,
}

impl<'a> Reader<'a> {
    pub fn new(compiler: &'a Compiler, roots: Roots, context: impl Fn() -> exec::Context + 'a) -> Self {
        Reader { compiler, context: Box::new(context), roots, renderer: OnceCell::new() }
    }

    /// Returns the data of a file.
    pub fn read(&self, wanted: SlsFile) -> Content {
        let kept = match self.compiler.known.get(wanted.path, || self.read_file(wanted)) {
            Ok(kept) => kept,
            Err(error) => return Arc::new(Err(error)),
        };
        match kept {
            Cached::Data(content) => content,
            Cached::Text(text) => Arc::new(self.render(&text, wanted)),
        }
    }

    /// Reads a file. One that is the same for every minion is rendered at once.
    fn read_file(&self, wanted: SlsFile) -> Result<Cached, Error> {
        let bytes = std::fs::read(wanted.path).map_err(|error| failed(wanted.path, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::new(format!("{} is not valid UTF-8 at byte {at}", wanted.path.display()))
        })?;
        if self.compiler.is_static(&text) {
            return Ok(Cached::Data(Arc::new(self.render(&text, wanted))));
        }
        Ok(Cached::Text(text.into()))
    }

    fn render(&self, text: &str, wanted: SlsFile) -> Result<Value, Error> {
        let names = wanted.defaults.filter(|names| !names.is_empty());
        self.renderer().render(&Request {
            text,
            path: Some(wanted.path),
            sls: wanted.sls,
            saltenv: wanted.env,
            default: Some(&self.compiler.renderer),
            context: names,
            ..Request::default()
        })
    }

    /// Returns the renderer. Its templates see the minion's grains, and the pillar from before the files.
    pub fn renderer(&self) -> &Renderer {
        self.renderer.get_or_init(|| {
            let roots = self.roots.clone();
            let loader = render::Roots::new(move |env| roots.get(env).unwrap_or_default().to_vec());
            Renderer::new((self.context)(), Arc::new(loader))
        })
    }
}

impl FileCache {
    fn get(&self, path: &Path, read: impl FnOnce() -> Result<Cached, Error>) -> Result<Cached, Error> {
        // Before the content is read: a file that changes in between has an outdated stamp and is read again next time.
        let state = std::fs::metadata(path).map_err(|error| failed(path, &error))?;
        let stamp = Stamp { modified: state.modified().ok(), inode: state.ino(), len: state.len() };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kept)) = lock().get(path).filter(|(known, _)| *known == stamp) {
            return Ok(kept.clone());
        }
        // Without the lock, which would make all minions wait for one file. Two requests may thus read the same file;
        // either result is right.
        let kept = read()?;
        lock().insert(path.to_owned(), (stamp, kept.clone()));
        Ok(kept)
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("failed to read {}: {error}", path.display()))
}

/// Returns whether a text renders to the same for every minion: only data formats, and no delimiters of a template. A line
/// `#jinja2:` may define delimiters of the file's own.
pub(crate) fn is_static(text: &str, default: &str, limits: &Limits) -> bool {
    let first = text.lines().next().unwrap_or_default();
    // A line that names an invalid renderer fails in the same way for every minion.
    let Ok(steps) = render::pipeline(first, default, limits) else { return true };
    let marked = ["{{", "{%", "{#", "#jinja2:"].iter().any(|mark| text.contains(mark));
    steps.iter().all(|step| match step.name.as_str() {
        "jinja" => !marked,
        "yaml" | "json" => true,
        // Other renderers may run code, or decrypt: plaintext of secrets is not kept in memory.
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_without_templates_and_secrets_are_static() {
        let is_static = |text: &str| is_static(text, "jinja|yaml", &Limits::default());
        for text in ["a: 1", "#!yaml\na: '{{ x }}'", "#!json\n{}", "#!py\n", ""] {
            assert!(is_static(text), "{text}");
        }
        let with_marks =
            "#jinja2: {\"variable_start_string\": \"<<\", \"variable_end_string\": \">>\"}\na: << grains.id >>\n";
        for text in [
            "a: {{ x }}",
            "{% set x = 1 %}",
            "{# note #}",
            "#!yaml|gpg\na: 1",
            "#!jinja|yaml|gpg\na: 1",
            "#!stateconf yaml . jinja\na: {{ x }}",
            with_marks,
        ] {
            assert!(!is_static(text), "{text}");
        }
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sls");
        let known = FileCache::default();
        for content in ["a", "bb"] {
            std::fs::write(&path, content).unwrap();
            let get = || known.get(&path, || Ok(Cached::Text(std::fs::read_to_string(&path).unwrap().into())));
            let (Ok(Cached::Text(first)), Ok(Cached::Text(second))) = (get(), get()) else { panic!() };
            assert_eq!(&*first, content);
            assert!(Arc::ptr_eq(&first, &second));
        }
    }
}
