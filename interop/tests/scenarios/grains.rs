//! Compares the grains on this machine with those of a real minion, key by key.

use anyhow::{Context as _, Result, bail, ensure};
use interop::{Minion, Salt, Sandbox, differences, missing, scenario};
use serde_json::{Map, Value};

/// Grains about the program itself, and grains that change from moment to moment.
const OWN: &[&str] = &[
    "ca_truststore",
    "salternversion",
    "pid",
    "pythonexecutable",
    "pythonpath",
    "pythonversion",
    "saltpath",
    "saltversion",
    "saltversioninfo",
    "zmqversion",
    "transactional",
    "uptime",
    "cwd",
    "path",
    "systempath",
];

/// Grains of older releases only: since 3008 they are in an extension.
const GONE: &[&str] = &["zfs_support", "zfs_feature_flags"];

#[test]
fn grains_are_those_of_salt_3006() {
    compare("3006.30");
}

#[test]
fn grains_are_those_of_salt_3007() {
    compare("3007.17");
}

#[test]
fn grains_are_those_of_salt_3008() {
    compare("3008.5");
}

fn compare(line: &str) {
    if missing(&[line]) {
        return;
    }
    scenario(&format!("grains of {line}"), |sandbox| {
        let real = grains(sandbox, &Salt::real(line).context("checked above")?)?;
        let ours = grains(sandbox, &Salt::ours()?)?;
        // A real minion that failed halfway would make any comparison succeed.
        ensure!(real.len() > 40, "the real minion has only {} grains", real.len());
        let mut different = differences(&real.into(), &ours.into());
        different.retain(|difference| !OWN.iter().chain(GONE).any(|own| difference.starts_with(&format!("/{own}:"))));
        // Older releases lack grains of the newest one, which ours follows. Only common grains are compared.
        if line != "3008.5" {
            different.retain(|difference| !difference.contains(": missing | "));
        }
        if different.is_empty() { Ok(()) } else { bail!("{line} | ours:\n{}", different.join("\n")) }
    });
}

fn grains(sandbox: &Sandbox, salt: &Salt) -> Result<Map<String, Value>> {
    let minion = Minion::build(salt, &format!("grains-{}", salt.name()));
    let minion =
        minion.option("id", "grainy").option("grains", serde_json::json!({"role": ["a", 1]})).prepare(sandbox)?;
    let output = minion.program("salt-call").args(["--local", "--out=json", "grains.items"]).run()?.ok()?;
    match output.json()?["local"].take() {
        Value::Object(grains) => Ok(grains),
        other => bail!("expected a map of grains, not {other}, from {output}"),
    }
}
