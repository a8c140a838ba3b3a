//! `table`: rows and columns with borders.

use ::value::{Map, Value};

use super::WrongShape;
use super::settings::Settings;
use super::text::sorted;

/// Formats the tables in a result, each below the keys that lead to it.
pub fn output(data: &Value, settings: &Settings, indent: usize) -> Result<String, WrongShape> {
    let display = Display { settings, style: Style::from_options(&settings.table) };
    let preset = settings.table.get("out.table.nested_indent").and_then(Value::as_i64).unwrap_or(0);
    // An indentation from the caller overrides the option.
    let indent = if indent == 0 { preset.max(0) as usize } else { indent };
    let mut lines = Vec::new();
    if let (Some(_), Some(title)) =
        (&display.style.rows_key, settings.table.get("out.table.title").filter(|title| title.truthy()))
    {
        let colors = &settings.colors;
        lines.push(format!("{:indent$}{}{title}{}\n", "", colors.white, colors.end));
    }
    display.value(data, indent, &mut lines)?;
    Ok(lines.join("\n"))
}

enum Justify {
    Left,
    Center,
    Right,
}

struct Style {
    header: bool,
    row_delimiter: String,
    delimiter: String,
    justify: Justify,
    separate_rows: bool,
    prefix: String,
    suffix: String,
    width: usize,
    rows_key: Option<String>,
    labels_key: Option<String>,
}

impl Style {
    fn from_options(options: &Map) -> Self {
        let text =
            |name: &str, preset: &str| options.get_str(&format!("out.table.{name}")).unwrap_or(preset).to_owned();
        let flag = |name: &str| options.get(&format!("out.table.{name}")).is_none_or(Value::truthy);
        let key = |name: &str| options.get_str(&format!("out.table.{name}")).map(str::to_owned);
        Style {
            header: flag("has_header"),
            row_delimiter: text("row_delimiter", "-"),
            delimiter: text("delim", " | "),
            justify: match text("justify", "center").to_lowercase().as_str() {
                "left" => Justify::Left,
                "right" => Justify::Right,
                _ => Justify::Center,
            },
            separate_rows: flag("separate_rows"),
            prefix: text("prefix", "| "),
            suffix: text("suffix", " |"),
            width: options.get("out.table.width").and_then(Value::as_i64).map_or(50, |width| width.max(1) as usize),
            rows_key: key("rows_key"),
            labels_key: key("labels_key"),
        }
    }

    fn place(&self, cell: &str, width: usize) -> String {
        let missing = width.saturating_sub(cell.chars().count());
        // As in Python, the odd blank of a centred text goes to the left only if the width is odd too.
        let left = match self.justify {
            Justify::Left => 0,
            Justify::Right => missing,
            Justify::Center => missing / 2 + (missing & width & 1),
        };
        format!("{:left$}{cell}{:right$}", "", "", right = missing - left)
    }
}

struct Display<'a> {
    settings: &'a Settings,
    style: Style,
}

