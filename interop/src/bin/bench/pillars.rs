//! The pillar of many minions, compiled one after the other in one process, as a master does when they sign in.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use interop::{Salt, Sandbox, Settings};
use serde_json::json;
use value::map;

use crate::cost::{self, Cost};

/// The first argument by which this program only compiles pillars.
pub const MARK: &str = "--pillars";

/// The number of minions.
pub const MINIONS: usize = 500;

/// A master's pillar tree, and the programs that compile it.
pub struct Tree {
    conf: PathBuf,
    python: PathBuf,
}

impl Tree {
    /// Writes a tree with a top file, common and own parts, includes, and templates that look at grains.
    pub fn new(sandbox: &Sandbox, real: &Salt) -> Result<Self> {
        let root = sandbox.folder("pillars")?;
        let roots = root.join("pillar");
        fs::create_dir_all(roots.join("apps"))?;
        let apps: String = (0..10).map(|app| format!("    - apps.app{app}\n")).collect();
        let top = format!(
            "base:\n  '*':\n    - common\n  'web*':\n{apps}  'os_family:Debian':\n    - match: grain\n    - debian\n"
        );
        fs::write(roots.join("top.sls"), top)?;
        fs::write(roots.join("common.sls"), COMMON)?;
        fs::write(roots.join("debian.sls"), "include:\n  - users\nrepository: deb.example.org\n")?;
        let user =
            |number| format!("  user{number}: {{uid: {}, shell: /bin/bash, groups: [staff, web]}}\n", 2000 + number);
        fs::write(roots.join("users.sls"), format!("users:\n{}", (0..40).map(user).collect::<String>()))?;
        for app in 0..10 {
            fs::write(roots.join(format!("apps/app{app}.sls")), APP.replace("NUMBER", &app.to_string()))?;
        }
        let mut settings = Settings::default();
        settings.set("root_dir", json!(root)).set("pillar_roots", json!({"base": [roots]}));
        settings.set("file_roots", json!({"base": [root.join("states")]})).set("log_level", "error");
        let conf = root.join("master");
        settings.write(&conf)?;
        Ok(Tree { conf, python: real.python()? })
    }

    /// Returns the cost of the real Salt for all minions.
    pub fn theirs(&self) -> Result<Cost> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py/many_pillars.py");
        let words = [self.python.as_path(), &script, &self.conf].map(|word| word.to_string_lossy().into_owned());
        cost::of(&[words.to_vec(), vec![MINIONS.to_string()]].concat())
    }

    /// Returns the cost of Saltern's compiler for all minions.
    pub fn ours(&self) -> Result<Cost> {
        let own = std::env::current_exe().context("failed to find this program")?;
        let words = [own.to_string_lossy(), MARK.into(), self.conf.to_string_lossy()];
        cost::of(&words.map(std::borrow::Cow::into_owned))
    }
}

/// The other side of [`Tree::ours`].
pub fn compile(conf: &Path) -> Result<()> {
    let source = config::Source { path: conf.to_owned() };
    let config = config::Master::load(&source, &config::LoadOptions::default())?;
    // One compiler for all minions, as in a master, so that its caches count.
    let compiler = pillar::Compiler::new(&config)?;
    for number in 0..MINIONS {
        let id = format!("web{number}");
        let grains = map! { "id" => id.as_str(), "os_family" => "Debian", "num_cpus" => 4 + number as i64 % 4 };
        let pillar = compiler.compile(&pillar::Request { id: &id, grains: Some(&grains), ..Default::default() });
        ensure!(!pillar.contains_key("_errors"), "{pillar:?}");
        // A fast but wrong result would be worth nothing; `host` shows that no pillar of another minion is served from
        // a cache.
        ensure!(pillar.get("host").and_then(|host| host.as_str()) == Some(&id) && pillar.len() == 14, "{pillar:?}");
    }
    Ok(())
}

const COMMON: &str = "\
{% set workers = grains['num_cpus'] * 2 %}
host: {{ grains['id'] }}
limits:
{% for n in range(30) %}
  limit{{ n }}: {{ workers * n }}
{% endfor %}
";

const APP: &str = "\
appNUMBER:
  name: appNUMBER on {{ grains['id'] }}
  port: {{ 8000 + NUMBER }}
  hosts:
{% for n in range(10) %}
    - host{{ n }}.{{ 'debian' if grains['os_family'] == 'Debian' else 'other' }}.example.org
{% endfor %}
";
