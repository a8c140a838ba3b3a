//! Errors of rendering, in Salt's words.

/// The mark at the end of the faulty line in an error's context.
pub(crate) const MARKER: &str = "    <======================";

/// Lines shown before and after the line of an error.
const AROUND: usize = 5;

/// The reason why a text could not be rendered. Its text is the one that Salt prints for its `SaltRenderError`, with
/// the surrounding lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    text: String,
    line: Option<usize>,
    unsupported: bool,
}

impl Error {
    /// An error without a place.
    pub fn new(text: impl Into<String>) -> Self {
        Error { text: text.into(), line: None, unsupported: false }
    }

    /// The text is good but wants something that this program does not have.
    pub fn unsupported(what: impl std::fmt::Display) -> Self {
        Error { text: format!("not supported: {what}"), line: None, unsupported: true }
    }

    /// An error in a line, from one, of a text, of which the lines around are shown.
    pub fn at(message: &str, text: &str, line: usize) -> Self {
        let context = around(text, line);
        Error { text: format!("{message}; line {line}\n\n{context}"), line: Some(line), unsupported: false }
    }

    /// Returns the line, from one, when it is known.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns whether the text is valid but needs something that Saltern does not have. Such an error reveals nothing
    /// of
    /// the content.
    pub fn is_unsupported(&self) -> bool {
        self.unsupported
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Returns the lines around a line, from one, which is marked. A line beyond the end shows the whole text.
pub fn around(text: &str, line: usize) -> String {
    let lines = python::splitlines(text);
    // A missing line comes from an error inside generated text; Salt then shows everything.
    if line > lines.len() || line == 0 {
        return text.to_owned();
    }
    let start = line.saturating_sub(AROUND + 1);
    let end = (line + AROUND).min(lines.len());
    let mut shown: Vec<String> = Vec::new();
    if start > 0 {
        shown.push("[...]".to_owned());
    }
    for (at, content) in lines.iter().enumerate().take(end).skip(start) {
        shown.push(if at + 1 == line { format!("{content}{MARKER}") } else { (*content).to_owned() });
    }
    if end < lines.len() {
        shown.push("[...]".to_owned());
    }
    format!("---\n{}\n---", shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_around_an_error_are_shown_and_the_line_is_marked() {
        assert_eq!(around("a\nb\nc\n", 2), "---\na\nb    <======================\nc\n---");
        let long: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let shown = around(&long, 10);
        assert!(shown.starts_with("---\n[...]\n5\n6\n7\n8\n9\n10    <===="), "{shown}");
        assert!(shown.ends_with("\n15\n[...]\n---"), "{shown}");
        assert_eq!(around("one line", 7), "one line");
    }

    #[test]
    fn an_error_with_a_place_prints_as_salt_prints_it() {
        let error = Error::at("Jinja variable 'x' is undefined", "{{ x }}\n", 1);
        assert_eq!(
            error.to_string(),
            "Jinja variable 'x' is undefined; line 1\n\n---\n{{ x }}    <======================\n---"
        );
        assert_eq!((error.line(), error.is_unsupported()), (Some(1), false));
        assert!(Error::unsupported("the renderer 'py'").is_unsupported());
    }
}
