//! The fields of each kind of message, there and back.

use bytes::Bytes;
use value::Value;

use super::compare::{self as comparing, Differ, Fetch, Items, Missing, Parts, Root};
use super::here::Here;
use super::{Answer, Ask, Event, Have, Job, MAX_WHOLE, Message, NamedDigest, Part, Progress, Put, Stored};
use crate::fields::{self, Fields, MAX_NAME, Malformed, number};
use crate::{Class, Key, Record};

/// The maximum number of records or other things in a message.
const MOST: usize = 100_000;

/// The maximum number of ids in a list.
const MOST_IDS: usize = 1_000_000;

/// The maximum length of a tag or a reason in bytes.
const MAX_TEXT: usize = 4_096;

pub(super) fn to_fields(message: &Message) -> (&'static str, Vec<Value>) {
    match message {
        Message::Put(put) => ("put", put.to_fields()),
        Message::Stored(stored) => ("stored", stored.to_fields()),
        Message::Have(all) => ("have", vec![list(all, Have::to_value)]),
        Message::Want(all) => {
            ("want", vec![list(all, |(class, key)| Value::List(vec![fields::class(*class), fields::key(key)]))])
        }
        Message::Root(root) => ("root", root.to_fields()),
        Message::Parts(parts) => ("parts", parts.to_fields()),
        Message::Differ(differ) => ("differ", differ.to_fields()),
        Message::Items(items) => ("items", items.to_fields()),
        Message::Missing(missing) => ("missing", missing.to_fields()),
        Message::Fetch(fetch) => ("fetch", fetch.to_fields()),
        Message::Job(job) => ("job", job.to_fields()),
        Message::Progress(all) => ("progress", vec![list(all, Progress::to_value)]),
        Message::Drop(jid) => ("drop", vec![Value::from(jid.as_str())]),
        Message::Events(all) => ("events", vec![list(all, Event::to_value)]),
        Message::Here(here) => ("here", here.to_fields()),
        Message::Digests(all) => ("digests", vec![list(all, NamedDigest::to_value)]),
        Message::Ask(Ask { number: n, question, arguments }) => {
            ("ask", vec![number(*n), Value::from(question.as_str()), Value::bytes(arguments.clone())])
        }
        Message::Answer(Answer { number: n, value }) => ("answer", vec![number(*n), Value::bytes(value.clone())]),
        Message::Vote(packed) => ("vote", vec![Value::bytes(packed.clone())]),
        Message::Part(Part { id, place, of, bytes }) => {
            ("part", vec![number(*id), number(*place), number(*of), Value::bytes(bytes.clone())])
        }
    }
}

pub(super) fn from_fields(kind: &str, mut fields: Fields) -> Result<Option<Message>, Malformed> {
    Ok(Some(match kind {
        "put" => Message::Put(Put::read(fields)?),
        "stored" => Message::Stored(Stored::read(fields)?),
        "have" => Message::Have(all(&mut fields, Have::read)?),
        "want" => Message::Want(all(&mut fields, read_wanted)?),
        "root" => Message::Root(Root::read(fields)?),
        "parts" => Message::Parts(Parts::read(fields)?),
        "differ" => Message::Differ(Differ::read(fields)?),
        "items" => Message::Items(Items::read(fields)?),
        "missing" => Message::Missing(Missing::read(fields)?),
        "fetch" => Message::Fetch(Fetch::read(fields)?),
        "job" => Message::Job(Job::read(fields)?),
        "progress" => Message::Progress(all(&mut fields, |one| Progress::read(one).map(Some))?),
        "drop" => Message::Drop(fields.text("a job id", Key::MAX_LEN)?),
        "events" => Message::Events(all(&mut fields, |one| Event::read(one).map(Some))?),
        "here" => Message::Here(Here::read(fields)?),
        "digests" => Message::Digests(all(&mut fields, |one| NamedDigest::read(one).map(Some))?),
        "ask" => Message::Ask(Ask {
            number: fields.number("a number")?,
            question: fields.text("a question", MAX_NAME)?,
            arguments: fields.bytes("arguments", MAX_WHOLE)?,
        }),
        "answer" => {
            Message::Answer(Answer { number: fields.number("a number")?, value: fields.bytes("an answer", MAX_WHOLE)? })
        }
        "vote" => Message::Vote(fields.bytes("a vote", MAX_TEXT)?),
        "part" => Message::Part(Part {
            id: fields.number("the id of a part")?,
            place: fields.number("the place of a part")?,
            of: fields.number("the number of parts")?,
            bytes: fields.bytes("a part", super::MAX_MESSAGE)?,
        }),
        _ => return Ok(None),
    }))
}

