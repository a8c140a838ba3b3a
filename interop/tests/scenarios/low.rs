//! Features of public state trees, in our own trees: Saltern compiles them to the same low data as the real Salt.
//!
//! `trees/usage.json` counts names in 38 public formulas and 4 production trees: uses in formulas, number of formulas,
//! uses in production. Each name is in one of our trees, or in a list here with the reason why not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interop::{Program, Salt, missing, scenario};

/// The time limit for all answers.
const PATIENCE: Duration = Duration::from_secs(900);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("trees")
}

#[test]
fn trees_compile_to_the_same_low_data() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("the low data of our own formulas", |sandbox| {
        let (real, ours) = (Salt::real("3008.5").context("checked above")?, Salt::ours()?);
        // The script compares with `saltern` itself, which a substitute does not have.
        if !ours.is_ours() {
            return Ok(());
        }
        let program = fs::canonicalize(ours.program("salt"))?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py/formulas.py");
        let (python, work) = (real.python()?, sandbox.folder("low")?);
        let compared = Program::new(sandbox, &python).args([&script]).args(["--jobs", "1", "--real"]).args([&python]);
        let compared =
            compared.args(["--ours"]).args([&program]).args(["--work"]).args([&work]).args([root().join("low")]);
        let output = compared.limit(PATIENCE).run()?;
        ensure!(output.code == 0, "{}\n{}", output.stdout, output.stderr);
        Ok(())
    });
}

/// Names that are in none of our trees, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cfssl_certs.request_cert", "a Python module of one tree"),
    ("dig.A", "asks the network"),
    ("dig.AAAA", "asks the network"),
    ("dnsutil.A", "asks the network"),
    ("extra_dns_entries.get_extra_dns_entries", "a Python module of one tree"),
    ("git.current_branch", "needs a repository"),
    ("http.query", "asks the network"),
    ("minion.list", "lists the keys of a master"),
    ("network.ping", "asks the network"),
    ("network.ping(return_boolean=)", "asks the network"),
    ("network.ping(timeout=)", "asks the network"),
    ("os_network.gw_with_cidr", "a Python module of one tree"),
    ("os_network.strip_cidr", "a Python module of one tree"),
    ("saltutil.runner", "needs a master"),
    ("saltutil.runner(arg=)", "needs a master"),
    ("ssh.recv_known_host_entries", "asks the network"),
];

/// Signs of statements that do not show by their names.
const STATEMENTS: &[(&str, &str)] = &[
    ("~ concat", " ~ '"),
    ("from .. import", "{%- from "),
    ("from .. import with context", " with context %}"),
    ("from .. import (no context)", " without context %}"),
    ("inline if (x if c else y)", " else '"),
    ("slice [a:b]", "[1:3]"),
    ("set block / load_*", "{% endset %}"),
    ("filter block", "{%- filter "),
    ("for .. if", "for name in names if "),
    ("include ignore missing", " ignore missing %}"),
    ("import (no context)", "{%- import \""),
];

/// Returns texts of which a tree must contain one if it uses the name.
fn signs(section: &str, name: &str) -> Vec<String> {
    match section {
        "state functions" => vec![name.replace(".<dynamic>", ".{{")],
        "requisites" | "arguments" => vec![format!("- {name}:"), format!("{name}: ")],
        "statements" => match STATEMENTS.iter().find(|(known, _)| *known == name) {
            Some((_, sign)) => vec![(*sign).to_owned()],
            None => ["{% ", "{%- ", "{%-   ", "{%-     "].iter().map(|open| format!("{open}{name}")).collect(),
        },
        "filters" => vec![format!("| {name}")],
        "tests" => vec![format!(" is {name}")],
        "execution functions" => vec![format!("salt['{name}']"), format!("salt[\"{name}\"]"), format!("salt.{name}(")],
        "keyword arguments" => vec![name.split('(').next_back().unwrap_or(name).replace(')', "")],
        "names" => vec![name.replace("()", "(")],
        _ => vec![format!(".{name}(")],
    }
}

fn texts_below(folder: &Path, found: &mut String) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            texts_below(&path, found)?;
        } else if path.extension().is_none_or(|kind| kind != "json" && kind != "py") {
            found.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[test]
fn every_counted_name_stands_in_a_tree() -> Result<()> {
    let mut text = String::new();
    texts_below(&root(), &mut text)?;
    texts_below(&root().join("../../crates/modules/testdata/formulas"), &mut text)?;
    let counted: BTreeMap<String, BTreeMap<String, [u32; 3]>> =
        serde_json::from_str(&fs::read_to_string(root().join("usage.json"))?)?;
    let mut absent = Vec::new();
    for (section, names) in &counted {
        for (name, [uses, formulas, production]) in names {
            let there = signs(section, name).iter().any(|sign| text.contains(sign));
            // Both or neither is wrong: an excuse that is no longer needed has to go.
            let excused = ELSEWHERE.iter().any(|(known, _)| known == name);
            if there == excused {
                let words = if there { "stands in a tree, but is excused" } else { "stands in no tree" };
                absent.push(format!("{section}: {name} ({uses} in {formulas} formulas, {production}) {words}"));
            }
        }
    }
    ensure!(counted.len() == 10 && counted.values().map(BTreeMap::len).sum::<usize>() > 300, "names are missing");
    ensure!(absent.is_empty(), "{}", absent.join("\n"));
    Ok(())
}
