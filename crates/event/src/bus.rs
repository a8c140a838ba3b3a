//! The bus inside one process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use rt::Rt;
use tokio::sync::Notify;
use value::Map;

use crate::{Event, EventError, Filter, STAMP, stamp};

/// How much a reader may leave unread, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most events that wait for one reader.
    pub events: usize,
    /// The most bytes that wait for one reader; a single larger event is let through to an empty queue.
    pub bytes: usize,
    /// What happens when there are more.
    pub lag: Lag,
}

/// What happens to a reader that is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// It loses the oldest events; [`Subscription::take_lost`] counts them.
    DropOldest,
    /// It gets no more events at all.
    Close,
}

impl Default for Limits {
    /// 65,536 events or 64 MiB; the oldest are dropped.
    fn default() -> Self {
        Limits { events: 65_536, bytes: 64 << 20, lag: Lag::DropOldest }
    }
}

/// The event bus of one process. Cheap to clone.
///
/// The bus keeps no history: a subscription sees what is fired after it was made.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    rt: Rt,
    max_size: usize,
    readers: RwLock<Vec<Arc<Reader>>>,
    doors: RwLock<Vec<Weak<dyn LetIn>>>,
}

/// A socket of a bus.
pub(crate) trait LetIn: Send + Sync {
    /// Lets in all whose connections wait there. Does not block.
    fn let_in(&self);
}

struct Reader {
    filter: Filter,
    limits: Limits,
    queue: Mutex<Queue>,
    closed: AtomicBool,
    wake: Notify,
    shut: Notify,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    lost: u64,
}

impl Bus {
    /// Returns a bus whose events have at most `max_event_size` packed bytes of data
    /// ([`DEFAULT_MAX_SIZE`](crate::DEFAULT_MAX_SIZE)).
    pub fn new(rt: Rt, max_event_size: usize) -> Self {
        Bus(Arc::new(Inner { rt, max_size: max_event_size, readers: RwLock::default(), doors: RwLock::default() }))
    }

    /// Puts an event on the bus, with `_stamp` as the last entry of its data.
    ///
    /// Never waits: each reader has its own bounded queue. Fails only for a tag nobody could read.
    pub fn fire(&self, tag: impl Into<String>, mut data: Map) -> Result<(), EventError> {
        data.remove(STAMP);
        data.insert(STAMP, stamp(self.0.rt.now()));
        let event = Event::new(tag, data, self.0.max_size)?;
        // The data may hold what is nobody's business.
        tracing::debug!(target: "salt.utils.event", "Sending event: tag = {}", event.tag());
        self.publish(&event);
        Ok(())
    }

    /// Puts an event on the bus as it is: one that came from somewhere else and has its stamp.
    pub fn publish(&self, event: &Event) {
        self.let_in();
        for reader in self.readers().iter().filter(|reader| reader.filter.wants(event.tag())) {
            reader.push(event);
        }
    }

    /// Starts to listen, with the default [`Limits`].
    pub fn subscribe(&self, filter: Filter) -> Subscription {
        self.subscribe_within(filter, Limits::default())
    }