impl Display<'_> {
    fn value(&self, value: &Value, indent: usize, out: &mut Vec<String>) -> Result<(), WrongShape> {
        match value {
            Value::Map(map) => self.map(map, indent, out),
            // With `rows_key` only lists under that key are tables.
            Value::List(rows) if self.style.rows_key.is_none() => self.rows(rows, None, indent, out),
            _ => Ok(()),
        }
    }

    fn map(&self, map: &Map, indent: usize, out: &mut Vec<String>) -> Result<(), WrongShape> {
        let wanted = self.style.rows_key.as_deref();
        if wanted.is_some_and(|key| !map.contains_key(key)) {
            return sorted(map)?.into_iter().try_for_each(|(_, value)| self.value(value, indent, out));
        }
        for (key, value) in sorted(map)? {
            if wanted.is_some_and(|wanted| key.as_str() != Some(wanted)) {
                continue;
            }
            if wanted.is_none() {
                out.push(self.line(indent, &self.settings.colors.dark_gray, &key.to_string()) + ":");
                out.push(self.line(indent, &self.settings.colors.dark_gray, "----------"));
            }
            match value {
                Value::List(rows) => {
                    let labels = self.style.labels_key.as_ref().and_then(|key| map.get(key));
                    self.rows(rows, labels, indent, out)?;
                }
                _ => self.value(value, indent + 4, out)?,
            }
        }
        Ok(())
    }

    fn rows(
        &self,
        rows: &[Value],
        labels: Option<&Value>,
        indent: usize,
        out: &mut Vec<String>,
    ) -> Result<(), WrongShape> {
        let Some(first) = rows.first() else { return Ok(()) };
        // As in Salt, rows of different types are not a table and are not printed at all.
        if rows.iter().any(|row| row.type_name() != first.type_name()) {
            return Ok(());
        }
        let mut labels = labels.map(label_texts).transpose()?.filter(|labels| !labels.is_empty());
        let mut cells = Vec::new();
        for row in rows {
            cells.push(match row {
                Value::Map(map) => sorted(map)?.into_iter().map(|(_, value)| value.to_string()).collect(),
                Value::Str(text) => vec![text.clone()],
                Value::List(items) => items.iter().map(cell_text).collect::<Result<Vec<_>, _>>()?,
                _ => return Err(WrongShape),
            });
        }
        if let (None, Value::Map(map)) = (&labels, first) {
            labels = Some(sorted(map)?.into_iter().map(|(key, _)| title(&key.to_string())).collect());
        }
        let header = self.style.header && labels.is_some();
        cells.splice(0..0, labels);
        out.extend(self.table(&cells, indent + 4, header)?);
        Ok(())
    }

    fn table(&self, rows: &[Vec<String>], indent: usize, header: bool) -> Result<Vec<String>, WrongShape> {
        // Salt fails on a row without cells, and prints the whole with `nested`.
        if rows.iter().any(Vec::is_empty) {
            return Err(WrongShape);
        }
        let logical: Vec<Vec<Vec<String>>> = rows.iter().map(|row| self.physical_rows(row)).collect();
        // Rows of different lengths lose their extra cells, as with Python's `zip`.
        let columns = logical.iter().flatten().map(Vec::len).min().ok_or(WrongShape)?;
        let width = |column: usize| logical.iter().flatten().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let style = &self.style;
        let edge = [&style.prefix, &style.suffix].map(|text| text.chars().count()).iter().sum::<usize>();
        let between = style.delimiter.chars().count() * columns.saturating_sub(1);
        let separator = style.row_delimiter.repeat(edge + widths.iter().sum::<usize>() + between);
        let separator = self.line(indent, &self.settings.colors.light_gray, &separator);
        let mut out = Vec::new();
        let mut header = header;
        if style.separate_rows {
            out.push(separator.clone());
        }
        for physical in &logical {
            out.extend(physical.iter().map(|row| self.row(row, &widths, indent)));
            if style.separate_rows || header {
                out.push(separator.clone());
                header = false;
            }
        }
        Ok(out)
    }

    fn row(&self, row: &[String], widths: &[usize], indent: usize) -> String {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| self.style.place(cell, *width)).collect();
        let line = format!("{}{}{}", self.style.prefix, cells.join(&self.style.delimiter), self.style.suffix);
        self.line(indent, &self.settings.colors.white, &line)
    }

    /// A row with long cells takes several lines; as in Salt, it ends with its shortest cell.
    fn physical_rows(&self, row: &[String]) -> Vec<Vec<String>> {
        let cells: Vec<Vec<String>> = row.iter().map(|cell| self.wrap(cell)).collect();
        let lines = cells.iter().map(Vec::len).min().unwrap_or(0);
        (0..lines).map(|line| cells.iter().map(|cell| cell[line].clone()).collect()).collect()
    }

    fn wrap(&self, text: &str) -> Vec<String> {
        let mut words = text.split(' ');
        let mut out = words.next().unwrap_or_default().to_owned();
        for word in words {
            let line = out.rsplit('\n').next().unwrap_or_default().chars().count();
            let first = word.split('\n').next().unwrap_or_default().chars().count();
            out.push(if line + first >= self.style.width { '\n' } else { ' ' });
            out.push_str(word);
        }
        out.split('\n').map(str::to_owned).collect()
    }

    fn line(&self, indent: usize, color: &str, text: &str) -> String {
        format!("{:indent$}{color}{text}{}", "", self.settings.colors.end)
    }
}

/// Only strings can be wrapped.
fn cell_text(value: &Value) -> Result<String, WrongShape> {
    value.as_str().map(str::to_owned).ok_or(WrongShape)
}

fn label_texts(labels: &Value) -> Result<Vec<String>, WrongShape> {
    match labels {
        Value::Map(map) => sorted(map)?.into_iter().map(|(_, label)| cell_text(label)).collect(),
        Value::List(items) => items.iter().map(cell_text).collect(),
        _ => Ok(Vec::new()),
    }
}

/// `addr_v4` becomes `Addr V4`: Python's `title` after underscores became blanks.
fn title(key: &str) -> String {
    let mut after_letter = false;
    let mut out = String::new();
    for letter in key.replace('_', " ").chars() {
        if after_letter {
            out.extend(letter.to_lowercase());
        } else {
            out.extend(letter.to_uppercase());
        }
        after_letter = letter.is_alphabetic();
    }
    out
}
