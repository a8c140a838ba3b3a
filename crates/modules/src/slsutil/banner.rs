//! `slsutil.banner`: a block of comment for the top of files.

use exec::{Error, Result, function};

const TITLE: &str = "THIS FILE IS MANAGED BY SALT - DO NOT EDIT";
const TEXT: &str = "The contents of this file are managed by Salt. Any changes to this file may be overwritten automatically \
                    and without warning.";

/// Returns a block of comment that names the manager of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' slsutil.banner width=120 commentchar='//'
#[function]
#[expect(clippy::too_many_arguments, reason = "Salt's signature")]
fn banner(
    #[default(72)] width: i64,
    #[default("#")] commentchar: String,
    #[default("#")] borderchar: String,
    blockstart: Option<String>,
    blockend: Option<String>,
    title: Option<String>,
    text: Option<String>,
    #[default(false)] newline: bool,
) -> Result<String> {
    let count = |text: &str| text.chars().count() as i64;
    let (left, right) = (commentchar.trim_end(), commentchar.trim());
    let room = width - count(left) - 1 - 1 - count(right);
    if room <= 0 {
        return Err(Error::Other("Width is too small to render banner".into()));
    }
    // A width by mistake must not eat the memory.
    let room = room.min(10_000) as usize;
    let repeated = |text: &str, times: i64| text.repeat(usize::try_from(times).unwrap_or(0).min(10_000));
    let first: String = borderchar.chars().take(1).collect();
    let border = format!("{commentchar}{}{right}", repeated(&first, width - count(left) - count(right)));
    let spacer = format!("{commentchar}{}{commentchar}", repeated(" ", width - 2 * count(&commentchar)));
    let mut block: Vec<String> = blockstart.into_iter().collect();
    block.extend([border.clone(), spacer.clone()]);
    for line in wrapped(title.as_deref().unwrap_or(TITLE), room) {
        block.push(format!("{left} {} {right}", centered(&line, room)));
    }
    block.push(spacer);
    for line in wrapped(text.as_deref().unwrap_or(TEXT), room) {
        block.push(format!("{left} {line:<room$} {right}"));
    }
    block.push(border);
    block.extend(blockend);
    Ok(block.join("\n") + if newline { "\n" } else { "" })
}

/// Python's `str.center()`: an odd blank goes to the left only if the width is odd, too.
fn centered(text: &str, width: usize) -> String {
    let margin = width.saturating_sub(text.chars().count());
    let left = margin / 2 + (margin & width & 1);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(margin - left))
}

/// Cuts a text into lines between words; longer words are cut.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = line.chars().count();
        if !line.is_empty() && used + 1 + word.len() <= width {
            line.push(' ');
            line.extend(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        // Python's `textwrap` breaks words that are longer than a line.
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}
