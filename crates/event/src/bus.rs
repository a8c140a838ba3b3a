//! The event bus of one process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use rt::Rt;
use tokio::sync::Notify;
use value::Map;

use crate::{Event, EventError, Filter, STAMP, Source, stamp};

/// The limit of what a reader may leave unread, and the consequence of exceeding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of events in a reader's queue.
    pub events: usize,
    /// The maximum number of bytes in a reader's queue. A single larger event is accepted into an empty queue.
    pub bytes: usize,
    /// The behaviour when the queue is full.
    pub lag: Lag,
}

/// The treatment of readers that are too slow.
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

/// The event bus of one process. It is cheap to clone.
///
/// The bus keeps no history: a subscription gets the events that are fired after it was created.
#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    rt: Rt,
    max_size: usize,
    readers: RwLock<Vec<Arc<Reader>>>,
    sockets: RwLock<Vec<Weak<dyn AcceptWaiting>>>,
}

/// A socket at which programs connect to a bus.
pub(crate) trait AcceptWaiting: Send + Sync {
    /// Accepts everyone whose connection waits there. Does not block.
    fn accept_waiting(&self);
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
    /// Creates a bus whose events have at most `max_event_size` packed bytes of data
    /// ([`DEFAULT_MAX_SIZE`](crate::DEFAULT_MAX_SIZE)).
    pub fn new(rt: Rt, max_event_size: usize) -> Self {
        Bus(Arc::new(Inner { rt, max_size: max_event_size, readers: RwLock::default(), sockets: RwLock::default() }))
    }

    /// Fires an event, with `_stamp` as the last entry of its data.
    ///
    /// Never waits, because each reader has its own bounded queue. Fails only for a tag that no reader could parse.
    pub fn fire(&self, tag: impl Into<String>, data: Map) -> Result<(), EventError> {
        self.fire_from(Source::Host, tag, data)
    }

    /// Fires an event that was born elsewhere, like [`Bus::fire`].
    pub fn fire_from(&self, source: Source, tag: impl Into<String>, data: Map) -> Result<(), EventError> {
        self.publish(&self.stamped(source, tag, data)?);
        Ok(())
    }

    /// Returns what [`Bus::fire_from`] fires, for [`Bus::publish`].
    pub fn stamped(&self, source: Source, tag: impl Into<String>, mut data: Map) -> Result<Event, EventError> {
        // Removed first: inserting an existing key would leave it in its old place.
        data.remove(STAMP);
        data.insert(STAMP, stamp(self.0.rt.now()));
        let event = Event::from_source(source, tag, data, self.0.max_size)?;
        // The data may be secret.
        tracing::debug!(target: "salt.utils.event", "Sending event: tag = {}", event.tag());
        Ok(event)
    }

    /// Fires an event as it is: one that has its stamp already.
    pub fn publish(&self, event: &Event) {
        self.accept_waiting();
        for reader in self.readers().iter().filter(|reader| reader.filter.wants(event.tag())) {
            reader.push(event);
        }
    }

    /// Subscribes with the default [`Limits`].
    pub fn subscribe(&self, filter: Filter) -> Subscription {
        self.subscribe_within(filter, Limits::default())
    }

    /// Subscribes with specific limits.
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

    /// Returns the number of subscriptions, including those of local programs.
    pub fn subscribers(&self) -> usize {
        self.readers().len()
    }

    /// Accepts the programs whose connections wait at the sockets of this bus, so that they get everything that is fired from now on.
    ///
    /// A program connects, and may at once fire an event or request something that causes one. On a busy host that event can reach
    /// the bus before the connection was accepted; without this, the program would miss it.
    fn accept_waiting(&self) {
        for socket in self.0.sockets.read().unwrap_or_else(PoisonError::into_inner).iter() {
            // If the socket was closed, no reader waits at it.
            if let Some(socket) = socket.upgrade() {
                socket.accept_waiting();
            }
        }
    }

    /// Adds a socket at which programs connect.
    pub(crate) fn add_socket(&self, socket: Weak<dyn AcceptWaiting>) {
        let mut sockets = self.0.sockets.write().unwrap_or_else(PoisonError::into_inner);
        // A bus may outlive its sockets, when a daemon opens them again.
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(socket);
    }

