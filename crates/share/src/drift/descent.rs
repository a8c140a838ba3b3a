//! Goes down the trees of this member and another one by questions, to find out what differs.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use super::listing::{Listed, Listing, MAX_DEPTH, Question};
use super::{Dir, Kind};

/// How many differences are named.
pub const MOST_FOUND: usize = 1_000;

/// How many questions are asked.
const MOST_QUESTIONS: usize = 2_000;

/// How another member differs in something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathDifference {
    /// It lacks it.
    MissingThere,
    /// Only the other member has it.
    MissingHere,
    /// It says something else there.
    Content,
    /// Only the permission bits are others.
    Mode,
}

/// A comparison with one member, which goes on for as long as [`Descent::next`] returns a question.
#[derive(Debug)]
pub struct Descent {
    kind: Kind,
    own: Arc<Dir>,
    /// Directories to be looked at, the next one first, each with the last name that is known of it.
    open: VecDeque<(Vec<String>, Option<String>)>,
    asked: usize,
    found: Vec<(Vec<String>, PathDifference)>,
    /// More differs than what was found.
    more: bool,
}

impl Descent {
    /// Begins to compare this tree with that of another member.
    pub fn new(kind: Kind, own: Arc<Dir>) -> Descent {
        let open = VecDeque::from([(Vec::new(), None)]);
        Descent { kind, own, open, asked: 0, found: Vec::new(), more: false }
    }

    /// Returns the next question; `None` when all is known.
    pub fn next(&self) -> Option<Question> {
        let (path, after) = self.open.front()?;
        Some(Question { kind: self.kind, path: path.clone(), after: after.clone() })
    }

    /// Takes the answer to that question.
    pub fn take(&mut self, answer: Option<Listing>) {
        let Some((path, after)) = self.open.pop_front() else { return };
        self.asked += 1;
        // A directory that is gone by now is like an empty one.
        let Listing { entries, more } = answer.unwrap_or(Listing { entries: Vec::new(), more: false });
        let last = entries.last().map(|last| last.name.clone()).filter(|_| more);
        // Names from before were answered already.
        let there = entries.into_iter().filter(|one| after.as_ref().is_none_or(|after| one.name > *after));
        let here: Vec<Listed> = match self.own.at(&path) {
            Some(dir) => dir
                .listed(after.as_deref())
                .take_while(|one| last.as_ref().is_none_or(|last| one.name <= *last))
                .collect(),
            None => Vec::new(),
        };
        if let Some(last) = last.filter(|last| after.as_ref().is_none_or(|after| last > after)) {
            self.open.push_front((path.clone(), Some(last)));
        }
        self.merge(&path, here, there);
        if self.found.len() > MOST_FOUND || self.asked >= MOST_QUESTIONS && !self.open.is_empty() {
            self.more = true;
            self.found.truncate(MOST_FOUND);
            self.open.clear();
        }
    }

    fn merge(&mut self, path: &[String], here: Vec<Listed>, there: impl Iterator<Item = Listed>) {
        let (mut here, mut there) = (here.into_iter().peekable(), there.peekable());
        loop {
            let order = match (here.peek(), there.peek()) {
                (Some(own), Some(other)) => own.name.cmp(&other.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let own = here.next_if(|_| order != Ordering::Greater);
            let other = there.next_if(|_| order != Ordering::Less);
            match (own, other) {
                (Some(own), Some(other)) => self.compare(path, &own, &other),
                (Some(own), None) => self.note(path, &own.name, PathDifference::MissingThere),
                (None, Some(other)) => self.note(path, &other.name, PathDifference::MissingHere),
                (None, None) => return,
            }
        }
    }

    fn compare(&mut self, path: &[String], own: &Listed, other: &Listed) {
        let same = own.digest == other.digest;
        match (own.is_dir, other.is_dir) {
            (true, true) if same => {}
            (true, true) if path.len() + 1 < MAX_DEPTH => {
                let mut inside = path.to_vec();
                inside.push(own.name.clone());
                self.open.push_back((inside, None));
            }
            (false, false) if same && own.mode == other.mode => {}
            (false, false) if same => self.note(path, &own.name, PathDifference::Mode),
            _ => self.note(path, &own.name, PathDifference::Content),
        }
    }

    fn note(&mut self, path: &[String], name: &str, difference: PathDifference) {
        // One more than is named shows that there are more.
        if self.found.len() <= MOST_FOUND {
            let mut full = path.to_vec();
            full.push(name.to_owned());
            self.found.push((full, difference));
        }
    }

    /// Returns what differs, and whether more than that does.
    pub fn found(self) -> (Vec<(Vec<String>, PathDifference)>, bool) {
        let unfinished = !self.open.is_empty();
        (self.found, self.more || unfinished)
    }
}