fn list<T>(all: &[T], to_value: impl Fn(&T) -> Value) -> Value {
    Value::List(all.iter().map(to_value).collect())
}

/// Reads the things of a list that this version knows.
fn all<T>(fields: &mut Fields, read: impl Fn(Fields) -> Result<Option<T>, Malformed>) -> Result<Vec<T>, Malformed> {
    const WHAT: &str = "a list";
    let mut list = fields.list(WHAT, MOST)?;
    let mut found = Vec::new();
    while list.left() > 0 {
        found.extend(read(Fields::of(list.next(WHAT)?, WHAT)?)?);
    }
    Ok(found)
}

fn texts(fields: &mut Fields, what: &'static str) -> Result<Vec<String>, Malformed> {
    let mut list = fields.list(what, MOST_IDS)?;
    let mut found = Vec::new();
    while list.left() > 0 {
        found.push(list.text(what, Key::MAX_LEN)?);
    }
    Ok(found)
}

fn read_wanted(mut fields: Fields) -> Result<Option<(Class, Key)>, Malformed> {
    let Some(class) = fields.class()? else { return Ok(None) };
    Ok(Some((class, fields.key()?)))
}

impl Put {
    fn to_fields(&self) -> Vec<Value> {
        let records = list(&self.records, |(record, age)| record.to_value(*age));
        let mut all = vec![number(self.number), records];
        if let Some((round, served)) = self.served {
            all.push(Value::List(vec![number(round), number(served)]));
        }
        all
    }

    fn read(mut fields: Fields) -> Result<Put, Malformed> {
        let number = fields.number("a number")?;
        let (records, unreadable) = read_records(fields.list("records", MOST)?)?;
        let served = match fields.left() {
            0 => None,
            _ => {
                let mut pair = fields.list("what was served", 8)?;
                Some((pair.number("a comparison")?, pair.number("what was served")?))
            }
        };
        Ok(Put { number, records, unreadable, served })
    }
}

type Unreadable = Vec<(u64, Option<Malformed>)>;

/// Reads records one by one: what is wrong with one of them must not keep the others back.
fn read_records(mut list: Fields) -> Result<(Vec<(Record, u64)>, Unreadable), Malformed> {
    const WHAT: &str = "a record";
    let (mut records, mut unreadable) = (Vec::new(), Vec::new());
    // The sender is told the places, because a key that cannot be read cannot be named.
    for place in 0..list.left() as u64 {
        match Fields::of(list.next(WHAT)?, WHAT).and_then(Record::read) {
            Ok(Some(record)) => records.push(record),
            // A class of a later version: the sender keeps it and takes no offence.
            Ok(None) => unreadable.push((place, None)),
            Err(error) => unreadable.push((place, Some(error))),
        }
    }
    Ok((records, unreadable))
}

impl Stored {
    fn to_fields(&self) -> Vec<Value> {
        let refused = |(place, reason): &(u64, String)| Value::List(vec![number(*place), Value::from(reason.as_str())]);
        let not_kept = list(&self.not_kept, |place| number(*place));
        vec![number(self.number), list(&self.refused, refused), not_kept]
    }

    fn read(mut fields: Fields) -> Result<Stored, Malformed> {
        let number = fields.number("a number")?;
        let refused = |mut one: Fields| Ok(Some((one.number("a place")?, one.plain("a reason", MAX_TEXT)?)));
        let refused = all(&mut fields, refused)?;
        let mut list = fields.list("a list", MOST)?;
        let mut not_kept = Vec::new();
        while list.left() > 0 {
            not_kept.push(list.number("a place")?);
        }
        Ok(Stored { number, refused, not_kept })
    }
}

impl Have {
    fn to_value(&self) -> Value {
        let Have { class, key, digest, stamp } = self;
        let (time, node) = (number(stamp.time), fields::node(stamp.node));
        Value::List(vec![fields::class(*class), fields::key(key), fields::digest(*digest), time, node])
    }

