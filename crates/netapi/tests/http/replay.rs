//! Replays requests that the real salt-api answered, beside a master that says what the real one said then.

use crate::support::{FRED, Running, TOKEN, WILMA};
use serde_json::Value as Json;

/// Answers that differ on purpose: the name of the exchange, our status and our message.
const DIFFERENT: [(&str, u16, &str); 7] = [
    ("login empty", 400, "Lowstates must be a list"),
    ("local missing tgt", 400, "'tgt' is missing"),
    ("runner unknown", 400, "'manage.nosuch' is not available."),
    ("bad yaml", 400, "Invalid YAML document"),
    ("logout get", 405, "Specified method is invalid for this resource"),
    ("root", 200, ""),
    ("root yaml", 200, ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_answers_are_given() {
    let recorded: Json = serde_json::from_str(include_str!("recordings/rest.json")).unwrap();
    // The real one has no pages, which browsers get at `/` here.
    let running = Running::start_with(value::map! { "console" => false }).await;
    let mut sessions = [running.log_in(FRED).await, running.log_in(WILMA).await];
    let mut wrong = Vec::new();
    for exchange in recorded["exchanges"].as_array().unwrap() {
        let exchange: Json = serde_json::from_str(&filled(&exchange.to_string(), &sessions)).unwrap();
        let name = exchange["name"].as_str().unwrap();
        running.expect(&exchange);
        let answer = running.send(&exchange["request"]).await;
        if let Err(difference) = compare(name, &exchange["response"], &answer) {
            wrong.push(format!("{name}: {difference}"));
        }
        if name == "after logout" {
            sessions[0] = running.log_in(FRED).await;
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn filled(text: &str, sessions: &[String; 2]) -> String {
    text.replace("<session of wilma>", &sessions[1]).replace("<session>", &sessions[0]).replace("<token>", TOKEN)
}

fn compare(name: &str, expected: &Json, answer: &crate::support::Answer) -> Result<(), String> {
    let different = DIFFERENT.iter().find(|(known, ..)| *known == name);
    let status =
        different.map_or_else(|| expected["status"].as_u64().unwrap_or_default(), |(_, status, _)| u64::from(*status));
    if u64::from(answer.status) != status {
        return Err(format!("status {} instead of {status}: {}", answer.status, answer.body));
    }
    if let Some((.., message)) = different {
        return if answer.body.contains(message) { Ok(()) } else { Err(answer.body.clone()) };
    }
    if let Some(message) = expected["message"].as_str() {
        let said = match answer.header("content-type") {
            Some("application/json") => answer.body == python(status, message),
            _ => answer.body.contains(&format!("<p>{}</p>", message.replace('\'', "&#x27;"))),
        };
        return if said { Ok(()) } else { Err(format!("{} instead of {message}", answer.body)) };
    }
    let body = expected["body"].as_str().unwrap_or_default();
    // A login makes a new session.
    let own = match name.starts_with("login") {
        true => answer.body.replace(answer.header("x-auth-token").unwrap_or("none"), &"s".repeat(40)),
        false => answer.body.clone(),
    };
    let body = match name.starts_with("login") {
        true => replaced_token(body),
        false => body.to_owned(),
    };
    if own != body {
        return Err(format!("\n  {own}\ninstead of\n  {body}"));
    }
    let kind = expected["headers"]["Content-Type"].as_str();
    if answer.header("content-type") != kind {
        return Err(format!("content type {:?}", answer.header("content-type")));
    }
    Ok(())
}

/// Returns an error as Python's `json.dumps` writes it.
fn python(status: u64, message: &str) -> String {
    format!("{{\"status\": {status}, \"return\": {}}}", serde_json::to_string(message).unwrap())
}

fn replaced_token(body: &str) -> String {
    let (before, rest) = body.split_once("\"token\": \"").unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    format!("{before}\"token\": \"{}\"{after}", "s".repeat(40))
}
