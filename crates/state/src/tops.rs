//! `master_tops`: which SLS files a minion gets beside those of its top file. The one source here is `ext_nodes`, a program
//! that classifies machines, such as Foreman's.

use std::process::{Command, Stdio};

use python::shlex;
use value::{Map, Value, map};

/// The source that is here.
pub const EXT_NODES: &str = "ext_nodes";

/// Returns the SLS files that the sources in the option `master_tops` name for a minion, by environment. A source that
/// fails names none, and the reason is logged. It blocks until the programs have ended.
pub fn tops(option: Option<&Value>, id: &str) -> Map {
    let command = option.and_then(|sources| sources.get(EXT_NODES)).filter(|command| command.truthy());
    // A broken source of tops must not take the top file with it.
    let Some(command) = command.map(Value::to_string) else { return Map::new() };
    match ext_nodes(&command, id) {
        Ok(found) => found,
        Err(why) => {
            tracing::error!("Top function {EXT_NODES} failed with error {why} for minion {id}");
            Map::new()
        }
    }
}

/// Runs the program with the minion's id as its last argument, and reads what it prints.
fn ext_nodes(command: &str, id: &str) -> Result<Map, String> {
    // An id comes from a minion.
    if id.starts_with('-') {
        return Err("the program would read the id as an option".to_owned());
    }
    let words = shlex::split(command).map_err(|error| error.to_string())?;
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let mut command = Command::new(program);
    // Salt quotes the words although no shell reads them. Here they are passed as they are.
    command.args(arguments).arg(id).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", output.status));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| format!("{program}: the output is not valid UTF-8"))?;
    let data = yaml::load(&text, program).map_err(|error| format!("{program}: {error}"))?;
    classes(&data).ok_or_else(|| format!("{program}: the output is not a map"))
}

/// The classes of a machine as SLS files: a list of names, or a map whose keys they are.
fn classes(data: &Value) -> Option<Map> {
    let data = data.as_map()?;
    let env = data.get("environment").map_or_else(|| "base".to_owned(), Value::to_string);
    let names: Vec<Value> = match data.get("classes") {
        Some(Value::Map(classes)) => classes.keys().cloned().collect(),
        Some(Value::List(classes)) => classes.clone(),
        Some(_) => return Some(Map::new()),
        None => {
            tracing::info!("master_tops ext_nodes call did not have a dictionary with a \"classes\" key.");
            return Some(Map::new());
        }
    };
    Some(map! { env => names })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn named(text: &str) -> Option<Map> {
        classes(&yaml::load(text, "x").unwrap())
    }

    #[test]
    fn classes_are_sls_files_of_an_environment() {
        assert_eq!(named("classes: [a, b.c]"), Some(map! { "base" => list!["a", "b.c"] }));
        assert_eq!(named("classes: {a: {x: 1}, b: ~}\nenvironment: dev"), Some(map! { "dev" => list!["a", "b"] }));
        assert_eq!(named("classes: a"), Some(map! {}));
        assert_eq!(named("parameters: {x: 1}"), Some(map! {}));
        assert_eq!(named("just text"), None);
    }

    #[test]
    fn a_program_is_given_the_id_and_one_that_fails_names_nothing() {
        let option = |command: &str| Some(map! { "ext_nodes" => command }.into());
        let echo = r#"sh -c 'echo "classes: [$1, $2]"' x y"#;
        assert_eq!(tops(option(echo).as_ref(), "web1"), map! { "base" => list!["y", "web1"] });
        for command in ["false", "/nonexistent/nodes", "echo 'a: b: c'", "echo 'open", ""] {
            assert_eq!(tops(option(command).as_ref(), "web1"), map! {}, "{command}");
        }
        assert_eq!(tops(Some(&map! { "cobbler" => true }.into()), "web1"), map! {});
        assert_eq!(tops(option(echo).as_ref(), "--help"), map! {}, "an id that looks like an option");
        assert_eq!(tops(None, "web1"), map! {});
    }
}
