//! Attacks of a local user whom `publisher_acl` lets do little.

use std::time::Duration;

use anyhow::{Result, ensure};
use interop::until;
use value::{Map, Value, map};

use crate::scene::{LISTED, Scene, VICTIM};
use crate::stranger::ask_clear;

/// Runner and wheel functions with the key of a user limited to `test.*`.
pub fn runners_and_wheels(scene: &mut Scene<'_>) -> Result<String> {
    let key = scene.key_of_listed()?;
    let trophy = scene.trophy("runner").display().to_string();
    let calls = [
        ("runner", "salt.cmd", map! { "arg" => vec![Value::from("file.touch"), Value::from(trophy.as_str())] }),
        ("runner", "jobs.list_jobs", map! {}),
        ("runner", "cache.grains", map! { "tgt" => "*" }),
        ("wheel", "file_roots.write", map! { "data" => "x", "path" => "forged.sls" }),
        ("wheel", "key.list_all", map! {}),
        ("wheel", "key.gen_accept", map! { "id_" => "forged" }),
        ("wheel", "key.delete", map! { "match" => VICTIM }),
    ];
    let count = calls.len();
    for (cmd, fun, extra) in calls {
        let mut load = map! { "cmd" => cmd, "fun" => fun, "user" => LISTED, "key" => key.trim() };
        load.extend(extra);
        let answer = ask_clear(scene.master.address(), load)?;
        ensure!(answer.to_string().contains("error"), "{cmd} {fun} got {answer}");
    }
    ensure!(!scene.trophy("runner").exists(), "a runner ran");
    ensure!(!scene.master.root().join("srv/salt/forged.sls").exists(), "a wheel function wrote");
    Ok(format!("{count} calls refused"))
}

/// Publications that carry more than the list allows.
pub fn publications(scene: &mut Scene<'_>) -> Result<String> {
    let key = scene.key_of_listed()?;
    let trophy = scene.trophy("listed");
    let path = trophy.display().to_string();
    let kwargs = |map: Map| map! { "kwargs" => map };
    let mut extras = vec![
        map! { "ret" => "rawfile_json", "ret_kwargs" => map! { "filename" => path.as_str() } },
        kwargs(map! { "ret" => "rawfile_json", "ret_kwargs" => map! { "filename" => path.as_str() } }),
        kwargs(map! { "module_executors" => vec![Value::from("sudo")] }),
        kwargs(map! { "executor_opts" => map! { "x" => 1 } }),
        kwargs(map! { "ret_config" => "x" }),
    ];
    let touch = Value::List(vec![Value::from(path.as_str())]);
    for fun in [
        Value::Int(7),
        Value::Map(map! { "file.touch" => 1 }),
        Value::bytes(b"file.touch".to_vec()),
        Value::List(Vec::new()),
        Value::from("file.touch"),
        Value::List(vec!["test.ping".into(), "file.touch".into()]),
        Value::List(vec![Value::List(vec!["file.touch".into()])]),
    ] {
        extras.push(map! { "fun" => fun, "arg" => touch.clone() });
    }
    let count = extras.len();
    for extra in extras {
        let mut load = map! {
            "cmd" => "publish", "fun" => "test.ping", "arg" => Value::List(Vec::new()), "tgt" => VICTIM,
            "tgt_type" => "glob", "ret" => "", "jid" => "", "user" => LISTED, "key" => key.trim(), "kwargs" => map! {},
        };
        load.extend(extra.clone());
        let answer = ask_clear(scene.master.address(), load)?;
        let published = answer.to_string().contains("jid");
        ensure!(!published, "a listed user published {} more: {answer}", Value::from(extra));
    }
    ensure!(until("the file", Duration::from_secs(2), || trophy.exists()).is_err(), "a listed user wrote {path}");
    let mut honest = map! {
        "cmd" => "publish", "fun" => "test.ping", "arg" => Value::List(Vec::new()), "tgt" => VICTIM, "tgt_type" => "glob",
        "ret" => "", "jid" => "", "user" => LISTED, "key" => key.trim(), "kwargs" => map! {},
    };
    honest.insert("kwargs", map! { "delimiter" => ":", "show_timeout" => true, "show_jid" => false });
    let answer = ask_clear(scene.master.address(), honest)?;
    ensure!(answer.to_string().contains("jid"), "an honest test.ping of a listed user got {answer}");
    Ok(format!("{count} publications refused, test.ping published"))
}
