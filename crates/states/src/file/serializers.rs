//! Data as text and back, as Salt's serializers write and read it.

mod configparser;
mod json;
mod yaml_text;

use exec::{Error, Result};
use value::{Map, Value};
use wire::msgpack::{Decode, Packing, pack, unpack};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serializer {
    /// YAML.
    Yaml,
    /// YAML with short lists and maps on one line.
    Yamlex,
    /// JSON.
    Json,
    /// MessagePack.
    Msgpack,
    /// Sections of `key = value`.
    Configparser,
}

/// Arguments of a serializer.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The options of the user.
    pub given: Map,
    /// True if the file has a specific encoding, so that letters outside ASCII can be written unescaped.
    pub unicode: bool,
}

impl Options {
    /// Reads a list of maps with one entry each; as in Salt anything else counts as nothing.
    pub fn of(given: &Value, unicode: bool) -> Self {
        let mut all = Map::new();
        for option in given.as_list().unwrap_or_default() {
            match option {
                Value::Map(map) if map.len() == 1 => all.update(map.clone()),
                Value::Str(name) => drop(all.insert(name.as_str(), Value::Null)),
                other => {
                    tracing::error!("{other} is not an option of a serializer, all options are left out");
                    all.clear();
                    break;
                }
            }
        }
        Options { given: all, unicode }
    }

    /// Refuses options that are not known.
    fn only(&self, known: &[&str]) -> Result<()> {
        match self.given.text_keys().find(|key| !known.contains(key)) {
            Some(unknown) => Err(Error::execution(format!("not supported: the serializer option '{unknown}'"))),
            None => Ok(()),
        }
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.given.get(name).map_or(default, Value::truthy)
    }
}

impl Serializer {
    /// Finds a format by its name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "yaml" => Serializer::Yaml,
            "yamlex" => Serializer::Yamlex,
            "json" => Serializer::Json,
            "msgpack" => Serializer::Msgpack,
            "configparser" => Serializer::Configparser,
            _ => return None,
        })
    }

    /// Writes data: text, or bytes for a format that is none.
    ///
    /// # Errors
    /// For data the format cannot hold, and options that are not known.
    pub fn write(self, data: &Value, options: &Options) -> Result<Value> {
        match self {
            Serializer::Yaml => yaml_text::write(data, options, true).map(Value::from),
            Serializer::Yamlex => yaml_text::write(data, options, false).map(Value::from),
            Serializer::Json => json::write(data, options).map(Value::from),
            Serializer::Configparser => configparser::write(data, options).map(Value::from),
            Serializer::Msgpack => {
                options.only(&[])?;
                Ok(Value::bytes(pack(data, Packing::Bin)))
            }
        }
    }

    /// Reads data.
    ///
    /// # Errors
    /// For a file that holds something else.
    pub fn read(self, bytes: &[u8], options: &Options) -> Result<Value> {
        let text = || String::from_utf8(bytes.to_vec()).map_err(|error| Error::Other(error.to_string()));
        match self {
            Serializer::Yaml | Serializer::Yamlex => {
                yaml::load(&text()?, yaml::UNNAMED).map_err(|error| Error::Other(error.to_string()))
            }
            Serializer::Json => serde_json::from_str(&text()?).map_err(|error| Error::Other(error.to_string())),
            Serializer::Configparser => configparser::read(&text()?, options),
            Serializer::Msgpack => unpack(bytes, Decode::Utf8).map_err(|error| Error::Other(error.to_string())),
        }
    }
}
