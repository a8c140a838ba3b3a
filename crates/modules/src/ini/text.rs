//! From the text of a file to its options, and back.

use exec::Result;
use regex::Regex;
use value::Map;

use super::document::{Entry, Section, option_pattern};

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is constant")
}

/// Reads a file.
///
/// # Errors
/// When the separator makes no pattern.
pub fn parse(text: &str, separator: &str, no_spaces: bool) -> Result<Section> {
    let text: String = text.lines().collect::<Vec<_>>().join("\n");
    let header = pattern(r"(?m)^\s*\[(.+?)\]\s*$");
    let mut file = Section::new(separator, no_spaces);
    let headers: Vec<(usize, usize, String)> = header
        .captures_iter(&text)
        .map(|found| {
            let whole = found.get(0).expect("a match has a whole");
            (whole.start(), whole.end(), found[1].to_owned())
        })
        .collect();
    // Options may stand above the first section.
    let first = headers.first().map_or(text.len(), |header| header.0);
    read_options(&mut file, &text[..first])?;
    for (place, (_, begin, name)) in headers.iter().enumerate() {
        let end = headers.get(place + 1).map_or(text.len(), |next| next.0);
        // Salt does not hand `no_spaces` down to the sections it reads.
        let mut section = Section::new(&file.separator, false);
        read_options(&mut section, &text[*begin..end])?;
        // A section that occurs twice is merged into its first place.
        file.update(&value::map! { name.as_str() => section.to_map() })?;
    }
    Ok(file)
}

/// Reads the lines of one section.
fn read_options(section: &mut Section, text: &str) -> Result<()> {
    let comment = pattern(r"^\s*(#|;)\s*(.*)");
    let option = option_pattern(&section.separator)?;
    let text = text.trim_matches('\n');
    if text.is_empty() {
        return Ok(());
    }
    let (mut comments, mut unknown, mut indent) = (0, 0, 0);
    let mut ignored = Map::new();
    for line in text.split('\n') {
        if comment.is_match(line) {
            comments += 1;
            section.put(format!("#comment{comments}"), Entry::Text(line.to_owned()), &mut ignored)?;
        // An indented line continues the value above it, as in Python's configparser.
        } else if indentation(line) > indent && section.continue_last(line) {
        } else if let Some(found) = option.captures(line) {
            indent = indentation(&found[1]);
            // The last separator that was seen is used for writing, as in Salt.
            section.separator = found[3].to_owned();
            section.put(found[2].to_owned(), Entry::Text(found[4].to_owned()), &mut ignored)?;
        } else {
            unknown += 1;
            section.put(format!("#unknown{unknown}"), Entry::Text(line.to_owned()), &mut ignored)?;
        }
    }
    Ok(())
}

/// The width of the white space a line begins with; a tab is four.
fn indentation(line: &str) -> usize {
    line.chars().take_while(|letter| letter.is_whitespace()).map(|letter| if letter == '\t' { 4 } else { 1 }).sum()
}

/// Writes a file.
pub fn print(file: &Section) -> String {
    let mut out = String::new();
    print_body(file, &mut out);
    // The first line of all is never empty.
    out.trim_start_matches('\n').to_owned()
}

fn print_body(section: &Section, out: &mut String) {
    let separator = spaced(&section.separator, section.no_spaces);
    for (name, entry) in section.iter() {
        let Entry::Text(text) = entry else { continue };
        let is_comment = name.trim_start().starts_with(['#', ';']);
        if !is_comment {
            out.push_str(name);
            out.push_str(&separator);
        }
        out.push_str(text);
        out.push('\n');
    }
    // Options first: behind a heading they would belong to that section.
    for (name, entry) in section.iter() {
        if let Entry::Section(inner) = entry {
            out.push_str(&format!("\n[{name}]\n"));
            print_body(inner, out);
        }
    }
}

fn spaced(separator: &str, no_spaces: bool) -> String {
    match separator.trim_matches(' ') {
        // Blanks as separator shrink to one, with or without `no_spaces`.
        "" => " ".into(),
        _ if no_spaces => separator.trim().into(),
        _ => format!(" {} ", separator.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_was() {
        let text = "top = 1\n# a comment\nstray line\n\n[a]\nx = 1\n    more of x\n; other\n\n[b c]\ny = 2\n";
        assert_eq!(print(&parse(text, "=", false).unwrap()), text);
        assert_eq!(print(&parse("a=b\n", "=", true).unwrap()), "a=b\n");
        assert_eq!(print(&parse("a b\n", " ", false).unwrap()), "a b\n");
    }
}
