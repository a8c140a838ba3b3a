//! `cargo xtask bench states`: state runs and rendering without a master, ours beside the real Salt.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use interop::{Salt, Sandbox, Settings};
use serde_json::json;

use crate::cost::{self, Cost};
use crate::pillars;
use crate::table::{Row, Table, Unit};

/// The number of runs of each.
const TURNS: usize = 3;

/// The state trees, and the call for each.
const TASKS: [Task; 6] = [
    Task { what: "200 file.managed, half templated: first run", call: &["state.apply", "files"], fresh: true },
    Task { what: "the same again", call: &["state.apply", "files"], fresh: false },
    Task { what: "the same, test=True", call: &["state.apply", "files", "test=True"], fresh: false },
    Task { what: "1,000 test states in a require chain", call: &["state.apply", "chain"], fresh: false },
    Task { what: "200 guarded cmd.run", call: &["state.apply", "guarded"], fresh: false },
    Task { what: "render a tree of 2,000 states", call: &["state.show_sls", "large"], fresh: false },
];

struct Task {
    what: &'static str,
    call: &'static [&'static str],
    /// True if the results of an earlier run are removed before.
    fresh: bool,
}

/// Measures and returns the table. It demands a tenth of the processor time and a fifth of the peak memory.
pub fn bench(sandbox: &Sandbox, real: &Salt, ours: &Salt) -> Result<Table> {
    let mut table = Table::new(real.name(), ours.name());
    let hosts = [Host::new(sandbox, real, "real")?, Host::new(sandbox, ours, "ours")?];
    for task in &TASKS {
        eprintln!("{}", task.what);
        let mut costs: [Vec<Cost>; 2] = Default::default();
        for _ in 0..TURNS {
            // In turn and not one side after the other, so that a slow phase of the machine hits both.
            for (host, costs) in hosts.iter().zip(&mut costs) {
                costs.push(host.run(task)?);
            }
        }
        if task.call.contains(&"guarded") {
            add_without_shells(&mut table, &costs)?;
        }
        add(&mut table, task.what, costs);
    }
    // The pillars are compiled by this program's own library, which an earlier version has not.
    if real.is_ours() {
        return Ok(table);
    }
    let what = "pillar of 500 minions, one process";
    eprintln!("{what}");
    let tree = pillars::Tree::new(sandbox, real)?;
    let mut costs: [Vec<Cost>; 2] = Default::default();
    for _ in 0..TURNS {
        costs[0].push(tree.theirs()?);
        costs[1].push(tree.ours()?);
    }
    add(&mut table, what, costs);
    Ok(table)
}

fn add(table: &mut Table, what: &'static str, costs: [Vec<Cost>; 2]) {
    let [theirs, own] = costs.map(|costs| {
        let column = |get: fn(&Cost) -> f64| costs.iter().map(get).collect::<Vec<f64>>();
        (column(|cost| cost.processor), column(|cost| cost.memory))
    });
    table.add(Row::new(what, Unit::Milliseconds, &theirs.0, &own.0).faster(10.0));
    table.add(Row::new("  peak memory", Unit::Mebibytes, &theirs.1, &own.1).faster(5.0));
}

/// Adds the cost of guarded commands without their shells, which cost the same on both sides.
fn add_without_shells(table: &mut Table, costs: &[Vec<Cost>; 2]) -> Result<()> {
    const LOOP: &str = "n=0; while [ $n -lt 200 ]; do /bin/sh -c 'test -d /'; n=$((n + 1)); done";
    let shells = ["/bin/sh", "-c", LOOP].map(str::to_owned);
    let shells: Vec<f64> = (0..TURNS)
        .map(|_| Ok(cost::of(&shells)?.processor))
        .collect::<Result<_>>()
        .context("failed to start shells")?;
    // The least of the measurements: subtracting too much would flatter both sides.
    let least = shells.into_iter().fold(f64::INFINITY, f64::min);
    let [theirs, own] =
        costs.each_ref().map(|costs| costs.iter().map(|cost| cost.processor - least).collect::<Vec<_>>());
    table.add(Row::new("200 guarded cmd.run, without the 200 shells", Unit::Milliseconds, &theirs, &own).faster(10.0));
    Ok(())
}

