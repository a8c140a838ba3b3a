//! The frame of each page: navigation, masters, messages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::assets;
use super::text::{self, inline};

/// The pages in the navigation: address below the console, name, key, icon.
const PAGES: [(&str, &str, char, &str); 8] = [
    ("", "Overview", 'o', "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z"),
    ("/minions", "Minions", 'm', "M2 3h12v7H2zM5.5 13.5h5M8 10v3.5"),
    ("/keys", "Keys", 'k', "M10.5 9.5a4 4 0 1 0-3.7-2.4L2 12v2h3v-2h2v-2l.9-.9a4 4 0 0 0 2.6.4zM11 5h.01"),
    ("/jobs", "Jobs", 'j', "M2 4h12M2 8h12M2 12h7"),
    ("/highstate", "Highstate", 'h', "M2 5l6-3 6 3-6 3zM2 8l6 3 6-3M2 11l6 3 6-3"),
    ("/events", "Events", 'e', "M1.5 8H4l2-5 3.5 10 2-5h3"),
    ("/run", "Run", 'r', "M4 2.5v11l9-5.5z"),
    ("/access", "Access", 'a', "M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2"),
];

/// The crystal.
const CRYSTAL: &str = "M12 2 20.7 7v10L12 22 3.3 17V7zM3.3 7 12 12l8.7-5M12 12v10";

/// A master of the set, in the strip on each page that concerns all.
pub struct Mark {
    /// The name.
    pub name: String,
    /// `ok`, `warn` or `bad`.
    pub look: &'static str,
    /// The state in words.
    pub words: String,
}

/// What the frame says beside the page.
#[derive(Default)]
pub struct Frame {
    /// The address of the console.
    pub base: String,
    /// The user.
    pub user: String,
    /// The title.
    pub title: String,
    /// The address of the page's entry in the navigation, below the console.
    pub place: &'static str,
    /// The masters; empty for pages that do not concern them, and for a master alone.
    pub masters: Vec<Mark>,
    /// The number of kinds of drift.
    pub drift: usize,
    /// The number of keys about which masters decided differently.
    pub conflicts: usize,
    /// The tags of events that change the page, separated by blanks.
    pub live: String,
    /// True if the user sees the events of their own jobs only, so that the page learns of the others when it is loaded again.
    pub own: bool,
    /// True if the page is loaded again when the master answers.
    pub returns: bool,
    /// The time zone of the page: its name, and the minutes it is ahead of UTC.
    pub zone: (String, i32),
    /// The result of what was done last: `ok` or `bad`, and the words.
    pub done: Option<(&'static str, String)>,
}

/// Puts a page into its frame.
pub fn framed(frame: &Frame, body: &Markup) -> Markup {
    let base = &frame.base;
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(base, &frame.title))
            body data-base=(base) data-offset=(frame.zone.1) {
                a.skip href="#main" { "Skip to the content" }
                div.frame {
                    (side(frame))
                    main id="main" tabindex="-1" data-live=(frame.live) data-own[frame.own] data-returns[frame.returns] {
                        div.notice.bad id="lost" role="alert" hidden {}
                        @if let Some((look, words)) = &frame.done {
                            div.notice.(look) role="status" { (inline(words)) }
                        }
                        (strip(frame))
                        (body)
                        footer { "Times are in " (frame.zone.0) ". Saltern " (env!("CARGO_PKG_VERSION")) }
                    }
                }
                (help())
                script type="module" src={ (base) "/assets/" (assets::SCRIPT.name) } {}
            }
        }
    }
}

/// A page outside the frame: the login, and errors before it.
pub fn door(base: &str, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(base, title))
            body.door data-base=(base) { main.card { h1 { (crystal()) "Saltern" } (body) } }
        }
    }
}

fn head(base: &str, title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (text::attribute(title)) " · Saltern" }
            link rel="icon" href={ (base) "/assets/" (assets::ICON.name) };
            link rel="stylesheet" href={ (base) "/assets/" (assets::STYLE.name) };
        }
    }
}

fn side(frame: &Frame) -> Markup {
    let base = &frame.base;
    html! {
        header.side {
            a.brand href={ (base) "/" } { (crystal()) "Saltern" }
            nav.nav aria-label="Pages" {
                @for (place, name, _, path) in PAGES {
                    a href={ (base) (if place.is_empty() { "/" } else { place }) }
                        aria-current=[(place == frame.place).then_some("page")] { (icon(path)) (name) }
                }
            }
            form.who method="post" action={ (base) "/logout" } {
                a href={ (base) "/access" } title=(text::attribute(&frame.user)) { (inline(&frame.user)) }
                button.tiny { "Log out" }
            }
        }
    }
}