    fn read(mut fields: Fields) -> Result<Option<Have>, Malformed> {
        let Some(class) = fields.class()? else { return Ok(None) };
        Ok(Some(Have { class, key: fields.key()?, digest: fields.digest()?, stamp: fields.stamp()? }))
    }
}

impl Job {
    fn to_fields(&self) -> Vec<Value> {
        let ids = |ids: &[String]| list(ids, |id| Value::from(id.as_str()));
        let mut fields = vec![
            self.load.to_value(0),
            ids(&self.yours),
            ids(&self.rest),
            number(self.valid_for),
            Value::from(self.user.as_str()),
            fields::node(self.origin),
        ];
        fields.extend(self.sent.map(number));
        fields
    }

    fn read(mut fields: Fields) -> Result<Job, Malformed> {
        const LOAD: &str = "the load of a job";
        let load = Record::read(Fields::of(fields.next(LOAD)?, LOAD)?)?;
        let (load, _) = load.filter(|(load, _)| load.class() == Class::Job).ok_or(Malformed(LOAD))?;
        let (yours, rest) = (texts(&mut fields, "targets")?, texts(&mut fields, "targets")?);
        let valid_for = fields.number("how long a job is valid")?;
        let user = fields.text("a user", MAX_NAME)?;
        let origin = fields.node()?;
        // Added later. Members of one format number may differ by fields at the end.
        let sent = match fields.left() {
            0 => None,
            _ => Some(fields.number("when a job was sent")?),
        };
        Ok(Job { load, yours, rest, valid_for, user, origin, sent })
    }
}

impl Progress {
    fn to_value(&self) -> Value {
        Value::List(vec![Value::from(self.jid.as_str()), Value::from(self.minion.as_str()), number(self.how_far)])
    }

    fn read(mut fields: Fields) -> Result<Progress, Malformed> {
        let jid = fields.text("a job id", MAX_NAME)?;
        let minion = fields.text("a minion", MAX_NAME)?;
        Ok(Progress { jid, minion, how_far: fields.number("how far a job is")? })
    }
}

impl Event {
    fn to_value(&self) -> Value {
        let minion = self.minion.as_deref().map_or(Value::Null, Value::from);
        let data = Value::bytes(self.data.clone());
        let (time, node) = (number(self.stamp.time), fields::node(self.stamp.node));
        Value::List(vec![Value::from(self.tag.as_str()), data, minion, time, node])
    }

    fn read(mut fields: Fields) -> Result<Event, Malformed> {
        let tag = fields.text("a tag", MAX_TEXT)?;
        let data: Bytes = fields.bytes("the data of an event", MAX_WHOLE)?;
        let minion = fields.optional_text("a minion", MAX_NAME)?;
        Ok(Event { tag, data, minion, stamp: fields.stamp()? })
    }
}

impl NamedDigest {
    fn to_value(&self) -> Value {
        Value::List(vec![Value::from(self.kind.as_str()), Value::from(self.name.as_str()), fields::digest(self.digest)])
    }

    fn read(mut fields: Fields) -> Result<NamedDigest, Malformed> {
        let (kind, name) = (fields.text("a kind", MAX_NAME)?, fields.text("a name", MAX_TEXT)?);
        Ok(NamedDigest { kind, name, digest: fields.digest()? })
    }
}

impl Root {
    fn to_fields(&self) -> Vec<Value> {
        let sum = |(class, sum): &(Class, crate::Sum)| {
            let [count, total] = comparing::sum_values(*sum);
            Value::List(vec![fields::class(*class), count, total])
        };
        let since = number(u64::from(self.since));
        vec![number(self.round), since, Value::Bool(self.answer), list(&self.sums, sum)]
    }

    fn read(mut fields: Fields) -> Result<Root, Malformed> {
        let (round, since) = (fields.number("a comparison")?, comparing::minute(&mut fields)?);
        let answer = fields.flag("an answer")?;
        let sum = |mut one: Fields| {
            // A class that is not known here is not compared, and the others are.
            let Some(class) = one.class()? else { return Ok(None) };
            Ok(Some((class, comparing::read_sum(&mut one)?)))
        };
        Ok(Root { round, since, answer, sums: all(&mut fields, sum)? })
    }
}
