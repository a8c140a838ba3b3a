//! Salt's levels: Python's numbers, with three more words than `tracing` has.

use std::fmt;

/// The severity of a line, as Python counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u32);

impl Level {
    /// Everything.
    pub const ALL: Level = Level(0);
    /// Garbage.
    pub const GARBAGE: Level = Level(1);
    /// Trace.
    pub const TRACE: Level = Level(5);
    /// Debug.
    pub const DEBUG: Level = Level(10);
    /// Profile.
    pub const PROFILE: Level = Level(15);
    /// Info.
    pub const INFO: Level = Level(20);
    /// Warning.
    pub const WARNING: Level = Level(30);
    /// Error.
    pub const ERROR: Level = Level(40);
    /// Critical.
    pub const CRITICAL: Level = Level(50);
    /// Nothing at all.
    pub const QUIET: Level = Level(1000);

    /// Returns the level of a word in any case, or of a number; nothing for a word Salt does not know.
    pub fn parse(word: &str) -> Option<Level> {
        if let Ok(number) = word.parse() {
            return Some(Level(number));
        }
        Some(match word.to_lowercase().as_str() {
            "all" => Level::ALL,
            "garbage" => Level::GARBAGE,
            "trace" => Level::TRACE,
            "debug" => Level::DEBUG,
            "profile" => Level::PROFILE,
            "info" => Level::INFO,
            "warning" => Level::WARNING,
            "error" => Level::ERROR,
            "critical" => Level::CRITICAL,
            "quiet" => Level::QUIET,
            _ => return None,
        })
    }

    /// Returns the word for log lines.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "NOTSET",
            1..=4 => "GARBAGE",
            5..=9 => "TRACE",
            10..=14 => "DEBUG",
            15..=19 => "PROFILE",
            20..=29 => "INFO",
            30..=39 => "WARNING",
            40..=49 => "ERROR",
            50..=999 => "CRITICAL",
            _ => "QUIET",
        }
    }

    /// Returns whether lines of this level may show secrets, so that a warning is due.
    pub fn is_insecure(self) -> bool {
        self < Level::INFO
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Levels of loggers by the start of their names, as `log_granular_levels` sets them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granular(Vec<(String, Level)>);

impl Granular {
    pub(crate) fn new(mut levels: Vec<(String, Level)>) -> Self {
        // The longest name first, so that the first match is the nearest.
        levels.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        Granular(levels)
    }

    /// Returns the level set for a logger or for the nearest one above it.
    pub(crate) fn of(&self, logger: &str) -> Option<Level> {
        // `salt.modules` is above `salt.modules.cmd`, but not above `salt.modulesx`.
        let above = |name: &str| logger.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.0.iter().find(|(name, _)| above(name)).map(|(_, level)| *level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_levels() {
        assert_eq!(Level::parse("WARNING"), Some(Level::WARNING));
        assert_eq!(Level::parse("17"), Some(Level(17)));
        assert_eq!(Level::parse("loud"), None);
        assert_eq!(Level::PROFILE.to_string(), "PROFILE");
        assert!(Level::PROFILE.is_insecure() && !Level::INFO.is_insecure());
    }

    #[test]
    fn the_nearest_logger_above_decides() {
        let levels = vec![("salt".into(), Level::WARNING), ("salt.modules".into(), Level::DEBUG)];
        let granular = Granular::new(levels);
        assert_eq!(granular.of("salt.modules.cmd"), Some(Level::DEBUG));
        assert_eq!(granular.of("salt.modulesx"), Some(Level::WARNING));
        assert_eq!(granular.of("tokio"), None);
    }
}
