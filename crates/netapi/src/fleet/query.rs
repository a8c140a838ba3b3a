//! Which part of a list is wanted.

use value::{Map, Value, map};

use crate::failure::Failure;

/// The number of items of a page if nothing else is said, and the most of each kind.
const FEW: usize = 50;
const MOST_JOBS: usize = 200;
const MOST_MINIONS: usize = 1000;

/// The longest value of a filter, in bytes.
const LONGEST: usize = 4096;

/// Which jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobQuery {
    /// The number of jobs.
    pub limit: usize,
    /// Only those before this job id, the cursor.
    pub before: Option<String>,
    /// A shell glob for the function.
    pub fun: Option<String>,
    /// A shell glob for the target.
    pub tgt: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// A minion that is to return.
    pub minion: Option<String>,
    /// The earliest begin: `2h` ago, a date, or seconds since 1970.
    pub since: Option<String>,
    /// The latest begin.
    pub until: Option<String>,
    /// `running`, `failed` or `done`.
    pub state: Option<String>,
}

impl Default for JobQuery {
    fn default() -> Self {
        JobQuery {
            limit: FEW,
            before: None,
            fun: None,
            tgt: None,
            user: None,
            minion: None,
            since: None,
            until: None,
            state: None,
        }
    }
}

impl JobQuery {
    /// Reads the query of an address.
    ///
    /// # Errors
    /// When a field is unknown or cannot be right.
    pub fn of(query: &str) -> Result<Self, Failure> {
        let mut fields = Fields::of(query)?;
        let wanted = JobQuery {
            limit: fields.limit(MOST_JOBS)?,
            before: fields.take("before"),
            fun: fields.take("fun"),
            tgt: fields.take("tgt"),
            user: fields.take("user"),
            minion: fields.take("minion"),
            since: fields.take("since"),
            until: fields.take("until"),
            state: fields.one_of("state", &["running", "failed", "done"])?,
        };
        if wanted.before.as_deref().is_some_and(|cursor| !wire::Jid::is_valid(cursor)) {
            return Err(Failure::bad_request("'before' is not a cursor of this list"));
        }
        fields.end().map(|()| wanted)
    }

    /// Returns the fields of the request to the master.
    pub fn fields(&self) -> Map {
        map! {
            "limit" => self.limit, "before" => self.before.clone(), "fun" => self.fun.clone(), "tgt" => self.tgt.clone(),
            "by" => self.user.clone(), "minion" => self.minion.clone(), "since" => self.since.clone(),
            "until" => self.until.clone(), "state" => self.state.clone(),
        }
    }
}

/// Which minions.
#[derive(Clone, Debug, PartialEq)]
pub struct MinionQuery {
    /// The number of minions.
    pub limit: usize,
    /// Only those behind this id, the cursor.
    pub after: Option<String>,
    /// Only this one.
    pub id: Option<String>,
    /// A part of the id.
    pub q: Option<String>,
    /// A compound target.
    pub target: Option<String>,
    /// `up`, `down`, `pending`, `rejected` or `denied`.
    pub status: Option<String>,
    /// True for the reverse order of ids.
    pub reverse: bool,
}

impl Default for MinionQuery {
    fn default() -> Self {
        MinionQuery { limit: FEW, after: None, id: None, q: None, target: None, status: None, reverse: false }
    }
}

impl MinionQuery {
    /// Reads the query of an address.
    ///
    /// # Errors
    /// When a field is unknown or cannot be right.
    pub fn of(query: &str) -> Result<Self, Failure> {
        let mut fields = Fields::of(query)?;
        let wanted = MinionQuery {
            limit: fields.limit(MOST_MINIONS)?,
            after: fields.take("after"),
            id: fields.take("id"),
            q: fields.take("q"),
            target: fields.take("target"),
            status: fields.one_of("status", &["up", "down", "pending", "rejected", "denied"])?,
            reverse: fields.one_of("sort", &["id", "-id"])?.as_deref() == Some("-id"),
        };
        fields.end().map(|()| wanted)
    }

    /// Returns the fields of the request to the master.
    pub fn fields(&self) -> Map {
        map! {
            "limit" => self.limit, "after" => self.after.clone(), "id" => self.id.clone(), "q" => self.q.clone(),
            "target" => self.target.clone(), "status" => self.status.clone(), "reverse" => self.reverse,
        }
    }
}

/// Which keys.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyQuery {
    /// The number of keys.
    pub limit: usize,
    /// Only those behind this cursor.
    pub after: Option<String>,
    /// Only those of this minion.
    pub id: Option<String>,
    /// A part of the id.
    pub q: Option<String>,
    /// `pending`, `accepted`, `rejected` or `denied`.
    pub state: Option<String>,
}

impl Default for KeyQuery {
    fn default() -> Self {
        KeyQuery { limit: FEW, after: None, id: None, q: None, state: None }
    }
}

