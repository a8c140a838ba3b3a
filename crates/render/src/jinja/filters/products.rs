//! Filters from Python's `itertools`.

use jinja::python::{to_vec, truthy};
use jinja::{CallArgs, Error, Iter, State, Value, ValueIter};

use super::{too_many, undefined_in, whole};

/// The most results of one filter.
const MAX_RESULTS: usize = 1 << 20;

/// The results so far, at most [`MAX_RESULTS`].
struct Results(Vec<Value>);

impl Results {
    fn push(&mut self, items: Vec<Value>) -> Result<(), Error> {
        // Python's iterators are lazy; here all results exist at once and need a bound.
        if self.0.len() >= MAX_RESULTS {
            return Err(too_many());
        }
        self.0.push(Value::tuple(items));
        Ok(())
    }

    /// Returns an iterator that can be consumed once, like Python's.
    fn done(self) -> Result<Value, Error> {
        Ok(walk("itertools object", self.0))
    }
}

/// An iterator over owned values.
struct Walk(std::vec::IntoIter<Value>);

impl ValueIter for Walk {
    fn next(&mut self, _state: &mut State) -> Result<Option<Value>, Error> {
        Ok(self.0.next())
    }
}

fn walk(class: &'static str, items: Vec<Value>) -> Value {
    Value::Iter(Iter::new(class, Walk(items.into_iter())))
}

/// Returns early with the undefined value if the filtered value contains one.
macro_rules! defined {
    ($call:expr) => {
        if let Some(first) = $call.args.first().cloned()
            && let Some(undefined) = undefined_in($call.state, &first)
        {
            return Ok(undefined);
        }
    };
}

fn chosen(items: &[Value], places: &[usize]) -> Vec<Value> {
    places.iter().map(|place| items[*place].clone()).collect()
}

fn size(call: &mut CallArgs, name: &str) -> Result<(Vec<Value>, usize), Error> {
    let [items, size] = call.bind(name, [("iterable", None), ("r", None)])?;
    let size = whole(&size, "r")?;
    let size = usize::try_from(size).map_err(|_| Error::value_error("r must be non-negative"))?;
    Ok((to_vec(call.state, &items)?, size))
}

pub fn combinations(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let (items, size) = size(call, "combinations")?;
    let mut results = Results(Vec::new());
    if size > items.len() {
        return results.done();
    }
    let mut places: Vec<usize> = (0..size).collect();
    loop {
        results.push(chosen(&items, &places))?;
        // The rightmost place that can still move: the algorithm of Python's documentation, which fixes the order of
        // the results.
        let Some(at) = (0..size).rev().find(|at| places[*at] != at + items.len() - size) else {
            return results.done();
        };
        places[at] += 1;
        for next in at + 1..size {
            places[next] = places[next - 1] + 1;
        }
    }
}

pub fn combinations_with_replacement(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let (items, size) = size(call, "combinations_with_replacement")?;
    let mut results = Results(Vec::new());
    if items.is_empty() && size > 0 {
        return results.done();
    }
    let mut places = vec![0; size];
    loop {
        results.push(chosen(&items, &places))?;
        let Some(at) = (0..size).rev().find(|at| places[*at] + 1 < items.len()) else { return results.done() };
        let next = places[at] + 1;
        places[at..].fill(next);
    }
}

pub fn permutations(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let [values, size] = call.bind("permutations", [("iterable", None), ("r", Some(Value::None))])?;
    let items = to_vec(call.state, &values)?;
    let size = match size {
        Value::None => items.len(),
        size => usize::try_from(whole(&size, "r")?).map_err(|_| Error::value_error("r must be non-negative"))?,
    };
    let mut results = Results(Vec::new());
    if size > items.len() {
        return results.done();
    }
    permute(&items, size, &mut Vec::new(), &mut results)?;
    results.done()
}

fn permute(items: &[Value], size: usize, taken: &mut Vec<usize>, results: &mut Results) -> Result<(), Error> {
    if taken.len() == size {
        return results.push(chosen(items, taken));
    }
    for place in 0..items.len() {
        if !taken.contains(&place) {
            taken.push(place);
            permute(items, size, taken, results)?;
            taken.pop();
        }
    }
    Ok(())
}

fn all(state: &mut State, values: &[Value]) -> Result<Vec<Vec<Value>>, Error> {
    values.iter().map(|value| to_vec(state, value)).collect()
}

pub fn product(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let repeat = match call.take_kwarg("repeat") {
        Some(repeat) => usize::try_from(whole(&repeat, "repeat")?)
            .map_err(|_| Error::value_error("repeat argument cannot be negative"))?,
        None => 1,
    };
    call.no_kwargs("product")?;
    let args = std::mem::take(&mut call.args);
    let lists = all(call.state, &args)?;
    // Each row has one item per list. Rows must stay short even when their number is one.
    if repeat.saturating_mul(lists.len()) > 10_000 {
        return Err(too_many());
    }
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for list in std::iter::repeat_n(&lists, repeat).flatten() {
        if rows.len().saturating_mul(list.len()) > MAX_RESULTS {
            return Err(too_many());
        }
        rows =
            rows.iter().flat_map(|row| list.iter().map(|item| row.iter().chain([item]).cloned().collect())).collect();
    }
    let mut results = Results(Vec::new());
    rows.into_iter().try_for_each(|row| results.push(row))?;
    results.done()
}

pub fn compress(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let [data, selectors] = call.bind("compress", [("data", None), ("selectors", None)])?;
    let mut kept = Vec::new();
    let (items, selectors) = (to_vec(call.state, &data)?, to_vec(call.state, &selectors)?);
    for (item, selector) in items.into_iter().zip(selectors) {
        if truthy(call.state, &selector)? {
            kept.push(item);
        }
    }
    Ok(walk("itertools.compress", kept))
}

pub fn zip(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let strict = call.take_kwarg("strict").unwrap_or_default();
    call.no_kwargs("zip")?;
    let strict = truthy(call.state, &strict)?;
    let args = std::mem::take(&mut call.args);
    let lists = all(call.state, &args)?;
    let shortest = lists.iter().map(Vec::len).min().unwrap_or(0);
    // Python names the first argument whose length differs.
    if strict && let Some(other) = lists.iter().position(|list| list.len() != lists[0].len()) {
        let word = if lists[other].len() < lists[0].len() { "shorter" } else { "longer" };
        let (than, plural) = if other == 1 { ("1".to_owned(), "") } else { (format!("1-{other}"), "s") };
        let text = format!("zip() argument {} is {word} than argument{plural} {than}", other + 1);
        return Err(Error::value_error(text));
    }
    let mut results = Results(Vec::new());
    for row in 0..shortest {
        results.push(lists.iter().map(|list| list[row].clone()).collect())?;
    }
    results.done()
}

pub fn zip_longest(call: &mut CallArgs) -> Result<Value, Error> {
    defined!(call);
    let fill = call.take_kwarg("fillvalue").unwrap_or_default();
    call.no_kwargs("zip_longest")?;
    let args = std::mem::take(&mut call.args);
    let lists = all(call.state, &args)?;
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut results = Results(Vec::new());
    for row in 0..longest {
        results.push(lists.iter().map(|list| list.get(row).unwrap_or(&fill).clone()).collect())?;
    }
    results.done()
}