    /// Returns the maximum number of packed bytes of the data of an event.
    pub fn max_size(&self) -> usize {
        self.0.max_size
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.0.rt
    }

    fn readers(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Reader>>> {
        // A panic while the lock was held cannot have left the list in an inconsistent state.
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
        // Added before old events are shed, so that the newest one is never the one that goes.
        queue.bytes += self.weight(event);
        queue.events.push_back(event.clone());
        while queue.events.len() > self.limits.events || (queue.bytes > self.limits.bytes && queue.events.len() > 1) {
            self.shed(&mut queue);
        }
        // Woken without the lock: the reader would only wait for it.
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
                // The queue is emptied at once. The reader will not read it, and the memory is needed.
                self.shut.notify_one();
                *queue = Queue { lost: queue.lost + queue.events.len() as u64, ..Queue::default() };
            }
        }
    }

    /// Readers without a limit in bytes do not cause the event to be packed.
    fn weight(&self, event: &Event) -> usize {
        if self.limits.bytes == usize::MAX { 0 } else { event.size() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription to a bus; dropping it ends it.
pub struct Subscription {
    bus: Bus,
    reader: Arc<Reader>,
}

impl Subscription {
    /// Waits for the next event. Returns `None` if the reader was closed because it was too slow ([`Lag::Close`]).
    ///
    /// The future is cancel-safe: dropping it loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            // After the queue: events from before the end are still returned.
            if self.is_closed() {
                return None;
            }
            // `notify_one` leaves a permit if there is no waiter, so an event between the check of the queue and this
            // line is not missed.
            self.reader.wake.notified().await;
        }
    }

    /// Waits for the next event; `None` after a timeout.
    pub async fn next_within(&mut self, time: Duration) -> Option<Event> {
        tokio::time::timeout(time, self.next()).await.ok().flatten()
    }

    /// Waits for the first event for which `pick` returns a value, and skips the others.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(&Event) -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = pick(&self.next().await?) {
                return Some(found);
            }
        }
    }

    /// Returns the next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        let mut queue = self.reader.queue();
        let event = queue.events.pop_front()?;
        queue.bytes -= self.reader.weight(&event);
        Some(event)
    }

    /// Returns how many events were dropped since the last call because they were not read in time.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.reader.queue().lost)
    }

    /// Returns a future that is ready when the reader has been closed because it was too slow, for a reader that is busy with
    /// something other than waiting for events.
    pub(crate) fn overrun(&self) -> impl Future<Output = ()> + Send + use<> {
        let reader = Arc::clone(&self.reader);
        async move {
            // Checked first: the permit of `notify_one` may have gone to an earlier future that was dropped.
            while !reader.closed.load(Ordering::Acquire) {
                reader.shut.notified().await;
            }
        }
    }

    /// Returns whether the reader was closed because it was too slow.
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
        assert_eq!(event.source(), &Source::Host);
        let minion = Source::Minion("web1".into());
        bus.fire_from(minion.clone(), "t", Map::new()).unwrap();
        assert_eq!(all.next().await.unwrap().source(), &minion);
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
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
    async fn waiting_times_out() {
        let mut reader = bus().subscribe(Filter::all());
        assert!(reader.next_within(Duration::from_secs(5)).await.is_none());
    }

    #[test]
    fn a_slow_reader_loses_the_oldest_events() {
        let bus = bus();
        let mut slow = bus.subscribe_within(Filter::all(), Limits { events: 2, ..Limits::default() });
        for tag in ["1", "2", "3", "4"] {
            bus.fire(tag, Map::new()).unwrap();
        }
        assert_eq!((slow.take_lost(), slow.take_lost()), (2, 0));
        assert_eq!(drain(&mut slow), ["3", "4"]);
    }

    #[test]
    fn the_queue_is_limited_in_bytes_but_accepts_a_single_large_event() {
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
    fn a_dropped_subscription_is_removed() {
        let bus = bus();
        let kept = bus.subscribe(Filter::all());
        drop(bus.subscribe(Filter::all()));
        assert_eq!(bus.subscribers(), 1);
        drop(kept);
        assert_eq!(bus.subscribers(), 0);
    }
}
