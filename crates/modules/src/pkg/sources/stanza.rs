//! The newer form: a paragraph of `Field: value`.

use super::line::Line;
use super::yes_or_no;

/// A paragraph of a file of sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stanza {
    /// The file that contains it.
    pub file: String,
    /// Remarks before the first field.
    pub header: Vec<String>,
    /// Remarks behind it.
    pub footer: Vec<String>,
    /// The fields in their order.
    pub tags: Vec<(String, String)>,
}

impl Stanza {
    /// Reads a paragraph.
    pub fn parse(text: &str, file: &str) -> Stanza {
        let mut stanza = Stanza { file: file.to_owned(), ..Stanza::default() };
        let mut begun = false;
        for line in text.lines() {
            if line.starts_with('#') {
                // Only the place before or behind the fields is kept, since a comment may stand
                // anywhere.
                let remarks = if begun { &mut stanza.footer } else { &mut stanza.header };
                remarks.push(line.to_owned());
                continue;
            }
            begun = true;
            let field =
                line.split_once(':').filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace));
            match (field, stanza.tags.last_mut()) {
                (Some((name, value)), _) => stanza.tags.push((name.to_owned(), value.trim_start().to_owned())),
                // A continuation line, such as a key in `Signed-By`. Its indentation must stay.
                (None, Some((_, value))) => {
                    value.push('\n');
                    value.push_str(line);
                }
                (None, None) => {}
            }
        }
        for (_, value) in &mut stanza.tags {
            *value = value.trim().to_owned();
        }
        stanza
    }

    /// The value of a field, if it is there.
    pub fn find(&self, name: &str) -> Option<&str> {
        let found = self.tags.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a field, or nothing.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// The words of a field.
    pub fn words(&self, name: &str) -> Vec<String> {
        self.get(name).split_whitespace().map(str::to_owned).collect()
    }

    /// Sets a field.
    pub fn set(&mut self, name: &str, value: String) {
        match self.tags.iter_mut().rfind(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value,
            None => self.tags.push((name.to_owned(), value)),
        }
    }

    /// Removes a field.
    pub fn unset(&mut self, name: &str) {
        self.tags.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// Returns whether it is disabled.
    pub fn disabled(&self) -> bool {
        yes_or_no(self.find("Enabled").unwrap_or("yes")).is_ok_and(|enabled| !enabled)
    }

    /// Uses it or not.
    pub fn set_disabled(&mut self, disabled: bool) {
        match disabled {
            // `yes` is the default, so the field goes.
            true => self.set("Enabled", "no".into()),
            false => self.unset("Enabled"),
        }
    }

    /// Returns whether it is accepted without a signature.
    pub fn trusted(&self) -> Option<bool> {
        self.find("Trusted").and_then(|text| yes_or_no(text).ok())
    }

    /// Sets the remarks before it.
    pub fn set_comment(&mut self, comment: &str) {
        // The caller may have written the `#` or not.
        let marked = comment.lines().all(|line| line.starts_with('#'));
        self.header = comment.lines().map(|line| if marked { line.to_owned() } else { format!("#{line}") }).collect();
    }

    /// Returns one combination of address, suite and type as a line of the older form.
    pub fn as_line(&self, uri: &str, suite: &str, kind: &str) -> Line {
        let text = format!("{kind} {uri} {suite} {}", self.words("Components").join(" "));
        let mut line = Line::parse(&text, None).unwrap_or_default();
        line.disabled = self.disabled();
        line.architectures = self.words("Architectures");
        // A missing field is shown as Salt shows it.
        line.signedby = self.find("Signed-By").unwrap_or("None").to_owned();
        line.trusted = self.trusted();
        line
    }
}

impl std::fmt::Display for Stanza {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = |remarks: &[String]| remarks.iter().map(|line| format!("{line}\n")).collect::<String>();
        let fields = self.tags.iter().filter(|(_, value)| !value.is_empty());
        let fields: String = fields.map(|(name, value)| format!("{name}: {value}\n")).collect();
        f.write_str(format!("{}{fields}{}", lines(&self.header), lines(&self.footer)).trim())
    }
}