/// A machine without a master.
struct Host<'a> {
    salt: &'a Salt,
    conf: PathBuf,
    made: PathBuf,
}

impl<'a> Host<'a> {
    fn new(sandbox: &Sandbox, salt: &'a Salt, name: &str) -> Result<Self> {
        let root = sandbox.folder(name)?;
        let (states, made) = (root.join("states"), root.join("made"));
        trees(&states, &made)?;
        let mut settings = Settings::default();
        settings.set("root_dir", json!(root)).set("id", "bench").set("file_client", "local");
        settings
            .set("file_roots", json!({"base": [states]}))
            .set("log_level", "error")
            .set("enable_fqdns_grains", false);
        settings.write(&root.join("minion"))?;
        Ok(Host { salt, conf: root, made })
    }

    fn run(&self, task: &Task) -> Result<Cost> {
        if task.fresh && self.made.exists() {
            fs::remove_dir_all(&self.made).context("failed to clear the scratch directory")?;
        }
        let conf = self.conf.to_string_lossy();
        let program = self.salt.program("salt-call").to_string_lossy().into_owned();
        let fixed = [program.as_str(), "--local", "--retcode-passthrough", "--out=quiet", "-c", &conf];
        cost::of(&fixed.iter().chain(task.call).map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }
}

fn trees(states: &Path, made: &Path) -> Result<()> {
    let large = states.join("large");
    fs::create_dir_all(&large).context("failed to make the state tree")?;
    let write = |name: &str, text: String| fs::write(states.join(name), text).context("failed to write the state tree");
    write("files.sls", files(made))?;
    write("plain.conf", "key = value\n".repeat(40))?;
    write(
        "templated.conf",
        "{% for n in range(20) %}line {{ n }} of {{ name }} on {{ grains['id'] }}\n{% endfor %}".into(),
    )?;
    write("chain.sls", chain())?;
    write("guarded.sls", guarded())?;
    let parts: Vec<String> = (0..20).map(|part| format!("  - large.part{part}")).collect();
    fs::write(large.join("init.sls"), format!("include:\n{}\n", parts.join("\n")))?;
    for part in 0..20 {
        fs::write(large.join(format!("part{part}.sls")), large_part(part))?;
    }
    Ok(())
}

fn files(made: &Path) -> String {
    let made = made.display();
    format!(
        "{{% for n in range(200) %}}
{made}/file{{{{ n }}}}.conf:
  file.managed:
    - makedirs: True
    - mode: '0640'
{{%- if n % 2 %}}
    - source: salt://templated.conf
    - template: jinja
    - context:
        name: file{{{{ n }}}}
{{%- else %}}
    - source: salt://plain.conf
{{%- endif %}}
{{% endfor %}}
"
    )
}

fn chain() -> String {
    let mut text = String::from("step0:\n  test.nop: []\n");
    for step in 1..1000 {
        let before = step - 1;
        let _ = write!(text, "step{step}:\n  test.nop:\n    - require:\n      - test: step{before}\n");
    }
    text
}

fn guarded() -> String {
    let state = |n| format!("guarded{n}:\n  cmd.run:\n    - name: echo {n}\n    - unless: test -d /\n");
    (0..200).map(state).collect()
}

fn large_part(part: usize) -> String {
    format!(
        "{{% set common = {{'mode': '0644', 'user': 'root'}} %}}
{{% for n in range(100) %}}
part{part}-{{{{ n }}}}:
  file.managed:
    - name: /tmp/part{part}/{{{{ n }}}}
    - contents: {{{{ ('text ' ~ n) | yaml_dquote }}}}
    - mode: {{{{ common.mode | yaml_squote }}}}
    - user: {{{{ common['user'] }}}}
{{%- if n > 0 %}}
    - require:
      - file: part{part}-{{{{ n - 1 }}}}
{{%- endif %}}
{{% endfor %}}
"
    )
}
