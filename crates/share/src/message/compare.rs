//! The messages of a comparison. Lists of parts and hashes are byte strings of numbers: there are thousands of them.

use bytes::Bytes;
use value::Value;

use super::MAX_WHOLE;
use crate::fields::{self, Fields, Malformed, number};
use crate::{Class, Level, Sum};

/// The maximum number of parts that a message names.
pub(crate) const MOST_PARTS: usize = 8_192;

/// The sums of all classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The number of the comparison.
    pub round: u64,
    /// The first minute of jobs that is compared.
    pub since: u32,
    /// This answers a question.
    pub answer: bool,
    /// The sum of each class.
    pub sums: Vec<(Class, Sum)>,
}

/// The sums of parts of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The number of the comparison.
    pub round: u64,
    /// The class.
    pub class: Class,
    /// The first minute of jobs that is compared.
    pub since: u32,
    /// How finely the class is divided.
    pub level: Level,
    /// The coarser parts that are divided; `None` for all.
    pub within: Option<(Level, Vec<u32>)>,
    /// The sums of the parts that are not empty.
    pub sums: Vec<(u32, Sum)>,
}

/// The parts that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differ {
    /// The number of the comparison.
    pub round: u64,
    /// How finely the class is divided.
    pub level: Level,
    /// Which parts differ.
    pub parts: Vec<u32>,
}

/// The records of some parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    /// The number of the comparison.
    pub round: u64,
    /// The class.
    pub class: Class,
    /// The first minute of jobs that is compared.
    pub since: u32,
    /// The parts.
    pub leaves: Vec<u32>,
    /// The short hashes of the records in them.
    pub hashes: Vec<u64>,
}

/// Records that one of two members lacks, by their short hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The number of the comparison.
    pub round: u64,
    /// What the sender lacks.
    pub here: Vec<u64>,
    /// What the receiver lacks.
    pub there: Vec<u64>,
}

/// A request for records by their short hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The number of the comparison.
    pub round: u64,
    /// The class.
    pub class: Class,
    /// The first minute of jobs that is compared.
    pub since: u32,
    /// The parts in which the records are.
    pub leaves: Vec<u32>,
    /// The short hashes of the records.
    pub hashes: Vec<u64>,
}

impl Parts {
    pub(super) fn to_fields(&self) -> Vec<Value> {
        let within = self.within.as_ref().map_or(Value::Null, |(level, parts)| {
            Value::List(vec![number(*level as u64), numbers(parts.iter().map(|part| part.to_be_bytes()))])
        });
        let sum = |(part, sum): &(u32, Sum)| {
            let [count, total] = sum_values(*sum);
            Value::List(vec![number(u64::from(*part)), count, total])
        };
        let sums = Value::List(self.sums.iter().map(sum).collect());
        let level = number(self.level as u64);
        vec![number(self.round), fields::class(self.class), number(u64::from(self.since)), level, within, sums]
    }

    pub(super) fn read(mut fields: Fields) -> Result<Parts, Malformed> {
        let (round, class, since) = header(&mut fields)?;
        let level = read_level(&mut fields, class)?;
        let within = match fields.next("coarser parts")? {
            Value::Null => None,
            value => {
                let mut pair = Fields::of(value, "coarser parts")?;
                let coarse = read_level(&mut pair, class)?;
                if coarse.finer() != Some(level) {
                    return Err(Malformed("coarser parts"));
                }
                Some((coarse, read_parts(&mut pair)?))
            }
        };
        let mut list = fields.list("sums", MOST_SUMS)?;
        let mut sums = Vec::new();
        while list.left() > 0 {
            let mut one = list.list("a sum", 8)?;
            sums.push((minute(&mut one)?, read_sum(&mut one)?));
        }
        Ok(Parts { round, class, since, level, within, sums })
    }
}

/// The maximum number of sums in a message: those of all days since 1970, or of the minutes of many hours.
const MOST_SUMS: usize = 65_536;

impl Differ {
    pub(super) fn to_fields(&self) -> Vec<Value> {
        let parts = numbers(self.parts.iter().map(|part| part.to_be_bytes()));
        vec![number(self.round), number(self.level as u64), parts]
    }

