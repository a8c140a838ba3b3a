//! Classes of records: what members share, each with rules of its own.

use std::fmt;

/// What a record is about. The numbers stand in messages and in sums, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// The masters of the set. The key is the node.
    Members = 1,
    /// Minion keys and their states. The key is the minion id.
    Keys = 2,
    /// The last refused key of an id.
    Denied = 3,
    /// The load of a job. The key is the job id.
    Job = 4,
    /// The minions from which a job expects returns.
    Expected = 5,
    /// The return of one minion for one job.
    Return = 6,
    /// When a job ended.
    End = 7,
    /// Grains, pillar and mine of minions.
    Data = 8,
    /// Tokens of external authentication.
    Token = 9,
    /// What somebody has begun or done that must happen once in the set.
    Claim = 10,
}

impl Class {
    /// All classes, in the order in which copies are compared: whoever lacks a member's key cannot check its decisions.
    pub const ALL: [Class; 10] = [
        Class::Members,
        Class::Keys,
        Class::Denied,
        Class::Claim,
        Class::Data,
        Class::Token,
        Class::Job,
        Class::Expected,
        Class::Return,
        Class::End,
    ];

    /// Returns the number of the class.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the class with this number.
    pub fn from_number(number: u64) -> Option<Class> {
        Class::ALL.into_iter().find(|class| u64::from(class.number()) == number)
    }

    /// Returns the name, as messages to people show it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Members => "members",
            Class::Keys => "keys",
            Class::Denied => "denied",
            Class::Job => "job",
            Class::Expected => "expected",
            Class::Return => "return",
            Class::End => "end",
            Class::Data => "data",
            Class::Token => "token",
            Class::Claim => "claim",
        }
    }

    /// Returns whether records of this class belong to a job: they are summed by the minute of its id, and age with it.
    pub fn is_timed(self) -> bool {
        matches!(self, Class::Job | Class::Expected | Class::Return | Class::End)
    }

    /// Returns whether records of this class are entries of signed decisions.
    pub fn is_decided(self) -> bool {
        matches!(self, Class::Members | Class::Keys)
    }
}

/// Some of the classes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Classes(u16);

impl Classes {
    /// All of them.
    pub const ALL: Classes = Classes(u16::MAX);

    /// Returns all classes but these: what an option leaves out, or what the members have in a store that they share already.
    pub fn without(left_out: &[Class]) -> Classes {
        Classes(left_out.iter().fold(u16::MAX, |all, class| all & !(1 << class.number())))
    }

    /// Returns these classes and no others.
    pub fn only(classes: &[Class]) -> Classes {
        Classes(classes.iter().fold(0, |all, class| all | 1 << class.number()))
    }

    /// Returns the classes that are among both.
    pub fn and(self, others: Classes) -> Classes {
        Classes(self.0 & others.0)
    }

    /// Returns whether a class is among them.
    pub fn contains(self, class: Class) -> bool {
        self.0 & 1 << class.number() != 0
    }

    /// Returns the classes, in the order in which copies are compared.
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.contains(*class))
    }
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_classes() {
        for class in Class::ALL {
            assert_eq!(Class::from_number(u64::from(class.number())), Some(class), "{class}");
        }
        assert_eq!(Class::from_number(0), None);
        assert_eq!(Class::from_number(258), None);
    }
}
