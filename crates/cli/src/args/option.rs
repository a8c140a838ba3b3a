//! The definition of a flag, for the tables in [`super::programs`].

/// The value that a flag takes, and its effect on the setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// No value; the setting becomes true.
    On,
    /// No value; the setting becomes false.
    Off,
    /// Any text.
    Text,
    /// An integer.
    Int,
    /// A number with or without a fraction.
    Float,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text; each use adds an entry to a list.
    Append,
    /// Prints the help and ends.
    Help,
    /// Prints name and version and ends.
    Version,
}

/// The value of a setting whose flag was not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// Nothing: the configuration decides.
    Unset,
    /// True or false.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A fraction.
    Float(f64),
    /// A text.
    Text(&'static str),
    /// An empty list.
    EmptyList,
    /// An empty map.
    EmptyMap,
}

/// One flag with all its spellings.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The spellings, `-t` or `--timeout`.
    pub names: &'static [&'static str],
    /// The setting that it changes, by its name in the configuration.
    pub setting: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The setting's value without the flag.
    pub preset: Preset,
    /// The name of the value in the help; if empty, the setting in capitals.
    pub value_name: &'static str,
    /// One or two sentences for the help. `{prog}` becomes the program's name, `{default}` the preset.
    pub help: &'static str,
}

impl Flag {
    /// Returns a flag without a value that turns a setting on.
    pub const fn on(names: &'static [&'static str], setting: &'static str, help: &'static str) -> Self {
        Flag { names, setting, kind: Kind::On, preset: Preset::Flag(false), value_name: "", help }
    }

    /// Returns a flag without a value that turns a setting off.
    pub const fn off(names: &'static [&'static str], setting: &'static str, help: &'static str) -> Self {
        Flag { names, setting, kind: Kind::Off, preset: Preset::Flag(true), value_name: "", help }
    }

    /// Returns a flag with a text.
    pub const fn text(names: &'static [&'static str], setting: &'static str, help: &'static str) -> Self {
        Flag { names, setting, kind: Kind::Text, preset: Preset::Unset, value_name: "", help }
    }

    /// Returns a flag with an integer.
    pub const fn int(
        names: &'static [&'static str],
        setting: &'static str,
        preset: Preset,
        help: &'static str,
    ) -> Self {
        Flag { names, setting, kind: Kind::Int, preset, value_name: "", help }
    }

    /// Returns the same flag with another kind.
    pub const fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns the same flag with another preset.
    pub const fn preset(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self
    }

    /// Returns the same flag with this name for its value in the help.
    pub const fn value_name(mut self, name: &'static str) -> Self {
        self.value_name = name;
        self
    }

    /// Returns whether a value follows the flag.
    pub fn takes_value(&self) -> bool {
        !matches!(self.kind, Kind::On | Kind::Off | Kind::Help | Kind::Version)
    }
}

/// Flags that are listed together in the help.
#[derive(Clone, Debug)]
pub struct Group {
    /// The heading; empty for the first group.
    pub title: &'static str,
    /// A sentence below the heading; may be empty.
    pub about: &'static str,
    /// The flags, in the order of the help.
    pub flags: Vec<Flag>,
}
