//! The description of `/v1` for programs: OpenAPI 3.1, from the table of routes.

use serde_json::{Map, Value as Json, json};

use super::table::{ROUTES, Route};

/// Returns the description.
pub fn description(prefix: &str) -> Json {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    let server = if prefix.is_empty() { "/" } else { prefix };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Saltern", "version": "1",
            "description": "Fields are only ever added. Log in at /login; the header X-Auth-Token has the session.",
        },
        "servers": [{ "url": server }],
        "security": [{ "session": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "session": { "type": "apiKey", "in": "header", "name": "X-Auth-Token" } },
            "schemas": schemas(),
            "responses": {
                "Problem": {
                    "description": "What is wrong (RFC 9457).",
                    "content": { "application/problem+json": { "schema": reference("Problem") } },
                },
            },
        },
    })
}

fn reference(schema: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn operation(route: &Route) -> Json {
    let about = match route.right {
        Some(right) => format!("{} Needs the right to {right}.", route.about),
        None => route.about.to_owned(),
    };
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path =
        in_path.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = route.query.iter().map(|name| {
        let kind = if matches!(*name, "limit" | "wait" | "failed") { "integer" } else { "string" };
        json!({ "name": name, "in": "query", "schema": { "type": kind } })
    });
    let header = |name: &str| json!({ "name": name, "in": "header", "schema": { "type": "string" } });
    let headers = match route.path {
        "/v1/events" => vec![header("Last-Event-ID")],
        "/v1/jobs" if route.method == "POST" => vec![header("Idempotency-Key")],
        _ => Vec::new(),
    };
    let parameters: Vec<Json> = in_path.chain(in_query).chain(headers).collect();
    let (kind, schema) = route.answer;
    let content = json!({ kind: { "schema": reference(schema) } });
    let mut responses = Map::new();
    if route.query.contains(&"wait") {
        let content = json!({
            "application/jsonl": { "schema": reference("Line") },
            "application/json": { "schema": reference(route.answer.1) },
        });
        let about =
            "With `wait`, the returns as they come. For a target that means nobody, `jid` is null and nothing ran.";
        responses.insert("200".to_owned(), json!({ "description": about, "content": content }));
    }
    responses.insert(route.status.to_string(), json!({ "description": route.about, "content": content }));
    responses.insert("default".to_owned(), json!({ "$ref": "#/components/responses/Problem" }));
    let mut described = json!({
        "operationId": format!("{:?}{}", route.operation, if route.path.ends_with("{kind}") { "Of" } else { "" }),
        "summary": about, "responses": responses,
    });
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = route.body {
        described["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": reference(body) } } });
    }
    described
}

/// Describes an object by its fields: `text`, `number`, `flag`, `any`, `texts`, or the name of another schema. A question mark
/// behind it allows null, a star makes a list of it, `*?` a list or null, and a field with a minus sign before its name may be missing.
fn object(fields: &[(&str, &str)]) -> Json {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, kind) in fields {
        let bare = name.trim_start_matches('-');
        if bare == *name {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), typed(kind));
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn typed(kind: &str) -> Json {
    if let Some(item) = kind.strip_suffix("*?") {
        return json!({ "type": ["array", "null"], "items": typed(item) });
    }
    if let Some(item) = kind.strip_suffix('*') {
        return json!({ "type": "array", "items": typed(item) });
    }
    let (bare, null) = kind.strip_suffix('?').map_or((kind, false), |bare| (bare, true));
    let plain = match bare {
        "text" => Some("string"),
        "number" => Some("number"),
        "flag" => Some("boolean"),
        _ => None,
    };
    match (bare, plain, null) {
        ("any", ..) => json!({}),
        (_, Some(plain), false) => json!({ "type": plain }),
        (_, Some(plain), true) => json!({ "type": [plain, "null"] }),
        (schema, None, false) => reference(schema),
        (schema, None, true) => json!({ "anyOf": [reference(schema), { "type": "null" }] }),
    }
}

fn schemas() -> Json {
    let mut all = Map::new();
    for part in [requests(), jobs(), fleet()] {
        for (name, fields) in part {
            all.insert((*name).to_owned(), object(fields));
        }
    }
    all.into()
}

type Schemas = &'static [(&'static str, &'static [(&'static str, &'static str)])];

fn requests() -> Schemas {
    &[
        ("Problem", &[("type", "text"), ("title", "text"), ("status", "number"), ("detail", "text")]),
        (
            "Description",
            &[
                ("openapi", "text"),
                ("info", "any"),
                ("servers", "any*"),
                ("security", "any*"),
                ("paths", "any"),
                ("components", "any"),
            ],
        ),
        ("Target", &[("tgt", "any"), ("-tgt_type", "text"), ("-fun", "any"), ("-arg", "any*"), ("-kwarg", "any")]),
        (
            "NewJob",
            &[
                ("tgt", "any"),
                ("-tgt_type", "text"),
                ("fun", "any"),
                ("-arg", "any*"),
                ("-kwarg", "any"),
                ("-ret", "text"),
                ("-metadata", "any"),
                ("-timeout", "number"),
            ],
        ),
        ("Fingerprint", &[("fingerprint", "text")]),
        ("KeyToDecide", &[("id", "text"), ("fingerprint", "text")]),
        ("Keychain", &[("action", "text"), ("keys", "KeyToDecide*")]),
    ]
}

