//! Rows as `COPY … WITH CSV` prints them.

/// Reads rows. Fields in quotes may hold commas, ends of lines and doubled quotes; an empty line is a row of no fields.
pub(super) fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut begun) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A quote within quotes is written twice.
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => (quoted, begun) = (true, true),
            ',' if !quoted => {
                row.push(std::mem::take(&mut field));
                // A comma promises another field, even an empty one.
                begun = true;
            }
            // A line break within quotes belongs to the field.
            '\n' if !quoted => {
                if begun || !field.is_empty() {
                    row.push(std::mem::take(&mut field));
                }
                rows.push(std::mem::take(&mut row));
                begun = false;
            }
            '\r' if !quoted && chars.peek() == Some(&'\n') => {}
            c => field.push(c),
        }
    }
    if begun || !field.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn quotes_hold_commas_and_lines() {
        let text = "a,b\n1,\"x, \"\"y\"\"\nz\"\n\n,\nlast";
        let expected = [vec!["a", "b"], vec!["1", "x, \"y\"\nz"], vec![], vec!["", ""], vec!["last"]];
        assert_eq!(rows(text), expected);
        assert!(rows("").is_empty());
    }
}
