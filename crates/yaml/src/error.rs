//! Errors of YAML with their position, in the words of PyYAML.

use std::fmt;

/// A position in a text: line and column, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Line, from one.
    pub line: u64,
    /// Column in characters, from one.
    pub column: u64,
}

/// The step that found the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A character that is not allowed in YAML.
    Reader,
    /// An invalid token.
    Scanner,
    /// Tokens in an impossible order.
    Parser,
    /// Anchors, aliases, more than one document.
    Composer,
    /// An invalid value, or a duplicate key.
    Constructor,
    /// A value on which PyYAML fails with an error of Python itself (`ValueError`, `IndexError`).
    Python,
    /// One of Saltern's limits: size, depth, number of values.
    Limit,
}

/// A rejected text. It prints what PyYAML prints, so that people find the message when they search for it.
///
/// Its parts are fields: `error.problem`, `error.line()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Report>);

impl std::ops::Deref for Error {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.0
    }
}

impl From<Report> for Error {
    fn from(report: Report) -> Self {
        Error(Box::new(report))
    }
}

/// The parts of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The step that found it.
    pub kind: Kind,
    /// The name of the text: a path, or `<unicode string>`.
    pub name: String,
    /// The construct that was being parsed.
    pub context: Option<String>,
    /// The position where it began.
    pub context_mark: Option<Mark>,
    /// The problem.
    pub problem: String,
    /// The position of the problem.
    pub problem_mark: Option<Mark>,
}

impl Report {
    /// Returns the line of the problem, from one, if it is known.
    pub fn line(&self) -> Option<u64> {
        self.problem_mark.or(self.context_mark).map(|mark| mark.line)
    }

    /// Returns the column of the problem, from one, if it is known.
    pub fn column(&self) -> Option<u64> {
        self.problem_mark.or(self.context_mark).map(|mark| mark.column)
    }
}

impl Error {
    pub(crate) fn limit(name: &str, problem: String) -> Self {
        Self::bare(Kind::Limit, name, problem, None)
    }

    pub(crate) fn decoding(name: &str, problem: &str, mark: Mark) -> Self {
        Self::bare(Kind::Reader, name, problem.to_owned(), Some(mark))
    }

    pub(crate) fn bare(kind: Kind, name: &str, problem: String, mark: Option<Mark>) -> Self {
        let name = name.to_owned();
        Report { kind, name, context: None, context_mark: None, problem, problem_mark: mark }.into()
    }

    /// The reader counts bytes of the whole text, which PyYAML prints; people need the line.
    pub(crate) fn reader(name: &str, value: i64, position: u64, problem: String, at: Mark) -> Self {
        // The text of PyYAML's ReaderError, which has no line; the mark adds it.
        let problem = format!("unacceptable character #x{value:04x}: {problem}\n  in \"{name}\", position {position}");
        Self::bare(Kind::Reader, name, problem, Some(at))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |mark: Mark| format!("  in \"{}\", line {}, column {}", self.name, mark.line, mark.column);
        let mut lines = Vec::with_capacity(4);
        lines.extend(self.context.clone());
        // PyYAML omits the first position if both are the same.
        if self.context_mark != self.problem_mark {
            lines.extend(self.context_mark.map(place));
        }
        lines.push(self.problem.clone());
        lines.extend(self.problem_mark.map(place));
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Error {}