fn jobs() -> Schemas {
    &[
        (
            "Counts",
            &[
                ("expected", "number"),
                ("returned", "number"),
                ("failed", "number"),
                ("running", "number"),
                ("silent", "number"),
            ],
        ),
        (
            "Job",
            &[
                ("jid", "text"),
                ("fun", "any"),
                ("arg", "any"),
                ("tgt", "any"),
                ("tgt_type", "text"),
                ("user", "text"),
                ("start", "text?"),
                ("end", "text?"),
                ("state", "text"),
                ("counts", "Counts"),
            ],
        ),
        ("Jobs", &[("jobs", "Job*"), ("next", "text?")]),
        ("Return", &[("id", "text"), ("return", "any"), ("retcode", "any"), ("success", "flag"), ("out", "text?")]),
        ("Returns", &[("returns", "Return*"), ("next", "text?")]),
        ("Published", &[("jid", "text?"), ("minions", "text*")]),
        ("Killed", &[("jid", "text"), ("killed_by", "text?"), ("minions", "text*")]),
        (
            "Line",
            &[
                ("-jid", "text"),
                ("-minions", "text*"),
                ("-id", "text"),
                ("-return", "any"),
                ("-retcode", "any"),
                ("-success", "flag"),
                ("-end", "flag"),
                ("-missing", "text*"),
                ("-running", "text*?"),
            ],
        ),
        ("GrantedBy", &[("entry", "any"), ("count", "number")]),
        (
            "Preview",
            &[
                ("count", "number"),
                ("minions", "text*"),
                ("away_count", "number"),
                ("away", "text*"),
                ("allowed", "flag?"),
                ("refused_count", "number"),
                ("refused", "text*"),
                ("granted_by", "GrantedBy*"),
            ],
        ),
        ("Event", &[("tag", "text"), ("data", "any")]),
    ]
}

fn fleet() -> Schemas {
    &[
        ("Grant", &[("entry", "any"), ("text", "text")]),
        (
            "Whoami",
            &[
                ("user", "text"),
                ("eauth", "text"),
                ("groups", "text*"),
                ("expires", "text"),
                ("all_events", "flag"),
                ("grants", "Grant*"),
            ],
        ),
        (
            "Highstate",
            &[("jid", "text"), ("time", "text"), ("total", "number"), ("failed", "number"), ("changed", "number")],
        ),
        (
            "Minion",
            &[
                ("id", "text"),
                ("status", "text"),
                ("masters", "text*"),
                ("last_seen", "text?"),
                ("version", "text?"),
                ("os", "text?"),
                ("highstate", "Highstate?"),
            ],
        ),
        ("Minions", &[("minions", "Minion*"), ("next", "text?")]),
        ("Key", &[("id", "text"), ("state", "text"), ("fingerprint", "text?")]),
        ("Keys", &[("keys", "Key*"), ("next", "text?")]),
        (
            "Outcome",
            &[("id", "text"), ("status", "number"), ("-state", "text"), ("-fingerprint", "text?"), ("-detail", "text")],
        ),
        ("Outcomes", &[("keys", "Outcome*")]),
        (
            "Master",
            &[
                ("name", "text?"),
                ("state", "text"),
                ("node", "text?"),
                ("role", "text?"),
                ("minions", "number?"),
                ("since", "text?"),
                ("version", "text?"),
                ("compared", "text?"),
                ("addresses", "text*"),
                ("address", "text?"),
                ("reason", "text?"),
                ("rtt_ms", "number?"),
                ("clock_ms", "number?"),
                ("queue_bytes", "number?"),
                ("dropped", "number?"),
            ],
        ),
        (
            "Masters",
            &[("cluster_id", "text?"), ("masters", "Master*"), ("others", "Master*"), ("keys", "any"), ("once", "any")],
        ),
        ("DriftRow", &[("kind", "text"), ("state", "text"), ("on", "text*"), ("since", "text?")]),
        ("DriftEntry", &[("name", "text"), ("on", "any")]),
        (
            "Drift",
            &[
                ("kinds", "DriftRow*"),
                ("entries", "DriftEntry*"),
                ("more", "flag"),
                ("compared_with", "text*"),
                ("not_compared", "text*"),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_described_and_each_schema_exists() {
        let description = description("/salt");
        assert_eq!(description["servers"][0]["url"], "/salt");
        for route in ROUTES {
            let described = &description["paths"][route.path][route.method.to_ascii_lowercase()];
            assert!(described["summary"].as_str().unwrap().starts_with(route.about), "{} {}", route.method, route.path);
            assert!(described["responses"][route.status.to_string()]["content"][route.answer.0].is_object());
        }
        let (text, schemas) = (description.to_string(), &description["components"]["schemas"]);
        for (_, rest) in text.match_indices("#/components/schemas/").map(|(at, found)| text.split_at(at + found.len()))
        {
            let name = rest.split('"').next().unwrap();
            assert!(schemas[name].is_object(), "{name}");
        }
        let mut ids: Vec<&str> = ROUTES
            .iter()
            .map(|route| &description["paths"][route.path][route.method.to_ascii_lowercase()]["operationId"])
            .map(|id| id.as_str().unwrap())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len(), "an operation has a name of its own");
    }

    #[test]
    fn a_field_may_be_null_or_missing() {
        let described = object(&[("a", "text?"), ("-b", "number*"), ("c", "Key?")]);
        assert_eq!(described["required"], json!(["a", "c"]));
        assert_eq!(described["properties"]["a"], json!({"type": ["string", "null"]}));
        assert_eq!(described["properties"]["b"], json!({"type": "array", "items": {"type": "number"}}));
        assert_eq!(described["properties"]["c"]["anyOf"][1], json!({"type": "null"}));
        assert_eq!(typed("text*?"), json!({"type": ["array", "null"], "items": {"type": "string"}}));
    }
}