    /// Starts to listen with limits of its own.
    pub fn subscribe_within(&self, filter: Filter, limits: Limits) -> Subscription {
        let reader = Arc::new(Reader {
            filter,
            limits,
            queue: Mutex::default(),
            closed: AtomicBool::new(false),
            wake: Notify::new(),
            shut: Notify::new(),
        });
        self.0.readers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&reader));
        Subscription { bus: self.clone(), reader }
    }

    /// Says how many subscriptions there are, those of local programs included.
    pub fn subscribers(&self) -> usize {
        self.readers().len()
    }

    /// Lets in the programs whose connections wait at the sockets of this bus: they see all that is fired from now on.
    ///
    /// A program connects, and may at once fire something, or ask for something that events tell of. On a busy host the event may
    /// come to us before the connection does, and would be over before the program listens.
    fn let_in(&self) {
        for door in self.0.doors.read().unwrap_or_else(PoisonError::into_inner).iter() {
            // Nobody waits at a socket that was closed.
            if let Some(door) = door.upgrade() {
                door.let_in();
            }
        }
    }

    /// Adds a socket at which programs wait.
    pub(crate) fn add_door(&self, door: Weak<dyn LetIn>) {
        let mut doors = self.0.doors.write().unwrap_or_else(PoisonError::into_inner);
        doors.retain(|door| door.strong_count() > 0);
        doors.push(door);
    }

    pub(crate) fn max_size(&self) -> usize {
        self.0.max_size
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.0.rt
    }

    fn readers(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Reader>>> {
        // A panic while the lock was held cannot have left the list half changed.
        self.0.readers.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").field("subscribers", &self.subscribers()).finish()
    }
}

