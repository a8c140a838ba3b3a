//! Rendering with the functions of this crate: what states, `file.managed`, `cp.get_template` and `slsutil.renderer` share.
//!
//! Files that templates import come from the file server, through the file client's cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use exec::{Context, Error, Result};
use render::{Loader, Renderer, Request, Source, Template};
use value::{Map, Value};

/// Returns a renderer with the options, grains, pillar and functions of a context. It blocks: asynchronous code calls it
/// through [`Context::apart`].
pub fn renderer(ctx: &Context) -> Renderer {
    Renderer::new(ctx.clone(), Arc::new(Served(ctx.clone())))
}

/// The files of the file server.
struct Served(Context);

/// Files that templates of this job, or this run of states, have used: each is fetched once, so that all of them see
/// one revision.
#[derive(Default)]
struct FetchedTemplates(Mutex<HashMap<(String, String), Option<Source>>>);

impl Loader for Served {
    fn load(&self, path: &str, saltenv: &str) -> std::result::Result<Option<Source>, String> {
        let asked = self.0.memo.get::<FetchedTemplates>();
        let lock = || asked.0.lock().unwrap_or_else(PoisonError::into_inner);
        let saltenv = if saltenv.is_empty() { "base" } else { saltenv };
        let key = (path.to_owned(), saltenv.to_owned());
        // A template imports the same file again and again, and during one run all should see the
        // same text.
        if let Some(known) = lock().get(&key) {
            return Ok(known.clone());
        }
        let place = crate::fileclient::cache(&self.0, &format!("salt://{}", path.trim_start_matches('/')), saltenv);
        let source = match place.map_err(|error| error.to_string())? {
            Some(place) => Some(read(place)?),
            None => None,
        };
        lock().insert(key, source.clone());
        Ok(source)
    }
}

fn read(path: PathBuf) -> std::result::Result<Source, String> {
    let bytes = std::fs::read(&path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { text: text.into(), path }),
        Err(error) => Err(no_text(&path, error.as_bytes())),
    }
}

/// Returns the error about a file that is not text, in Python's words.
pub fn no_text(path: &Path, bytes: &[u8]) -> String {
    format!("{}: {}", path.display(), crate::text::decode_error(bytes).unwrap_or_default())
}

/// An SLS file, or another text that names its renderers, with its own settings.
#[derive(Clone, Debug, Default)]
pub struct Sls {
    /// The text.
    pub text: String,
    /// The file it comes from.
    pub path: Option<PathBuf>,
    /// The name of the SLS.
    pub sls: String,
    /// The environment.
    pub saltenv: String,
    /// The renderers, when the text names none and the option shall not count.
    pub default: Option<String>,
    /// Additional names.
    pub context: Map,
}

/// Runs a text through its renderers.
///
/// # Errors
/// The text or its data are wrong, in Salt's words.
pub fn data(ctx: &Context, sls: Sls) -> Result<Value> {
    let renderer = renderer(ctx);
    // Templates may call any function and run for long; a killed job ends after it.
    let rendered = ctx.blocking(move || {
        renderer.render(&Request {
            text: &sls.text,
            path: sls.path.as_deref(),
            sls: &sls.sls,
            saltenv: &sls.saltenv,
            default: sls.default.as_deref(),
            context: Some(&sls.context),
            ..Request::default()
        })
    });
    rendered.map_err(|error| Error::Other(error.to_string()))
}

/// Runs the text of a file through a template engine. Without an engine it stays as it is.
///
/// # Errors
/// The text is wrong, in Salt's words.
pub fn text(
    ctx: &Context,
    engine: Option<&str>,
    text: &str,
    path: Option<&Path>,
    saltenv: &str,
    context: Map,
) -> Result<String> {
    let Some(engine) = engine else { return Ok(text.to_owned()) };
    let (engine, text, path) = (engine.to_owned(), text.to_owned(), path.map(Path::to_owned));
    let saltenv = saltenv.to_owned();
    let renderer = renderer(ctx);
    let rendered = ctx.blocking(move || {
        renderer.template(&Template {
            text: &text,
            path: path.as_deref(),
            engine: &engine,
            saltenv: &saltenv,
            context: Some(&context),
        })
    });
    rendered.map_err(|error| Error::Other(error.to_string()))
}

/// The engines that Salt knows. Any other name is a mistake of the user and gets another message.
const ENGINES: [&str; 7] = ["jinja", "mako", "py", "wempy", "genshi", "cheetah", "file_pattern"];

/// Renders paths or commands, for functions with an argument `template`.
///
/// # Errors
/// For engines that do not exist, and for texts that cannot be rendered.
pub fn paths<const N: usize>(
    ctx: &Context,
    engine: Option<&str>,
    texts: [&str; N],
    saltenv: &str,
) -> Result<[String; N]> {
    let Some(engine) = engine else { return Ok(texts.map(str::to_owned)) };
    if !ENGINES.contains(&engine) {
        return Err(Error::execution(format!("Attempted to render file paths with unavailable engine {engine}")));
    }
    let mut rendered = texts.map(str::to_owned);
    for place in &mut rendered {
        *place = text(ctx, Some(engine), place, None, saltenv, Map::new())?;
    }
    Ok(rendered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    fn place() -> (tempfile::TempDir, Context) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("srv");
        std::fs::create_dir_all(root.join("lib")).unwrap();
        std::fs::write(root.join("lib/m.jinja"), "{% macro hi(x) %}hi {{ x }} of {{ grains.os }}{% endmacro %}")
            .unwrap();
        let opts = map! {
            "id" => "m", "file_client" => "local", "cachedir" => dir.path().join("cache").to_str().unwrap(),
            "file_roots" => map! { "base" => vec![root.to_str().unwrap()] }, "grains" => map! { "os" => "Debian" },
        };
        let grains = map! { "os" => "Debian" };
        let (ctx, _) = exec::testing::context(&[&crate::test::MODULE], opts, grains, map! { "p" => 1 });
        (dir, ctx)
    }

    #[test]
    fn templates_import_files_of_the_server_and_call_functions() {
        let (_dir, ctx) = place();
        let template =
            "{% from 'lib/m.jinja' import hi with context %}{{ hi(salt['test.echo']('you')) }} {{ pillar.p }}";
        let rendered = text(&ctx, Some("jinja"), template, None, "base", Map::new()).unwrap();
        assert_eq!(rendered, "hi you of Debian 1");
        let sls = Sls { text: format!("a: {template}"), saltenv: "base".into(), ..Sls::default() };
        assert_eq!(data(&ctx, sls).unwrap(), map! { "a" => "hi you of Debian 1" }.into());
        let missing = text(&ctx, Some("jinja"), "{% include 'gone' %}", None, "base", Map::new()).unwrap_err();
        assert!(missing.to_string().starts_with("Jinja error: gone; line 1"), "{missing}");
    }

    #[test]
    fn paths_are_rendered_only_when_an_engine_is_named() {
        let (_dir, ctx) = place();
        assert_eq!(paths(&ctx, None, ["{{ x }}"], "base").unwrap(), ["{{ x }}"]);
        let [rendered] = paths(&ctx, Some("jinja"), ["/{{ grains.os }}"], "base").unwrap();
        assert_eq!(rendered, "/Debian");
        let error = paths(&ctx, Some("foo"), ["x"], "base").unwrap_err().to_string();
        assert_eq!(error, "Attempted to render file paths with unavailable engine foo");
        let error = paths(&ctx, Some("mako"), ["x"], "base").unwrap_err().to_string();
        assert_eq!(error, "not supported: the template engine 'mako'");
    }
}
