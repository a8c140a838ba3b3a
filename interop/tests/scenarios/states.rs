//! State trees applied by the real Salt and by Saltern in scratch roots give the same results, comments, changes and
//! output.
//!
//! The trees are in `trees/*.trees`. Deliberate differences name their trees in `COMPATIBILITY.md`, in parentheses that
//! begin with "trees". Such a tree must differ, or the line has to be removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Program, Salt, Sandbox, Settings, missing, scenario};
use serde_json::{Value, json};

/// The time limit of the real Salt for a whole list.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn commands_and_modules() {
    compare("commands");
}

#[test]
fn files() {
    compare("files");
}

#[test]
fn mistakes() {
    compare("mistakes");
}

fn compare(list: &str) {
    if missing(&["3008.5"]) {
        return;
    }
    scenario(&format!("the state trees of {list}"), |sandbox| {
        let trees = trees(list)?;
        let real = Host::new(sandbox, "real", &trees)?.apply_real(&trees)?;
        let ours = Host::new(sandbox, "ours", &trees)?.apply_ours(&trees)?;
        let expected = known_differences()?;
        let mut wrong = Vec::new();
        for tree in &trees {
            let differences = interop::differences(&real[&tree.name], &ours[&tree.name]);
            match (differences.is_empty(), expected.contains(&tree.name)) {
                (true, true) => wrong.push(format!("{}: the same, but COMPATIBILITY.md says it differs", tree.name)),
                (false, false) => wrong.push(format!("{}:\n    {}", tree.name, differences.join("\n    "))),
                _ => {}
            }
        }
        ensure!(wrong.is_empty(), "{} of {} trees:\n{}", wrong.len(), trees.len(), wrong.join("\n"));
        Ok(())
    });
}

/// A state tree: its name and its files.
struct Tree {
    name: String,
    files: BTreeMap<String, String>,
}

/// Parses a list: `=== name` begins a tree, `--- file` begins a file of it. Lines before the first file are its
/// `init.sls`.
fn trees(list: &str) -> Result<Vec<Tree>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("trees/{list}.trees"));
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut trees: Vec<Tree> = Vec::new();
    let mut file = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            let name = name.trim().to_owned();
            ensure!(trees.iter().all(|tree| tree.name != name), "{name} stands twice in {}", path.display());
            trees.push(Tree { name, files: BTreeMap::new() });
            file = "init.sls".to_owned();
        } else if let Some(name) = line.strip_prefix("--- ") {
            file = name.trim().to_owned();
        } else if let Some(tree) = trees.last_mut() {
            tree.files.entry(file.clone()).or_default().push_str(line);
        }
    }
    Ok(trees)
}

fn known_differences() -> Result<BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../COMPATIBILITY.md");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let lists = text.split("(trees ").skip(1).filter_map(|rest| rest.split_once(')'));
    let names = lists.flat_map(|(list, _)| list.split(',').map(|name| name.trim().trim_matches('`').to_owned()));
    Ok(names.collect())
}

/// A machine without a master.
struct Host<'a> {
    sandbox: &'a Sandbox,
    root: PathBuf,
    /// The directory that states may change.
    made: PathBuf,
}

impl<'a> Host<'a> {
    fn new(sandbox: &'a Sandbox, name: &str, trees: &[Tree]) -> Result<Self> {
        let root = sandbox.folder(name)?;
        let (states, pillar, made) = (root.join("states"), root.join("pillar"), root.join("made"));
        for tree in trees {
            for (file, text) in &tree.files {
                write(&states.join(&tree.name).join(file), text)?;
            }
        }
        fs::create_dir_all(&made)?;
        let data = json!({"root": made, "word": "known", "deep": {"key": "value", "text": "from\nthe pillar\n"}});
        write(&pillar.join("top.sls"), "base:\n  '*':\n    - data\n")?;
        write(&pillar.join("data.sls"), &format!("#!json\n{data}\n"))?;
        let mut settings = Settings::default();
        settings.set("root_dir", json!(root)).set("id", "host").set("file_client", "local");
        settings.set("file_roots", json!({"base": [states]})).set("pillar_roots", json!({"base": [pillar]}));
        settings.set("log_level", "quiet").set("enable_fqdns_grains", false).set("state_output", "full");
        settings.write(&root.join("minion"))?;
        Ok(Host { sandbox, root, made })
    }