impl KeyQuery {
    /// Reads the query of an address.
    ///
    /// # Errors
    /// When a field is unknown or cannot be right.
    pub fn of(query: &str) -> Result<Self, Failure> {
        let mut fields = Fields::of(query)?;
        let wanted = KeyQuery {
            limit: fields.limit(MOST_MINIONS)?,
            after: fields.take("after"),
            id: fields.take("id"),
            q: fields.take("q"),
            state: fields.one_of("state", &["pending", "accepted", "rejected", "denied"])?,
        };
        fields.end().map(|()| wanted)
    }

    /// Returns the fields of the request to the master.
    pub fn fields(&self) -> Map {
        let mut fields = map! {
            "limit" => self.limit, "after" => self.after.clone(), "q" => self.q.clone(), "state" => self.state.clone(),
        };
        // The master refuses each request whose `id` is no text.
        if let Some(id) = &self.id {
            fields.insert("id", id.as_str());
        }
        fields
    }
}

/// A job that is not published.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewQuery {
    /// The target.
    pub target: Value,
    /// The type of the target.
    pub target_type: String,
    /// The function, or a list of them; without one only the target is looked at.
    pub function: Option<Value>,
    /// The arguments.
    pub arguments: Vec<Value>,
}

impl PreviewQuery {
    /// Returns the fields of the request to the master.
    pub fn fields(&self) -> Map {
        map! {
            "tgt" => self.target.clone(), "tgt_type" => self.target_type.as_str(), "fun" => self.function.clone(),
            "arg" => self.arguments.clone(),
        }
    }
}

/// The fields of a query, each of which may be there once.
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads a query.
    ///
    /// # Errors
    /// When a field is there twice or is too long.
    pub fn of(query: &str) -> Result<Self, Failure> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let name = value::escape::brief(&name, 40).to_string();
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(Failure::bad_request(format!("'{name}' is there twice")));
            }
            if value.len() > LONGEST {
                return Err(Failure::bad_request(format!("'{name}' is too long")));
            }
            fields.push((name, value.into_owned()));
        }
        Ok(Fields(fields))
    }

    /// Takes a field. An empty one is none.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(place).1).filter(|value| !value.is_empty())
    }

    /// Takes a field that has one of a few values.
    ///
    /// # Errors
    /// When it has another one.
    pub fn one_of(&mut self, name: &str, values: &[&str]) -> Result<Option<String>, Failure> {
        match self.take(name) {
            Some(value) if !values.contains(&value.as_str()) => {
                Err(Failure::bad_request(format!("'{name}' must be one of: {}", values.join(", "))))
            }
            other => Ok(other),
        }
    }

    /// Takes the number of items of a page.
    ///
    /// # Errors
    /// When it is no number, or not between 1 and `most`.
    pub fn limit(&mut self, most: usize) -> Result<usize, Failure> {
        let Some(text) = self.take("limit") else { return Ok(FEW) };
        text.parse()
            .ok()
            .filter(|limit| (1..=most).contains(limit))
            .ok_or_else(|| Failure::bad_request(format!("'limit' must be a number from 1 to {most}")))
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When there are unknown fields.
    pub fn end(self) -> Result<(), Failure> {
        match self.0.first() {
            Some((name, _)) => Err(Failure::bad_request(format!("There is no parameter '{name}' here"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read() {
        let query = JobQuery::of("limit=10&before=20261126160511953300&fun=test.*&state=failed&user=").unwrap();
        let expected = JobQuery {
            limit: 10,
            before: Some("20261126160511953300".to_owned()),
            fun: Some("test.*".to_owned()),
            state: Some("failed".to_owned()),
            ..JobQuery::default()
        };
        assert_eq!(query, expected);
        assert_eq!(JobQuery::of("").unwrap(), JobQuery::default());
        assert!(MinionQuery::of("sort=-id").unwrap().reverse);
    }

    #[test]
    fn a_request_without_an_id_has_no_such_field() {
        assert!(!KeyQuery::default().fields().contains_key("id"));
        let one = KeyQuery { id: Some("web1".to_owned()), ..KeyQuery::default() };
        assert_eq!(one.fields().get_str("id"), Some("web1"));
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let long = format!("fun={}", "x".repeat(LONGEST + 1));
        for bad in [
            "limit=0",
            "limit=201",
            "limit=x",
            "limit=-1",
            "before=..",
            "before=1",
            "state=odd",
            "fun=a&fun=b",
            "x=1",
            &long,
        ] {
            assert_eq!(JobQuery::of(bad).unwrap_err().status, 400, "{bad}");
        }
        for bad in ["sort=os", "status=here", "limit=1001"] {
            assert_eq!(MinionQuery::of(bad).unwrap_err().status, 400, "{bad}");
        }
        assert_eq!(KeyQuery::of("state=odd").unwrap_err().status, 400);
    }
}
