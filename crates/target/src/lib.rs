//! Who is meant: glob, list, pcre, grain, pillar, compound, nodegroup, subnet.
//!
//! A target is read once into a [`Compiled`] and then asked about minions: by a minion about itself ([`Facts`]), or by
//! a master about every key it accepted ([`Checker`]), where the data come from its minion data cache. Everything here
//! is a pure function: no file is opened, nothing is remembered between calls.
//!
//! The rules, odd ones included, are those of Salt's matchers, of its target expansion on the master, and of its
//! authorisation lists ([`acl`]).

pub mod acl;
mod budget;
mod compiled;
mod compound;
mod error;
mod expand;
mod fnmatch;
mod ipcidr;
mod nodegroup;
mod pyregex;
mod subdict;
mod text;

pub use budget::Budget;
pub use compiled::{Compiled, Context, Facts};
pub use error::Error;
pub use expand::{Checker, Expected, MinionData};
pub use fnmatch::{Glob, fnmatch};
pub use nodegroup::expand_nodegroup;
pub use pyregex::{PyRegex, python_pattern};
pub use subdict::{Compare, SubdictMatcher, subdict_match, traverse};
pub use text::{allowed_by_lists, data_match, expr_match, list_match, split_list};

/// What parts the keys of a path when nothing else is said.
pub const DEFAULT_DELIMITER: &str = ":";

/// How a target is to be read: Salt's `tgt_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TargetType {
    /// Shell glob over ids.
    #[default]
    Glob,
    /// List of ids, or text with commas.
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
    /// Path into the pillar, its last part plain text.
    PillarExact,
    /// Words of all these kinds, joined by `and`, `or`, `not` and brackets.
    Compound,
    /// As [`TargetType::Compound`], with pillar words compared as plain text; only masters use it, to check rights.
    CompoundPillarExact,
    /// Name of a group from the option `nodegroups`.
    Nodegroup,
    /// Address or network the minion has an address in.
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

    /// Returns the type with this name on the wire.
    ///
    /// `range` needs a server of its own and Python's `seco.range`; it is refused by name.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| Error::UnknownType { name: name.to_owned() })
    }

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Says whether matching needs grains or pillar, which a master knows from its cache only.
    pub fn needs_data(self) -> bool {
        !matches!(self, TargetType::Glob | TargetType::List | TargetType::Pcre)
    }
}

impl std::fmt::Display for TargetType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