    pub(super) fn read(mut fields: Fields) -> Result<Differ, Malformed> {
        let round = fields.number("a comparison")?;
        let level = Level::from_number(fields.number("a level")?).ok_or(Malformed("a level"))?;
        Ok(Differ { round, level, parts: read_parts(&mut fields)? })
    }
}

impl Items {
    pub(super) fn to_fields(&self) -> Vec<Value> {
        named(self.round, self.class, self.since, &self.leaves, &self.hashes)
    }

    pub(super) fn read(mut fields: Fields) -> Result<Items, Malformed> {
        let (round, class, since) = header(&mut fields)?;
        Ok(Items { round, class, since, leaves: read_parts(&mut fields)?, hashes: read_hashes(&mut fields)? })
    }
}

impl Missing {
    pub(super) fn to_fields(&self) -> Vec<Value> {
        vec![number(self.round), hash_value(&self.here), hash_value(&self.there)]
    }

    pub(super) fn read(mut fields: Fields) -> Result<Missing, Malformed> {
        let round = fields.number("a comparison")?;
        Ok(Missing { round, here: read_hashes(&mut fields)?, there: read_hashes(&mut fields)? })
    }
}

impl Fetch {
    pub(super) fn to_fields(&self) -> Vec<Value> {
        named(self.round, self.class, self.since, &self.leaves, &self.hashes)
    }

    pub(super) fn read(fields: Fields) -> Result<Fetch, Malformed> {
        let Items { round, class, since, leaves, hashes } = Items::read(fields)?;
        Ok(Fetch { round, class, since, leaves, hashes })
    }
}

fn named(round: u64, class: Class, since: u32, leaves: &[u32], hashes: &[u64]) -> Vec<Value> {
    let leaves = numbers(leaves.iter().map(|part| part.to_be_bytes()));
    vec![number(round), fields::class(class), number(u64::from(since)), leaves, hash_value(hashes)]
}

/// Reads what the messages about one class begin with. A class of a later version was not asked for, so it is a mistake here.
fn header(fields: &mut Fields) -> Result<(u64, Class, u32), Malformed> {
    let round = fields.number("a comparison")?;
    let class = fields.class()?.ok_or(Malformed("a class"))?;
    Ok((round, class, minute(fields)?))
}

fn read_level(fields: &mut Fields, class: Class) -> Result<Level, Malformed> {
    let level = Level::from_number(fields.number("a level")?);
    level.filter(|level| level.fits(class)).ok_or(Malformed("a level"))
}

pub(super) fn minute(fields: &mut Fields) -> Result<u32, Malformed> {
    u32::try_from(fields.number("a part")?).map_err(|_| Malformed("a part"))
}

pub(super) fn sum_values(sum: Sum) -> [Value; 2] {
    [number(sum.count), Value::bytes(Bytes::copy_from_slice(&sum.total.to_be_bytes()))]
}

pub(super) fn read_sum(fields: &mut Fields) -> Result<Sum, Malformed> {
    let count = fields.number("a sum")?;
    Ok(Sum { count, total: u128::from_be_bytes(fields.array("a sum")?) })
}

fn numbers<const N: usize>(all: impl Iterator<Item = [u8; N]>) -> Value {
    Value::bytes(all.flatten().collect::<Vec<u8>>())
}

fn hash_value(hashes: &[u64]) -> Value {
    numbers(hashes.iter().map(|hash| hash.to_be_bytes()))
}

fn read_parts(fields: &mut Fields) -> Result<Vec<u32>, Malformed> {
    let all = read_numbers(fields, "parts", MOST_PARTS)?;
    Ok(all.into_iter().map(u32::from_be_bytes).collect())
}

fn read_hashes(fields: &mut Fields) -> Result<Vec<u64>, Malformed> {
    let all = read_numbers(fields, "hashes", MAX_WHOLE / 8)?;
    Ok(all.into_iter().map(u64::from_be_bytes).collect())
}

fn read_numbers<const N: usize>(
    fields: &mut Fields,
    what: &'static str,
    most: usize,
) -> Result<Vec<[u8; N]>, Malformed> {
    let packed = fields.bytes(what, most * N)?;
    let (all, rest) = packed.as_chunks::<N>();
    if rest.is_empty() { Ok(all.to_vec()) } else { Err(Malformed(what)) }
}
