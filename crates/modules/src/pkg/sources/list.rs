//! All files of sources together.

use std::path::{Path, PathBuf};

use super::{Line, MAIN_FILE, Source, Stanza};
use crate::util;

/// The content of a file without any source.
// The words that aptsources, and so Salt, leaves in a file without sources.
const EMPTY: &str = "## See sources.list(5) for more information\n# Remember that you can only use http, ftp or file URIs\n\
    # CDROMs are managed through the apt-cdrom tool.\n";

/// All sources of a machine, in the order of their files.
pub struct SourcesList {
    /// The sources, and lines that are none.
    pub list: Vec<Source>,
    /// The directory everything is below, `/` but in tests.
    root: PathBuf,
}

impl SourcesList {
    /// Reads all files below a root.
    pub fn read(root: &Path) -> SourcesList {
        let mut sources = SourcesList { list: Vec::new(), root: root.to_owned() };
        let parts = "/etc/apt/sources.list.d";
        let entries = std::fs::read_dir(sources.real(parts)).into_iter().flatten().flatten();
        let mut files: Vec<String> = entries
            .map(|entry| format!("{parts}/{}", entry.file_name().to_string_lossy()))
            .filter(|name| name.ends_with(".list") || name.ends_with(".sources"))
            .collect();
        files.sort();
        // Apt reads the main file first.
        files.insert(0, MAIN_FILE.to_owned());
        for file in files {
            sources.load(&file);
        }
        sources
    }

    /// Returns the path of a file below the root.
    pub fn real(&self, file: &str) -> PathBuf {
        self.root.join(file.trim_start_matches('/'))
    }

    fn load(&mut self, file: &str) {
        let path = self.real(file);
        let Ok(bytes) = std::fs::read(&path) else { return };
        let text = String::from_utf8_lossy(&bytes);
        if file.ends_with(".sources") {
            let paragraphs = paragraphs(&text);
            self.list.extend(paragraphs.iter().map(|text| Source::Stanza(Stanza::parse(text, file))));
            return;
        }
        for line in text.lines() {
            match Line::parse(line, Some(file)) {
                Ok(line) => self.list.push(Source::Line(line)),
                Err(reason) => {
                    // The rest of the file is not read, as in Salt.
                    tracing::error!("Could not parse source file '{file}': {reason}");
                    return;
                }
            }
        }
    }

    /// Rewrites all files, each in one step.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn save(&self) -> std::io::Result<()> {
        if self.list.is_empty() {
            return self.write(MAIN_FILE, EMPTY);
        }
        let mut files: Vec<(&str, String)> = Vec::new();
        for source in &self.list {
            let text = format!("{source}\n");
            match files.iter_mut().find(|(file, _)| *file == source.file()) {
                Some((_, content)) => {
                    // Stanzas of deb822 are parted by an empty line.
                    if matches!(source, Source::Stanza(_)) {
                        content.push('\n');
                    }
                    content.push_str(&text);
                }
                None => files.push((source.file(), text)),
            }
        }
        files.iter().try_for_each(|(file, content)| self.write(file, content))
    }

    fn write(&self, file: &str, content: &str) -> std::io::Result<()> {
        let path = self.real(file);
        // An unchanged file keeps its time and inode, which apt and others check.
        if std::fs::read(&path).is_ok_and(|known| known == content.as_bytes()) {
            return Ok(());
        }
        util::replace_file(&path, content.as_bytes(), 0o644)
    }
}

fn paragraphs(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for line in text.lines() {
        if !line.trim().is_empty() {
            let last = found.last_mut().expect("there is always one");
            last.push_str(line);
            last.push('\n');
        } else if found.last().is_some_and(|last| !last.is_empty()) {
            found.push(String::new());
        }
    }
    found.retain(|text| !text.is_empty());
    found
}
