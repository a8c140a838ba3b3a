//! Commands that operators have prepared in the master's option `saltgui_templates`, which SaltGUI shows, too.

use value::{Map, Value};

/// The option.
const OPTION: &str = "saltgui_templates";

/// The most templates that are read.
const MOST: usize = 200;

/// A prepared command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    /// The name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The target; empty if the user chooses it.
    pub target: String,
    /// Its type.
    pub target_type: String,
    /// The function.
    pub function: String,
    /// The arguments, as on a command line.
    pub arguments: Vec<String>,
}

/// Reads the option. What is no template is logged and left out.
pub fn read(options: &Map) -> Vec<Template> {
    let Some(all) = options.get(OPTION) else { return Vec::new() };
    let Some(all) = all.as_map() else {
        tracing::warn!("{OPTION} must map names to templates");
        return Vec::new();
    };
    all.iter().take(MOST).filter_map(|(name, template)| one(&name.to_string(), template)).collect()
}

fn one(name: &str, template: &Value) -> Option<Template> {
    let text = |field: &str| template.get(field).filter(|value| **value != Value::Null).map(Value::to_string);
    let command = text("command").unwrap_or_default();
    let Some(mut words) = python::shlex::split(&command).ok() else {
        tracing::warn!("{OPTION}: the command of {name:?} has a quotation that does not end");
        return None;
    };
    // A template may be a target alone.
    let function = if words.is_empty() { String::new() } else { words.remove(0) };
    Some(Template {
        name: name.to_owned(),
        description: text("description").unwrap_or_default(),
        target: text("target").unwrap_or_default(),
        target_type: text("targettype").unwrap_or_default(),
        function,
        arguments: words,
    })
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn templates_are_read_as_saltgui_reads_them() {
        let disk = map! { "description" => "Disks", "target" => "web*", "targettype" => "glob", "command" => "cmd.run 'df -h /' python_shell=True" };
        let options = map! { OPTION => map! { "disk" => disk, "bad" => map! { "command" => "cmd.run 'x" }, "web" => map! { "target" => "web*" } } };
        let read = read(&options);
        let expected = Template {
            name: "disk".into(),
            description: "Disks".into(),
            target: "web*".into(),
            target_type: "glob".into(),
            function: "cmd.run".into(),
            arguments: vec!["df -h /".into(), "python_shell=True".into()],
        };
        assert_eq!((read.len(), &read[0], read[1].function.as_str()), (2, &expected, ""));
        assert!(super::read(&Map::new()).is_empty() && super::read(&map! { OPTION => 7 }).is_empty());
    }
}
