//! `cmd_json` and `cmd_yaml`: the output of a command on the master.

use value::{Map, Value, map};

use super::ExternalCall;

/// Runs the command, with the minion's id for `%s`, and parses its output as JSON. Invalid output is logged and counts as
/// empty.
pub fn json(call: &ExternalCall) -> Result<Map, String> {
    let command = command(call)?;
    let failed = |why: &str| {
        tracing::error!("JSON data from {command} failed to parse: {why}");
        Ok(Map::new())
    };
    // `cmd.run` uses no shell by default, so pipes and variables in the command are not interpreted.
    match run(call, "cmd.run", &command, map! {}) {
        Ok(output) => match python::json::loads(&output) {
            Ok(value) => as_map(value),
            Err(why) => failed(&why),
        },
        Err(why) => failed(&why),
    }
}

/// Like `cmd_json`, for YAML. As in Salt, this command goes through a shell.
pub fn yaml(call: &ExternalCall) -> Result<Map, String> {
    let command = command(call)?;
    match run(call, "cmd.run_stdout", &command, map! { "python_shell" => true }) {
        Ok(output) => match ::yaml::load(&output, ::yaml::UNNAMED) {
            Ok(value) => as_map(value),
            Err(why) => {
                tracing::error!("YAML data from '{command}' failed to parse: {}", why.problem);
                Ok(Map::new())
            }
        },
        Err(why) => {
            tracing::error!("YAML data from '{command}' failed to parse: {why}");
            Ok(Map::new())
        }
    }
}

fn command(call: &ExternalCall) -> Result<String, String> {
    let mut arguments = call.named(&["command"])?;
    let command =
        arguments.remove("command").ok_or("ext_pillar() missing 1 required positional argument: 'command'")?;
    super::shell::with_id(&command.to_string(), call.id)
}

fn run(call: &ExternalCall, function: &str, command: &str, kwargs: Map) -> Result<String, String> {
    let how = exec::Call { args: vec![command.into()], kwargs };
    let output = call.ctx.call_with(function, how).map_err(|error| error.to_string())?;
    Ok(output.into_string().unwrap_or_default())
}

fn as_map(value: Value) -> Result<Map, String> {
    match value {
        Value::Map(map) => Ok(map),
        value if !value.truthy() => Ok(Map::new()),
        _ => Err("Cannot update using non-dict types in dictupdate.update()".to_owned()),
    }
}
