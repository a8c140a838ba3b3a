//! What minions return: text, data, states, differences of files.

use maud::{Markup, html};
use value::Value;

use super::layout;
use super::states::{self, Outcome, StateRow};
use super::text::{bounded, inline, lines, output, readable};

/// Shows a text of any length: a long one in part, with the address of the whole.
pub fn text(text: &str, whole: Option<&str>) -> Markup {
    let (part, all) = bounded(text);
    html! {
        pre.out tabindex="0" { (output(part)) }
        @if !all {
            p.small.muted { "Cut after 256 KiB of " (text.len() >> 10) " KiB. "
                @if let Some(whole) = whole { a href=(whole) { "Download all" } } }
        }
    }
}

/// Shows a return: states as a table, anything else as text. `whole` is the address of the whole return.
pub fn returned(value: &Value, whole: &str) -> Markup {
    match (states::read(value), value) {
        (Some(rows), _) => states_table(&rows, whole),
        (None, Value::Null) => html! { p.muted { "Nothing returned (None)." } },
        (None, value) => text(&readable(value), Some(whole)),
    }
}

/// Counts outcomes in words.
pub fn summary(rows: &[StateRow]) -> Markup {
    let count = |wanted: Outcome| rows.iter().filter(|row| row.outcome() == wanted).count();
    let of = [
        (Outcome::Failed, "bad", "failed"),
        (Outcome::Changed, "info", "changed"),
        (Outcome::WouldChange, "warn", "would change"),
        (Outcome::Good, "ok", "ok"),
    ];
    html! {
        @for (outcome, look, word) in of {
            @let count = count(outcome);
            @if count > 0 { (layout::tag(look, &format!("{count} {word}"))) " " }
        }
    }
}

/// The largest number of states that are shown in a table.
const MOST_STATES: usize = 500;

fn states_table(rows: &[StateRow], whole: &str) -> Markup {
    let (mut told, quiet): (Vec<&StateRow>, Vec<&StateRow>) =
        rows.iter().partition(|row| row.outcome() != Outcome::Good);
    // Failures first; of the same outcome, in the order of the run.
    told.sort_by_key(|row| row.outcome());
    html! {
        p { (summary(rows)) }
        @for row in told.iter().take(MOST_STATES) { (one_state(row)) }
        @if !quiet.is_empty() {
            details {
                summary { (quiet.len()) " without changes" }
                table { tbody { @for row in quiet.iter().take(MOST_STATES) {
                    tr { th { code { (inline(&row.function())) } } td { (inline(&row.id)) } td { (lines(&row.comment)) } }
                } } }
            }
        }
        @if told.len().max(quiet.len()) > MOST_STATES { p.small.muted { "More states than are shown. " a href=(whole) { "Download all" } } }
    }
}

fn one_state(row: &StateRow) -> Markup {
    let (look, word) = row.outcome().words();
    html! {
        div.group {
            div.title { (layout::tag(look, word)) strong { (inline(&row.id)) } code.muted { (inline(&row.function())) }
                @if row.name != row.id { code { (inline(&row.name)) } }
                @if let Some(ms) = row.milliseconds { span.muted.small { (format!("{ms:.0} ms")) } } }
            p { (lines(&row.comment)) }
            (changes(&row.changes))
        }
    }
}

/// Shows changes: a difference of a file line by line, anything else as data.
pub fn changes(changes: &Value) -> Markup {
    let Some(map) = changes.as_map().filter(|map| !map.is_empty()) else {
        return html! { @if changes.truthy() { (text(&readable(changes), None)) } };
    };
    let difference = map.get_str("diff").filter(|text| text.contains('\n'));
    let mut rest = map.clone();
    if difference.is_some() {
        rest.remove("diff");
    }
    html! {
        @if let Some(difference) = difference { (diff(difference)) }
        @if !rest.is_empty() { (text(&readable(&rest.into()), None)) }
    }
}

/// Shows a unified diff with its lines marked.
fn diff(difference: &str) -> Markup {
    let (part, all) = bounded(difference);
    html! {
        pre.out.diff tabindex="0" {
            @for (number, line) in part.lines().enumerate() { span.(look(number, line)) { (output(line)) @if line.is_empty() { " " } } }
        }
        @if !all { p.small.muted { "Diff truncated." } }
    }
}

fn look(number: usize, line: &str) -> &'static str {
    match line.as_bytes() {
        // The names of the files.
        [b'-' | b'+', b'-' | b'+', ..] if number < 2 => "at",
        [b'+', ..] => "add",
        [b'-', ..] => "del",
        [b'@', b'@', ..] => "at",
        _ => "same",
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::super::text::LONGEST_OUTPUT;
    use super::*;

    #[test]
    fn returns_are_text() {
        let shown = returned(&"<script>\x1b[31mred\x1b[0m\u{202e}".into(), "/x").0;
        assert!(shown.contains("&lt;script&gt;<span class=\"a31\">red</span><span class=\"ctl\">\\u202e</span>"));
        let shown = returned(&map! { "<b>" => "</pre><script>" }.into(), "/x").0;
        assert!(!shown.contains("<b>") && !shown.contains("<script>"));
        assert!(returned(&Value::Null, "/x").0.contains("None"));
    }

    #[test]
    fn long_returns_are_folded_with_a_link() {
        let shown = returned(&"line\n".repeat(LONGEST_OUTPUT).into(), "/whole").0;
        assert!(shown.len() < 2 * LONGEST_OUTPUT && shown.contains("href=\"/whole\""));
        assert!(!returned(&"short".into(), "/whole").0.contains("/whole"));
    }

    #[test]
    fn differences_are_marked() {
        let shown = changes(&map! { "diff" => "--- \n+++ \n@@ -1 +1 @@\n-a <b>\n+c\n", "mode" => "0644" }.into()).0;
        assert!(shown.contains("<span class=\"del\">-a &lt;b&gt;</span><span class=\"add\">+c</span>"));
        assert!(shown.contains("mode: '0644'") && shown.contains("class=\"at\""));
        assert_eq!(changes(&map! {}.into()).0, "");
    }

    #[test]
    fn states_are_told_by_outcome() {
        let states = map! {
            "file_|-motd_|-/etc/motd_|-managed" => map! { "result" => true, "comment" => "updated", "changes" => map! { "diff" => "-a\n+b\n" }, "__id__" => "motd", "name" => "/etc/motd", "__run_num__" => 1, "duration" => 3.5 },
            "pkg_|-vim_|-vim_|-installed" => map! { "result" => false, "comment" => "no <repo>\nat all", "changes" => map! {}, "__id__" => "vim", "name" => "vim", "__run_num__" => 0 },
            "test_|-x_|-x_|-nop" => map! { "result" => true, "comment" => "", "changes" => map! {}, "__id__" => "x", "name" => "x", "__run_num__" => 2 },
        };
        let shown = returned(&states.into(), "/x").0;
        for part in ["1 failed", "1 changed", "1 ok", "no &lt;repo&gt;\nat all", "1 without changes", "pkg.installed"] {
            assert!(shown.contains(part), "{part}");
        }
        assert!(shown.find("vim") < shown.find("motd"), "in the order of the run");
    }
}
