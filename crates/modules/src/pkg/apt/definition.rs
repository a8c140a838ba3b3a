//! Parses the definition of a source, such as `deb http://… bookworm main` or `ppa:owner/name`.

use value::{Map, Value, map};

use crate::pkg::sources::{Line, MAIN_FILE, Source, Stanza, yes_or_no};

/// The facts about the machine that a definition depends on.
pub struct Facts<'a> {
    /// The grain `os`.
    pub os: &'a str,
    /// The grain `oscodename`.
    pub codename: &'a str,
}

impl Facts<'_> {
    /// Returns whether this system supports `ppa:`.
    pub fn has_ppas(&self) -> bool {
        ["Ubuntu", "Mint", "neon"].contains(&self.os)
    }

    /// Returns the line that a `ppa:owner/name` means, with owner and name. Other definitions give None.
    pub fn ppa(&self, repo: &str, auth: Option<&str>) -> Option<(String, String, String)> {
        // Elsewhere `ppa:` means nothing and is an error of the parser later.
        let (owner, name) = repo.strip_prefix("ppa:").filter(|_| self.has_ppas())?.split_once('/')?;
        let dist = self.codename;
        let line = match auth {
            // A private archive needs credentials, and those must not travel in plain text.
            Some(auth) => format!("deb https://{auth}@private-ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"),
            None => format!("deb http://ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"),
        };
        Some((line, owner.to_owned(), name.to_owned()))
    }
}

/// Splits a definition into its parts.
///
/// # Errors
/// When too little is left of it without its options.
pub fn split(repo: &str) -> Result<Line, String> {
    Line::parse(repo, None)
}

/// Lays the arguments of a call over a line.
fn apply(line: &mut Line, kwargs: &Map) -> Result<(), String> {
    let text = |name: &str| kwargs.get(name).filter(|value| !value.is_null()).map(Value::to_string);
    let list = |name: &str| kwargs.get(name).map(words);
    if let Some(uri) = text("uri") {
        line.uri = uri;
    }
    if let Some(comps) = list("comps") {
        line.comps = comps;
    }
    if let Some(architectures) = list("architectures") {
        line.architectures = architectures;
    }
    if let Some(disabled) = kwargs.get("disabled") {
        line.disabled = disabled.truthy();
    }
    if let Some(file) = text("file") {
        line.file = file;
    }
    if let Some(dist) = text("dist") {
        line.dist = dist;
    }
    if let Some(signedby) = text("signedby") {
        line.signedby = signedby;
    }
    if let Some(trusted) = kwargs.get("trusted") {
        line.trusted = flag(trusted)?;
    }
    Ok(())
}

/// Reads a list, or a text with commas.
pub fn words(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        Value::Null => Vec::new(),
        text => text.to_string().split(',').map(|part| part.trim().to_owned()).collect(),
    }
}

/// Reads yes or no. Returns None for anything else.
pub fn flag(value: &Value) -> Result<Option<bool>, String> {
    Ok(match value {
        Value::Bool(on) => Some(*on),
        Value::Int(number @ (0 | 1)) => Some(*number == 1),
        Value::Str(text) => Some(yes_or_no(text)?),
        _ => None,
    })
}

/// Expands a definition, with further arguments, to the fields of its entry in the file, as `pkg.get_repo` shows them.
///
/// # Errors
/// When the definition is invalid.
pub fn expanded(facts: &Facts, repo: &str, kwargs: &Map) -> Result<Map, String> {
    let mut kwargs = kwargs.clone();
    let auth = kwargs.get_str("ppa_auth").map(str::to_owned);
    let mut repo = repo.to_owned();
    if let Some((line, owner, name)) = facts.ppa(&repo, auth.as_deref()) {
        repo = line;
        // The name that add-apt-repository would choose.
        if !kwargs.contains_key("file") {
            kwargs.insert("file", format!("/etc/apt/sources.list.d/{owner}-{name}-{}.list", facts.codename));
        }
    }
    let mut line = Line::parse(&repo, None)?;
    apply(&mut line, &kwargs)?;
    let file = kwargs.get_str("file").unwrap_or(MAIN_FILE).to_owned();
    let trusted = kwargs.get("trusted").is_some_and(Value::truthy);
    let disabled = line.disabled;
    let mut source = match file.ends_with(".sources") {
        true => Source::Stanza(as_stanza(&line, &kwargs, &file)?),
        false => Source::Line(as_line(&line, trusted, &file)?),
    };
    match &mut source {
        Source::Line(line) => {
            line.disabled = disabled;
            // Written again after the flag, because a disabled line begins with a number sign.
            line.line = line.written();
        }
        Source::Stanza(stanza) => stanza.set_disabled(disabled),
    }
    let text = |value: Option<String>| value.map_or(Value::Null, Value::from);
    let (dist, kind, uri) = match &source {
        Source::Line(line) => (line.dist.clone(), line.kind.clone(), Some(line.uri.clone())),
        Source::Stanza(stanza) => {
            (stanza.get("Suites").to_owned(), stanza.get("Types").to_owned(), stanza.find("URIs").map(str::to_owned))
        }
    };
    Ok(map! {
        "file" => source.file(),
        "comps" => source.comps(),
        "disabled" => source.disabled(),
        "dist" => dist,
        "suites" => source.suites(),
        "type" => kind,
        "types" => source.types(),
        "uri" => text(uri),
        "uris" => source.uris(),
        "line" => source.to_string(),
        "architectures" => source.architectures(),
        "signedby" => line.signedby,
    })
}

fn as_line(line: &Line, trusted: bool, file: &str) -> Result<Line, String> {
    let mut options = Vec::new();
    if !line.architectures.is_empty() {
        options.push(format!("arch={}", line.architectures.join(",")));
    }
    if !line.signedby.is_empty() {
        options.push(format!("signed-by={}", line.signedby));
    }
    options.extend(trusted.then(|| "trusted=yes".to_owned()));
    let options = if options.is_empty() { String::new() } else { format!("[{}]", options.join(" ")) };
    let mut parts = vec![line.kind.as_str(), &options, &line.uri, &line.dist];
    parts.extend(line.comps.iter().map(String::as_str));
    parts.retain(|part| !part.is_empty());
    let mut made = Line::parse(&(parts.join(" ") + "\n"), None)?;
    made.file = file.to_owned();
    Ok(made)
}

fn as_stanza(line: &Line, kwargs: &Map, file: &str) -> Result<Stanza, String> {
    let mut stanza = Stanza { file: file.to_owned(), ..Stanza::default() };
    let list = |name: &str, single: &str| match kwargs.get(name) {
        Some(Value::List(items)) if !items.is_empty() => words(&Value::List(items.clone())).join(" "),
        _ => single.to_owned(),
    };
    stanza.set("Types", list("types", &line.kind));
    stanza.set("URIs", list("uris", &line.uri));
    stanza.set("Suites", list("suites", &line.dist));
    stanza.set("Components", line.comps.join(" "));
    if !line.architectures.is_empty() {
        stanza.set("Architectures", line.architectures.join(" "));
    }
    // The empty line parts the stanza from the one before it.
    stanza.header = vec![String::new()];
    if !line.signedby.is_empty() {
        stanza.set("Signed-By", line.signedby.clone());
    }
    if let Some(trusted) = kwargs.get("trusted")
        && *trusted != Value::Bool(false)
        && let Some(trusted) = flag(trusted)?
    {
        stanza.set("Trusted", if trusted { "yes" } else { "no" }.into());
    }
    Ok(stanza)
}
