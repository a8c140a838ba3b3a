//! The order in which chunks run: dependencies first, then by `order`.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use value::{Map, Value};

use super::Graph;
use super::digraph::Node;

/// The largest number of chunks in one aggregated group.
const LARGEST_GROUP: usize = 500;

/// The number that `order: last` adds to the highest order.
const LAST: f64 = 1_000_000.0;

/// A node whose dependencies have all been placed. The one with the smallest order is placed next.
struct Ready {
    order: f64,
    own_order: f64,
    label: String,
    tag: String,
    node: usize,
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        // Reversed, because Rust's heap returns the largest element and Python's the smallest. Label and tag make the
        // order of equal numbers the same as Salt's in every run.
        let numbers = other.order.total_cmp(&self.order).then(other.own_order.total_cmp(&self.own_order));
        numbers.then_with(|| other.label.cmp(&self.label)).then_with(|| other.tag.cmp(&self.tag))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ready {}

impl Graph {
    /// Returns the chunks in order and forms the aggregated groups. `cap` is greater than the highest numeric `order`.
    ///
    /// # Errors
    /// The description of a cycle, if there is one.
    pub(crate) fn order(&mut self, cap: i64) -> Result<Vec<usize>, String> {
        let count = self.dag.len();
        let mut waits: Vec<usize> = (0..count).map(|node| self.dag.incoming(node).len()).collect();
        let mut ready = BinaryHeap::new();
        for node in (0..count).filter(|node| waits[*node] == 0) {
            ready.push(self.ready(node, cap));
        }
        let mut order = Vec::with_capacity(count);
        let mut groups: HashMap<String, Vec<Vec<usize>>> = HashMap::new();
        while let Some(Ready { node, .. }) = ready.pop() {
            self.group(node, &mut groups);
            order.extend(self.dag[node].chunk);
            // Groups are created during the loop; count only the nodes that existed before.
            let next: Vec<(usize, usize)> = self.dag.next(node).filter(|(to, _)| *to < count).collect();
            for (to, edges) in next {
                // Counted by edge, not by node: two states may be connected by several kinds of requisites.
                waits[to] = waits[to].saturating_sub(edges);
                if waits[to] == 0 {
                    ready.push(self.ready(to, cap));
                }
            }
        }
        // The remaining nodes wait for each other.
        if order.len() != count { Err(self.cycle_text()) } else { Ok(order) }
    }

    fn ready(&mut self, node: usize, cap: i64) -> Ready {
        // Only groups have no chunk, and they are created while the rest is being ordered.
        let chunk = self.dag[node].chunk.expect("a node that was there before has a chunk");
        let own_order = settle_order(self.chunk_mut(chunk), cap);
        let first_child = self.first_child(node, cap);
        let low = &self.chunks[chunk];
        let text = |key: &str| crate::high::text_of(low, key);
        let label = format!("{}{}{}", text("state"), text("name"), text("fun"));
        Ready { order: own_order.min(first_child), own_order, label, tag: self.dag[node].tag.clone(), node }
    }

    /// Returns the smallest order among the nodes that depend on a node by the heaviest kind of requisite so far.
    fn first_child(&mut self, node: usize, cap: i64) -> f64 {
        let (mut weight, mut least) = (-1, f64::INFINITY);
        for (child, kind) in self.dag.outgoing(node) {
            // As in Salt, a heavier kind does not discard the orders found so far; it only makes lighter kinds that
            // follow irrelevant.
            if kind.weight() < weight {
                continue;
            }
            weight = kind.weight();
            let Some(chunk) = self.dag[child].chunk else { continue };
            least = least.min(child_order(self.chunk_mut(chunk), cap));
        }
        least
    }

    /// Puts a node into a group of its state module from which the node cannot be reached.
    fn group(&mut self, node: usize, groups: &mut HashMap<String, Vec<Vec<usize>>>) {
        if !self.dag[node].allow_aggregate {
            return;
        }
        let state = self.dag[node].state.clone();
        let groups = groups.entry(state.clone()).or_default();
        for (index, members) in groups.iter_mut().enumerate() {
            let first = members[0];
            let group = self.dag[first].aggregate;
            // Aggregating a state with one it depends on would create a cycle.
            if members.len() >= LARGEST_GROUP || self.dag.reaches(group.unwrap_or(first), node) {
                continue;
            }
            let group = group.unwrap_or_else(|| {
                // The group takes over the dependencies of its members, so that the next check for a path covers them
                // all.
                let tag = format!("__aggregate_{state}_{index}__");
                let group = self.dag.add(Node { state: state.clone(), members: vec![first], ..Node::new(tag) });
                self.dag.copy_edges(first, group);
                self.dag[first].aggregate = Some(group);
                group
            });
            self.dag.copy_edges(node, group);
            self.dag[node].aggregate = Some(group);
            self.dag[group].members.push(node);
            members.push(node);
            return;
        }
        groups.push(vec![node]);
    }
}

/// Converts the order of a chunk to a number, stores it in the chunk and returns it.
fn settle_order(low: &mut Map, cap: i64) -> f64 {
    let mut order = child_order_value(low.get("order"), cap);
    if let Some(place) = low.remove("name_order").and_then(|place| place.as_f64()).filter(|place| *place != 0.0) {
        // The names of one declaration run in the order of the list, all before the next whole number.
        let sum = order.as_f64().unwrap_or_default() + place / 10_000.0;
        order = Value::Float(sum);
    }
    let mut number = order.as_f64().unwrap_or_default();
    // A negative order counts from the end: -1 comes right before `order: last`.
    if number < 0.0 {
        order = match order {
            Value::Int(order) => Value::Int(order.saturating_add(cap).saturating_add(LAST as i64)),
            other => Value::Float(other.as_f64().unwrap_or_default() + cap as f64 + LAST),
        };
        number = order.as_f64().unwrap_or_default();
    }
    low.insert("order", order);
    number
}

/// Returns the order of another chunk. A word such as `first` is replaced by its number in the chunk.
fn child_order(low: &mut Map, cap: i64) -> f64 {
    match low.get("order") {
        None => f64::INFINITY,
        Some(order) if is_number(order) => order.as_f64().unwrap_or_default(),
        Some(order) => {
            let settled = child_order_value(Some(order), cap);
            let number = settled.as_f64().unwrap_or_default();
            low.insert("order", settled);
            number
        }
    }
}

fn is_number(order: &Value) -> bool {
    matches!(order, Value::Int(_) | Value::BigInt(_) | Value::Float(_) | Value::Bool(_))
}

fn child_order_value(order: Option<&Value>, cap: i64) -> Value {
    match order {
        Some(order) if is_number(order) => order.clone(),
        Some(Value::Str(word)) if word == "last" => Value::Int(cap.saturating_add(LAST as i64)),
        Some(Value::Str(word)) if word == "first" => Value::Int(0),
        _ => Value::Int(cap),
    }
}