    fn apply_real(&self, trees: &[Tree]) -> Result<BTreeMap<String, Value>> {
        let real = Salt::real("3008.5").context("checked above")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py/apply_trees.py");
        let program = Program::new(self.sandbox, &real.python()?).args([&script]).args([self.root.join("minion")]);
        let output = program.args(trees.iter().map(|tree| &tree.name)).limit(PATIENCE).run()?.ok()?;
        let mut all = output.last_json()?;
        let one = |tree: &Tree| {
            let runs = all[&tree.name].take();
            let texts = [&runs[0], &runs[2]].map(|run| self.plain_text(run["text"].as_str().unwrap_or_default()));
            let data: Vec<Value> = runs.as_array().into_iter().flatten().map(|run| self.plain(run)).collect();
            (tree.name.clone(), comparison(data, texts))
        };
        Ok(trees.iter().map(one).collect())
    }

    fn apply_ours(&self, trees: &[Tree]) -> Result<BTreeMap<String, Value>> {
        let ours = Salt::ours()?;
        let call = |name: &str, out: &str, test: &str| {
            let program = Program::new(self.sandbox, &ours.program("salt-call")).args(["--local", "--no-color", "-c"]);
            program.args([&self.root]).args(["--out", out, "state.apply", name, test]).run()
        };
        let data = |name: &str, test: &str| -> Result<Value> {
            let output = call(name, "json", test)?;
            Ok(match output.json() {
                Ok(data) => self.plain(&json!({"data": data["local"]})),
                Err(_) => self.plain(&json!({"error": output.stderr.trim()})),
            })
        };
        let text =
            |name: &str, test: &str| Ok::<_, anyhow::Error>(self.plain_text(&call(name, "highstate", test)?.stdout));
        let one = |tree: &Tree| {
            let name = tree.name.as_str();
            // Always in this order, since runs build on each other: what would change, the change, and a run that must
            // find nothing to do.
            let (tested, tested_text) = (data(name, "test=True")?, text(name, "test=True")?);
            let (real, again, again_text) =
                (data(name, "test=False")?, data(name, "test=False")?, text(name, "test=False")?);
            Ok((tree.name.clone(), comparison(vec![tested, real, again], [tested_text, again_text])))
        };
        trees.iter().map(one).collect()
    }

    /// Removes what differs from run to run: times, process ids, the scratch directory.
    fn plain(&self, run: &Value) -> Value {
        match run {
            Value::Object(map) if map.contains_key("data") => self.plain(&map["data"]),
            Value::Object(map) => {
                let kept =
                    map.iter().filter(|(key, _)| !matches!(key.as_str(), "duration" | "start_time" | "pid" | "text"));
                kept.map(|(key, value)| (self.plain_text(key), self.plain(value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.plain(item)).collect(),
            Value::String(text) => self.plain_text(text).into(),
            other => other.clone(),
        }
    }

    fn plain_text(&self, text: &str) -> String {
        let text = without_traceback(text)
            .replace(&*self.made.to_string_lossy(), "MADE")
            .replace(&*self.root.to_string_lossy(), "ROOT");
        let changing = ["     Started: ", "    Duration: ", "Total run time: "];
        let mut after_pid = false;
        let lines = text.lines().map(|line| {
            // The nested output prints a process id on the line after its name.
            let number = std::mem::replace(&mut after_pid, line.trim() == "pid:");
            let start = changing.iter().find(|start| line.starts_with(**start));
            if number { "" } else { start.map_or(line, |start| start.trim_end()) }
        });
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

/// Removes Python tracebacks of the real Salt, but keeps the message after them.
fn without_traceback(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("Traceback (most recent call last):") {
        let rest = &text[start..];
        let end = ["; line ", "\n---"].iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
        text = format!("{}{}", text[..start].trim_end(), &rest[end..]);
    }
    text
}

fn comparison(data: Vec<Value>, [tested, again]: [String; 2]) -> Value {
    let text = |text: String| text.lines().map(Value::from).collect::<Value>();
    json!({"data": data, "test printed": text(tested), "again printed": text(again)})
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