impl Reader {
    fn push(&self, event: &Event) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        let mut queue = self.queue();
        queue.bytes += self.weight(event);
        queue.events.push_back(event.clone());
        while queue.events.len() > self.limits.events || (queue.bytes > self.limits.bytes && queue.events.len() > 1) {
            self.shed(&mut queue);
        }
        drop(queue);
        self.wake.notify_one();
    }

    fn shed(&self, queue: &mut Queue) {
        match self.limits.lag {
            Lag::DropOldest => {
                if let Some(oldest) = queue.events.pop_front() {
                    queue.bytes -= self.weight(&oldest);
                    queue.lost += 1;
                }
            }
            Lag::Close => {
                self.closed.store(true, Ordering::Release);
                self.shut.notify_one();
                *queue = Queue { lost: queue.lost + queue.events.len() as u64, ..Queue::default() };
            }
        }
    }

    /// Readers without a limit in bytes do not make the event be packed.
    fn weight(&self, event: &Event) -> usize {
        if self.limits.bytes == usize::MAX { 0 } else { event.size() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody's place on a bus. Dropping it ends it.
pub struct Subscription {
    bus: Bus,
    reader: Arc<Reader>,
}

impl Subscription {
    /// Waits for the next event. `None` when the reader was closed because it was too slow ([`Lag::Close`]).
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if self.is_closed() {
                return None;
            }
            self.reader.wake.notified().await;
        }
    }

    /// Waits for the next event for some time; `None` when none came.
    pub async fn next_within(&mut self, time: Duration) -> Option<Event> {
        tokio::time::timeout(time, self.next()).await.ok().flatten()
    }

    /// Waits for the first event that `pick` returns something for; other events are passed over.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(&Event) -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = pick(&self.next().await?) {
                return Some(found);
            }
        }
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        let mut queue = self.reader.queue();
        let event = queue.events.pop_front()?;
        queue.bytes -= self.reader.weight(&event);
        Some(event)
    }

    /// Returns how many events were lost since the last call because they were not read in time.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.reader.queue().lost)
    }

    /// Returns a future that is ready when the reader has been closed because it was too slow, for a reader that is
    /// busy with something else than waiting for events.
    pub(crate) fn overrun(&self) -> impl Future<Output = ()> + Send + use<> {
        let reader = Arc::clone(&self.reader);
        async move {
            while !reader.closed.load(Ordering::Acquire) {
                reader.shut.notified().await;
            }
        }
    }

    /// Says whether the reader was closed because it was too slow.
    pub fn is_closed(&self) -> bool {
        self.reader.closed.load(Ordering::Acquire)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut readers = self.bus.0.readers.write().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !Arc::ptr_eq(reader, &self.reader));
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("filter", &self.reader.filter).finish()
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn bus() -> Bus {
        Bus::new(Rt::real(), crate::DEFAULT_MAX_SIZE)
    }

    fn drain(subscription: &mut Subscription) -> Vec<String> {
        std::iter::from_fn(|| subscription.try_next()).map(|event| event.tag().to_owned()).collect()
    }

    #[tokio::test]
    async fn a_subscription_gets_what_it_asked_for_in_order() {
        let bus = bus();
        bus.fire("job/0", Map::new()).unwrap();
        let mut jobs = bus.subscribe(Filter::prefix("job/"));
        let mut all = bus.subscribe(Filter::all());
        for tag in ["job/1", "auth", "job/2"] {
            bus.fire(tag, map! { "n" => 1 }).unwrap();
        }
        assert_eq!(jobs.next().await.unwrap().tag(), "job/1");
        assert_eq!(drain(&mut jobs), ["job/2"]);
        assert_eq!(drain(&mut all), ["job/1", "auth", "job/2"]);
    }

    #[tokio::test]
    async fn the_stamp_is_the_last_entry() {
        let bus = bus();
        let mut all = bus.subscribe(Filter::all());
        bus.fire("t", map! { "_stamp" => "old", "n" => 1 }).unwrap();
        let event = all.next().await.unwrap();
        assert_eq!(event.data().text_keys().collect::<Vec<_>>(), ["n", "_stamp"]);
        assert_ne!(event.data().get_str("_stamp"), Some("old"));
    }

    #[tokio::test]
    async fn a_waiting_reader_wakes_up() {
        let bus = bus();
        let mut reader = bus.subscribe(Filter::prefix("b"));
        let waiting = tokio::spawn(async move { reader.find(|event| event.data().get("yes").cloned()).await });
        tokio::task::yield_now().await;
        bus.fire("a", Map::new()).unwrap();
        bus.fire("b", Map::new()).unwrap();
        bus.fire("b", map! { "yes" => 7 }).unwrap();
        assert_eq!(waiting.await.unwrap(), Some(7.into()));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_in_time() {
        let mut reader = bus().subscribe(Filter::all());
        assert!(reader.next_within(Duration::from_secs(5)).await.is_none());
    }

    #[test]
    fn a_slow_reader_loses_the_oldest() {
        let bus = bus();
        let mut slow = bus.subscribe_within(Filter::all(), Limits { events: 2, ..Limits::default() });
        for tag in ["1", "2", "3", "4"] {
            bus.fire(tag, Map::new()).unwrap();
        }
        assert_eq!((slow.take_lost(), slow.take_lost()), (2, 0));
        assert_eq!(drain(&mut slow), ["3", "4"]);
    }

    #[test]
    fn bytes_count_and_a_single_large_event_passes() {
        let bus = bus();
        let mut slow = bus.subscribe_within(Filter::all(), Limits { bytes: 1000, ..Limits::default() });
        bus.fire("large", map! { "x" => "y".repeat(2000) }).unwrap();
        assert_eq!(drain(&mut slow), ["large"]);
        bus.fire("small", Map::new()).unwrap();
        bus.fire("large", map! { "x" => "y".repeat(2000) }).unwrap();
        assert_eq!(drain(&mut slow), ["large"]);
        assert_eq!(slow.reader.queue().bytes, 0);
    }

    #[tokio::test]
    async fn a_slow_reader_may_be_closed_instead() {
        let bus = bus();
        let limits = Limits { events: 2, lag: Lag::Close, ..Limits::default() };
        let mut slow = bus.subscribe_within(Filter::all(), limits);
        for tag in ["1", "2", "3", "4"] {
            bus.fire(tag, Map::new()).unwrap();
        }
        assert!(slow.next().await.is_none());
        assert!(slow.is_closed());
        assert_eq!(slow.take_lost(), 3);
    }

    #[test]
    fn a_dropped_subscription_is_forgotten() {
        let bus = bus();
        let kept = bus.subscribe(Filter::all());
        drop(bus.subscribe(Filter::all()));
        assert_eq!(bus.subscribers(), 1);
        drop(kept);
        assert_eq!(bus.subscribers(), 0);
    }
}