fn strip(frame: &Frame) -> Markup {
    html! {
        @if !frame.masters.is_empty() {
            ul.set aria-label="Masters" id="set" data-part {
                @for mark in &frame.masters {
                    li { span.dot.(mark.look) {} strong { (inline(&mark.name)) } span.muted { (inline(&mark.words)) } }
                }
                @if frame.conflicts > 0 {
                    li.drift { a href={ (frame.base) "/keys/decisions#conflicts" } {
                        (frame.conflicts) @if frame.conflicts == 1 { " key in conflict" } @else { " keys in conflict" }
                    } }
                }
                @if frame.drift > 0 {
                    li.drift { a href={ (frame.base) "/#drift" } {
                        (frame.drift) @if frame.drift == 1 { " kind of drift" } @else { " kinds of drift" }
                    } }
                }
            }
        }
    }
}

fn help() -> Markup {
    html! {
        dialog id="help" aria-label="Keyboard shortcuts" {
            form method="dialog" {
                h2 { "Keyboard shortcuts" }
                br;
                dl.facts {
                    dt { kbd { "/" } } dd { "search" }
                    @for (_, name, key, _) in PAGES { dt { kbd { "g" } " " kbd { (key) } } dd { (name) } }
                    dt { kbd { "r" } } dd { "run a function" }
                    dt { kbd { "j" } " " kbd { "k" } } dd { "next and previous row; Enter opens it" }
                    dt { kbd { "Esc" } } dd { "leave a field, close this" }
                }
                br;
                button { "Close" }
            }
        }
    }
}

fn crystal() -> Markup {
    html! {
        svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"
            aria-hidden="true" { path d=(CRYSTAL) {} }
    }
}

fn icon(path: &str) -> Markup {
    html! {
        svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round"
            stroke-linecap="round" aria-hidden="true" { path d=(path) {} }
    }
}

/// The headline of a page, with what stands at its right.
pub fn headline(title: &Markup, more: &Markup) -> Markup {
    html! {
        div.head {
            h1 { (title) }
            div.more {
                (more)
                span.live id="live" hidden { span.dot {} span { "live" } }
            }
        }
    }
}

/// A bar of parts of a whole, with their looks.
pub fn bar(parts: &[(&str, usize)], thick: bool) -> Markup {
    let whole = parts.iter().map(|(_, count)| count).sum::<usize>().max(1) as f64;
    let mut out = String::new();
    let mut from = 0.0;
    for (look, count) in parts.iter().filter(|(_, count)| *count > 0) {
        let width = *count as f64 * 100.0 / whole;
        out.push_str(&format!("<rect class=\"{look}\" x=\"{from:.2}\" width=\"{width:.2}\" height=\"10\"/>"));
        from += width;
    }
    html! {
        svg.bar.thick[thick] viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" { (PreEscaped(out)) }
    }
}

/// A word of state.
pub fn tag(look: &str, words: &str) -> Markup {
    html! { span.tag.(look) { (inline(words)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_no_style_or_script_of_their_own() {
        let frame = Frame {
            base: "/salt/console".into(),
            user: "<b>\u{202e}fred".into(),
            title: "<title>".into(),
            place: "/keys",
            masters: vec![Mark { name: "m1<".into(), look: "ok", words: "here".into() }],
            drift: 2,
            done: Some(("ok", "accepted <i>".into())),
            ..Frame::default()
        };
        let page = framed(&frame, &html! { p { "body" } }).0;
        assert!(!page.contains(" style=") && !page.contains("onclick") && !page.contains("<style"));
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("&lt;b&gt;<span class=\"ctl\">\\u202e</span>fred") && !page.contains("<b>"));
        assert!(page.contains("m1&lt;") && page.contains("accepted &lt;i&gt;") && page.contains("2 kinds of drift"));
        assert_eq!(page.matches("aria-current").count(), 1);
        assert_eq!(page.matches("href=\"/salt/console").count(), page.matches("href=\"/").count());
    }

    #[test]
    fn a_bar_is_full() {
        assert_eq!(
            bar(&[("ok", 3), ("bad", 0), ("warn", 1)], false).0.matches("width=").count(),
            2,
            "parts of nothing are left out"
        );
        assert!(bar(&[], true).0.contains("bar thick"));
    }
}
