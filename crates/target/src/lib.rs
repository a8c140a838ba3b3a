//! Targets: which minions a glob, list, pcre, grain, pillar, compound, nodegroup or subnet matches.
//!
//! A target is parsed once into a [`Compiled`] and then matched against minions: by a minion against itself ([`Facts`]), or by a
//! master against every accepted key, with data from its minion data cache ([`Checker`]). Everything here is a pure function: no
//! file is opened, and nothing is remembered between calls.
//!
//! The rules, odd ones included, are those of Salt's matchers, of its target expansion on the master, and of its authorisation
//! lists ([`acl`]).

pub mod acl;
mod budget;
mod compiled;
mod compound;
mod error;
mod expand;
mod fnmatch;
mod indirect;
mod ipcidr;
mod nodegroup;
mod pyregex;
mod subdict;
mod text;

pub use budget::Budget;
pub use compiled::{Compiled, Context, Facts};
pub use error::Error;
pub use expand::{Checker, Expected, MinionData, Needs, ReadAhead, Unavailable};
pub use fnmatch::{Glob, fnmatch};
pub use nodegroup::expand_nodegroup;
pub use pyregex::{PyRegex, python_pattern};
pub use subdict::{Compare, SubdictMatcher, subdict_match, traverse};
pub use text::{data_match, expr_match, list_match, split_list};

/// The default delimiter of paths.
pub const DEFAULT_DELIMITER: &str = ":";

/// The type of a target: Salt's `tgt_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TargetType {
    /// Shell glob over ids.
    #[default]
    Glob,
    /// List of ids, or a string with commas.
    List,
    /// Regular expression over ids, from their start.
    Pcre,
    /// Path into the grains, its last part a glob.
    Grain,
    /// Path into the grains, its last part a regular expression.
    GrainPcre,
    /// Path into the pillar, its last part a glob.
    Pillar,
    /// Path into the pillar, its last part a regular expression.
    PillarPcre,
    /// Path into the pillar, its last part a literal string.
    PillarExact,
    /// Words of all these types, joined by `and`, `or`, `not` and parentheses.
    Compound,
    /// Like [`TargetType::Compound`], with exact comparison of pillar words. Only masters use it, to check permissions.
    CompoundPillarExact,
    /// Name of a group in the option `nodegroups`.
    Nodegroup,
    /// An address of the minion, or a network that contains one.
    Ipcidr,
}

impl TargetType {
    const NAMES: [(&'static str, TargetType); 12] = [
        ("compound", TargetType::Compound),
        ("compound_pillar_exact", TargetType::CompoundPillarExact),
        ("glob", TargetType::Glob),
        ("grain", TargetType::Grain),
        ("grain_pcre", TargetType::GrainPcre),
        ("ipcidr", TargetType::Ipcidr),
        ("list", TargetType::List),
        ("nodegroup", TargetType::Nodegroup),
        ("pcre", TargetType::Pcre),
        ("pillar", TargetType::Pillar),
        ("pillar_exact", TargetType::PillarExact),
        ("pillar_pcre", TargetType::PillarPcre),
    ];

    /// Returns the type with this name in Salt's protocol.
    ///
    /// `range` is refused by name: it needs an additional server and Python's `seco.range`.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| Error::UnknownType { name: name.to_owned() })
    }

    /// Returns the name in Salt's protocol.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the type that compares pillar exactly, so that nobody can guess its values with patterns.
    pub fn with_exact_pillar(self) -> Self {
        match self {
            TargetType::Pillar | TargetType::PillarPcre => TargetType::PillarExact,
            TargetType::Compound => TargetType::CompoundPillarExact,
            other => other,
        }
    }

    /// Returns whether matching needs grains or pillar, which a master knows only from its cache.
    pub fn needs_data(self) -> bool {
        !matches!(self, TargetType::Glob | TargetType::List | TargetType::Pcre)
    }
}

impl std::fmt::Display for TargetType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
