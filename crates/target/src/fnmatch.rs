//! Shell globs as Python's `fnmatch` reads them.
//!
//! `*` is any text, `?` any character, `[abc]`, `[a-z]` and `[!abc]` one character in (or outside) a set. There is no escape
//! character, and case counts. A bracket that never closes is literal.

use crate::Budget;

/// A glob that is parsed once and matched many times.
///
/// Matching takes at most (length of the text)² steps, whatever the pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    steps: Vec<Step>,
    /// The minimum number of characters of a matching text.
    least: usize,
}

/// The number of steps that are taken out of a budget at once.
const STEPS_AT_ONCE: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Literal(char),
    AnyOne,
    AnyText,
    Set { negated: bool, ranges: Vec<(char, char)> },
}

/// Returns whether the text matches the glob. Use [`Glob::new`] for a pattern that is used more than once.
///
/// ```
/// assert!(saltern_target::fnmatch("web12", "web[0-9]*"));
/// assert!(!saltern_target::fnmatch("Web12", "web*"));
/// ```
pub fn fnmatch(text: &str, pattern: &str) -> bool {
    Glob::new(pattern).matches(text)
}

impl Glob {
    /// Parses a pattern; every string is a valid one.
    pub fn new(pattern: &str) -> Self {
        let letters: Vec<char> = pattern.chars().collect();
        let mut steps = Vec::with_capacity(letters.len());
        let mut place = 0;
        while place < letters.len() {
            let (step, next) = read_step(&letters, place);
            // Stars in a row mean the same as one, and would multiply the backtracking.
            if step != Step::AnyText || steps.last() != Some(&Step::AnyText) {
                steps.push(step);
            }
            place = next;
        }
        let least = steps.iter().filter(|step| **step != Step::AnyText).count();
        Glob { steps, least }
    }

    /// Returns whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_within(text, &Budget::default())
    }

    /// Like `matches`, for texts and patterns of strangers: no match once the budget is exhausted.
    pub(crate) fn matches_within(&self, text: &str, budget: &Budget) -> bool {
        // A text shorter than the pattern without its stars cannot match, so a long pattern costs no more than the text.
        if self.least > text.len() {
            budget.spend(1);
            return false;
        }
        let mut rest = text.chars();
        let mut step = 0;
        // The place to resume after a failed attempt: after the last `*`, one character later.
        let mut retry = None;
        let mut steps = 0;
        loop {
            let wanted = self.steps.get(step);
            // Counted here and taken out of the budget in portions, because that costs more than a step.
            steps += wanted.map_or(1, Step::cost);
            if steps >= STEPS_AT_ONCE && !budget.spend(std::mem::take(&mut steps)) {
                return false;
            }
            match wanted {
                Some(Step::AnyText) => {
                    step += 1;
                    retry = Some((step, rest.clone()));
                    continue;
                }
                Some(wanted) => {
                    let mut ahead = rest.clone();
                    if ahead.next().is_some_and(|letter| wanted.accepts(letter)) {
                        rest = ahead;
                        step += 1;
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return budget.spend(steps),
                None => {}
            }
            // No match here: the last `*` takes one more character.
            let from = retry.as_mut().and_then(|(after_star, from)| from.next().map(|_| (*after_star, from.clone())));
            let Some((after_star, from)) = from else {
                budget.spend(steps);
                return false;
            };
            step = after_star;
            rest = from;
        }
    }

    /// Returns whether the pattern has no wildcards.
    pub fn is_literal(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Literal(_)))
    }
}

impl Step {
    fn cost(&self) -> u64 {
        match self {
            Step::Set { ranges, .. } => 1 + ranges.len() as u64,
            _ => 1,
        }
    }

    fn accepts(&self, letter: char) -> bool {
        match self {
            Step::Literal(wanted) => *wanted == letter,
            Step::AnyOne => true,
            Step::AnyText => false,
            Step::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&letter)) != *negated
            }
        }
    }
}

/// Parses the step at `place`, and returns the position of the next one.
fn read_step(letters: &[char], place: usize) -> (Step, usize) {
    match letters[place] {
        '*' => (Step::AnyText, place + 1),
        '?' => (Step::AnyOne, place + 1),
        '[' => match closing_bracket(letters, place + 1) {
            Some(end) => (read_set(&letters[place + 1..end]), end + 1),
            None => (Step::Literal('['), place + 1),
        },
        letter => (Step::Literal(letter), place + 1),
    }
}

/// Finds the closing bracket. A `]` right after `[` or `[!` belongs to the set.
fn closing_bracket(letters: &[char], start: usize) -> Option<usize> {
    let mut place = start;
    if letters.get(place) == Some(&'!') {
        place += 1;
    }
    if letters.get(place) == Some(&']') {
        place += 1;
    }
    (place..letters.len()).find(|&at| letters[at] == ']')
}

/// Parses the inside of the brackets. A range whose ends are reversed is empty.
fn read_set(inside: &[char]) -> Step {
    let negated = inside.first() == Some(&'!');
    let inside = if negated { &inside[1..] } else { inside };
    let mut ranges = Vec::new();
    let mut place = 0;
    while place < inside.len() {
        if place + 2 < inside.len() && inside[place + 1] == '-' {
            ranges.push((inside[place], inside[place + 2]));
            place += 3;
        } else {
            ranges.push((inside[place], inside[place]));
            place += 1;
        }
    }
    Step::Set { negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_stars_are_fast() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!fnmatch(&"a".repeat(5_000), &pattern));
        let (budget, long) = (Budget::of(10_000), Glob::new(&"*a".repeat(100_000)));
        assert!(!long.matches_within(&"a".repeat(255), &budget) && budget.check().is_ok());
        let slow = Glob::new(&("*".to_owned() + &"a".repeat(2_000) + "b"));
        assert!(!slow.matches_within(&"a".repeat(5_000), &budget) && budget.check().is_err());
    }

    #[test]
    fn literal_patterns_are_recognised() {
        assert!(Glob::new("web1").is_literal());
        assert!(Glob::new("web[").is_literal());
        assert!(!Glob::new("web[1]").is_literal());
        assert!(!Glob::new("web?").is_literal());
    }
}
