//! The text of a mail: header and body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Zoned;

/// A mail.
pub struct Mail<'a> {
    /// The sender.
    pub from: &'a str,
    /// The recipients.
    pub to: &'a [String],
    /// The subject.
    pub subject: &'a str,
    /// The body.
    pub body: &'a str,
    /// The date.
    pub date: Zoned,
}

impl Mail<'_> {
    /// Returns the mail as it is sent. Characters outside ASCII are declared as UTF-8.
    pub fn text(&self) -> String {
        // A mail in ASCII has exactly Salt's headers; only others need those of MIME.
        let plain = self.body.is_ascii();
        let kind = if plain {
            ""
        } else {
            "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n"
        };
        format!(
            "From: {}\r\nTo: {}\r\nDate: {}\r\nSubject: {}\r\n{kind}\r\n{}",
            one_line(self.from),
            one_line(&self.to.join(", ")),
            self.date.strftime("%a, %d %b %Y %H:%M:%S %z"),
            header(self.subject),
            self.body
        )
    }
}

/// A line break in a header would start another header.
fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn header(text: &str) -> String {
    let text = one_line(text);
    if text.is_ascii() { text } else { format!("=?utf-8?b?{}?=", STANDARD.encode(text)) }
}

/// Returns the bare address in `Name <address>`.
pub fn address(text: &str) -> String {
    // Envelope commands take the bare address. Control characters would end the command and begin another.
    let bare = text.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or(text, |(bare, _)| bare);
    bare.trim().chars().filter(|letter| !letter.is_control() && !matches!(letter, '<' | '>' | ' ')).collect()
}

/// Returns the lines of a mail as they are sent: each ends with CR LF, and a dot at its beginning is doubled.
pub fn on_the_wire(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.replace("\r\n", "\n").replace('\r', "\n").trim_end_matches('\n').split('\n') {
        if line.starts_with('.') {
            out.push('.');
        }
        out.push_str(line);
        out.push_str("\r\n");
    }
    out.push_str(".\r\n");
    out
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::*;

    fn mail(subject: &str, body: &str) -> String {
        let date = Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC);
        Mail { from: "a@b", to: &["c@d".into(), "e@f".into()], subject, body, date }.text()
    }

    #[test]
    fn a_mail_has_salts_headers() {
        let expected =
            "From: a@b\r\nTo: c@d, e@f\r\nDate: Thu, 01 Jan 1970 00:00:00 +0000\r\nSubject: hello\r\n\r\nid: x";
        assert_eq!(mail("hello", "id: x"), expected);
    }

    #[test]
    fn other_characters_are_encoded_and_headers_cannot_be_injected() {
        let text = mail("ä", "ö");
        assert!(text.contains("Subject: =?utf-8?b?w6Q=?=\r\n") && text.contains("charset=utf-8"), "{text}");
        assert!(mail("x\r\nBcc: evil@e", "").contains("Subject: x  Bcc: evil@e\r\n"));
        assert_eq!(address("Me <a@b>"), "a@b");
        assert_eq!(address(" a@b\r\nDATA"), "a@bDATA");
    }

    #[test]
    fn lines_end_with_cr_lf_and_dots_are_doubled() {
        assert_eq!(on_the_wire("a\n.\r\n..b\rc\n\n"), "a\r\n..\r\n...b\r\nc\r\n.\r\n");
    }
}
