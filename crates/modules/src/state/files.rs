//! SLS files of the master, or of the minion's own `file_roots`, rendered.

use std::path::PathBuf;
use std::sync::Arc;

use ::state::gather::{Failed, Sls, Sources};
use exec::{Context, Error, Result};
use files::FileClient;
use render::{Renderer, Request};
use value::{Map, Value, map};

use crate::{fileclient, templates};

/// SLS files through the file client and the renderer, for one run.
pub struct Files {
    ctx: Context,
    client: FileClient,
    renderer: Arc<Renderer>,
    /// The path of the top file below the roots.
    top: String,
}

impl Files {
    /// Makes the files of the environments that a context can see.
    pub fn new(ctx: &Context) -> Result<Self> {
        let (client, renderer) = (fileclient::client(ctx)?, Arc::new(templates::renderer(ctx)));
        let top = ctx.opt_str("state_top").unwrap_or("top.sls");
        // The option is an address in Salt's own default, but a plain path is common.
        let top = top.strip_prefix("salt://").unwrap_or(top).trim_start_matches('/').to_owned();
        Ok(Files { ctx: ctx.clone(), client, renderer, top })
    }

    /// Renders a text that is not a file of the server.
    pub fn text(
        &self,
        text: String,
        path: Option<PathBuf>,
        sls: &str,
        saltenv: &str,
    ) -> std::result::Result<Value, String> {
        let (renderer, sls, saltenv) = (self.renderer.clone(), sls.to_owned(), saltenv.to_owned());
        let work = move || {
            let request =
                Request { text: &text, path: path.as_deref(), sls: &sls, saltenv: &saltenv, ..Request::default() };
            renderer.render(&request).map_err(|error| error.to_string())
        };
        // Rendering a large SLS file can take seconds and cannot be interrupted.
        self.ctx.blocking(work)
    }

    fn file(&self, path: PathBuf, sls: &str, saltenv: &str) -> std::result::Result<Value, String> {
        let bytes = std::fs::read(&path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
        let text = String::from_utf8(bytes).map_err(|error| templates::no_text(&path, error.as_bytes()))?;
        self.text(text, Some(path), sls, saltenv)
    }

    fn cached(&self, path: &str, saltenv: &str) -> std::result::Result<Option<PathBuf>, String> {
        let address = format!("salt://{path}");
        let fetching = self.client.cache_file(&address, saltenv, None);
        fileclient::within(&self.ctx, fetching).map_err(|error: Error| error.to_string())
    }
}

impl Sources for Files {
    fn envs(&self) -> std::result::Result<Vec<String>, String> {
        fileclient::within(&self.ctx, self.client.envs()).map_err(|error| error.to_string())
    }

    fn states(&self, saltenv: &str) -> std::result::Result<Vec<String>, String> {
        fileclient::within(&self.ctx, self.client.list_states(saltenv)).map_err(|error| error.to_string())
    }

    fn render(&self, sls: &str, saltenv: &str) -> std::result::Result<Sls, Failed> {
        // A name may end with a dot: `a.` is `a/init.sls`, as an include of `.` in `a/b.sls` means.
        let path = sls.replace('.', "/");
        let folder = path.trim_end_matches('/');
        // `a.sls` wins over `a/init.sls`.
        let places = [(format!("{path}.sls"), false), (format!("{folder}/init.sls"), true)];
        for (path, is_init) in places.into_iter().filter(|(path, _)| !path.ends_with("/.sls")) {
            if let Some(file) = self.cached(&path, saltenv).map_err(Failed::Unreachable)? {
                let data = self.file(file, sls, saltenv).map_err(Failed::Render)?;
                return Ok(Sls { data, is_init });
            }
        }
        Err(Failed::NotFound)
    }

    fn top(&self, saltenv: &str) -> std::result::Result<Option<Value>, String> {
        match self.cached(&self.top, saltenv)? {
            Some(file) => self.file(file, "", saltenv).map(Some),
            None => Ok(None),
        }
    }

    fn master_tops(&self) -> std::result::Result<Map, String> {
        if self.ctx.is_local() {
            // Without a master the minion asks its own tops.
            let (option, id) = (self.ctx.opts.get("master_tops").cloned(), self.ctx.id().to_owned());
            let work = move || ::state::tops::tops(option.as_ref(), &id);
            return Ok(self.ctx.blocking(work));
        }
        let mut opts = (*self.ctx.opts).clone();
        // The master's tops choose by grains, which it has no current copy of.
        opts.insert("grains", (*self.ctx.grains).clone());
        let load = map! { "cmd" => "_master_tops", "id" => self.ctx.id(), "opts" => opts };
        let answer = self.ctx.wait(self.ctx.agent.request(load, None)).map_err(|error| error.to_string())?;
        Ok(answer.into_map().unwrap_or_default())
    }
}
