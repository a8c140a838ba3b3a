//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

/// The kind of metric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// It only grows. Its name ends with `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// The number of values up to each of several limits.
    Histogram,
}

/// A page of metrics.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// The content type of the page.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Starts a metric; `help` is one line.
    pub fn metric(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a value of the metric.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            self.0.push(if place == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for character in text.chars() {
                match character {
                    // The format has just these three escapes.
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Adds a metric with one value.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.metric(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Returns the page.
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_help_type_and_escaped_labels() {
        let mut page = Page::default();
        page.single("up", Kind::Gauge, "Whether it is up.", 1);
        page.metric("seen_total", Kind::Counter, "What was seen.");
        page.sample("seen_total", &[("what", "a \"b\"\\\n"), ("where", "here")], 2.5);
        assert_eq!(
            page.finish(),
            "# HELP up Whether it is up.\n# TYPE up gauge\nup 1\n# HELP seen_total What was seen.\n\
             # TYPE seen_total counter\nseen_total{what=\"a \\\"b\\\"\\\\\\n\",where=\"here\"} 2.5\n"
        );
    }
}
