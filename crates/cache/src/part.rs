//! The parts of a minion's data.

/// The parts of a minion's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its grains.
    Grains,
    /// Its pillar.
    Pillar,
    /// Its mine.
    Mine,
}

impl Part {
    /// Returns Salt's name.
    pub fn name(self) -> &'static str {
        match self {
            Part::Grains => "grains",
            Part::Pillar => "pillar",
            Part::Mine => "mine",
        }
    }
}
