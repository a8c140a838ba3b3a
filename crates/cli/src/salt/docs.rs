//! `sys.doc`: the documentation of functions, from all minions that know any.

use anyhow::Result;
use outputters::Settings;
use value::{Map, Value};

/// Collects documentation; the first text for each function counts.
#[derive(Default)]
pub struct Docs(Map);

impl Docs {
    /// Takes what a minion returned. Only a map contains documentation.
    pub fn add(&mut self, result: &Value) {
        for (function, text) in result.as_map().into_iter().flatten() {
            if self.0.get_value(function).is_none() && text.truthy() {
                self.0.insert(function.clone(), text.clone());
            }
        }
    }

    /// Prints everything, sorted by function.
    pub fn print(mut self, settings: &Settings) -> Result<()> {
        self.0.sort_by(|a, _, b, _| a.as_str().cmp(&b.as_str()));
        for (function, text) in self.0 {
            if settings.output.is_some() {
                // As in Salt, each function is a separate document.
                outputters::display(&Map::from_iter([(function, text)]).into(), Some("nested"), settings, 0)?;
            } else {
                // The author of the minion's modules wrote the text.
                let text = format!("{function}:\n{text}\n");
                let plain = Settings { output_file: None, ..settings.clone() };
                outputters::print(&value::escape::for_terminal(&text), &plain)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn the_first_text_of_a_function_counts() {
        let mut docs = Docs::default();
        docs.add(&"Minion did not return".into());
        docs.add(&map! { "test.ping" => "one", "test.echo" => Value::Null }.into());
        docs.add(&map! { "test.ping" => "two", "test.echo" => "echo" }.into());
        assert_eq!(docs.0, map! { "test.ping" => "one", "test.echo" => "echo" });
    }
}
