//! The state of a program on a simulated host: its tasks run, are stopped, or are gone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::future::BoxFuture;

/// The state of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Stopped as by SIGSTOP: timers expire and bytes arrive, but nobody handles them.
    Paused,
    Dead,
}

/// One run of a program, from start to end.
pub(crate) struct Life {
    /// The number of the host.
    pub(crate) host: usize,
    /// The number of the run on this host.
    pub(crate) number: u64,
    name: Arc<str>,
    tasks: Mutex<Tasks>,
}

struct Tasks {
    state: State,
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Returns the name of the simulated host whose task is running now.
pub fn current_host() -> Option<Arc<str>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Life {
    pub(crate) fn new(host: usize, number: u64, name: Arc<str>) -> Arc<Self> {
        let tasks = Tasks { state: State::Running, next: 0, wakers: BTreeMap::new() };
        Arc::new(Life { host, number, name, tasks: Mutex::new(tasks) })
    }

    pub(crate) fn pause(&self) {
        self.change(State::Paused);
    }

    pub(crate) fn resume(&self) {
        self.change(State::Running);
    }

    pub(crate) fn end(&self) {
        self.change(State::Dead);
    }

    /// Returns the number of live tasks.
    pub(crate) fn count(&self) -> usize {
        self.tasks().wakers.len()
    }

    fn change(&self, state: State) {
        // Woken after the lock is released: a waker may poll its task at once, which takes the lock.
        let wakers: Vec<Waker> = {
            let mut tasks = self.tasks();
            if tasks.state == State::Dead {
                return;
            }
            tasks.state = state;
            tasks.wakers.values().cloned().collect()
        };
        // All of them: a paused task must see that it may run, a dead one that it must end.
        wakers.into_iter().for_each(Waker::wake);
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task of a program: it is polled only while the program runs.
pub struct LiveTask<T> {
    life: Arc<Life>,
    number: u64,
    inner: Option<BoxFuture<'static, T>>,
}

impl<T> LiveTask<T> {
    pub(crate) fn new(life: Arc<Life>, inner: impl Future<Output = T> + Send + 'static) -> Self {
        let number = {
            let mut tasks = life.tasks();
            tasks.next += 1;
            tasks.next
        };
        LiveTask { life, number, inner: Some(Box::pin(inner)) }
    }

    /// Returns the state of the program, and a waker for when it changes.
    fn enter(&self, waker: &Waker) -> State {
        let mut tasks = self.life.tasks();
        // The waker may change from poll to poll; cloning it each time would be waste.
        if tasks.state != State::Dead && !tasks.wakers.get(&self.number).is_some_and(|known| known.will_wake(waker)) {
            tasks.wakers.insert(self.number, waker.clone());
        }
        tasks.state
    }

    fn leave(&self) {
        // Dropped outside the lock: a waker may own the task itself.
        let waker = self.life.tasks().wakers.remove(&self.number);
        drop(waker);
    }
}

impl<T> Future for LiveTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.enter(context.waker()) {
            State::Paused => return Poll::Pending,
            State::Dead => {
                self.leave();
                // Dropped as a task of the host, because destructors close connections and write to the trace.
                let inner = self.inner.take();
                as_host(&self.life, || drop(inner));
                // Never ready: nobody waits for the result of a killed program.
                return Poll::Pending;
            }
            State::Running => {}
        }
        let life = self.life.clone();
        let Some(inner) = self.inner.as_mut() else { return Poll::Pending };
        let polled = as_host(&life, || inner.as_mut().poll(context));
        if polled.is_ready() {
            self.leave();
        }
        polled
    }
}

impl<T> Drop for LiveTask<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

fn as_host<R>(life: &Life, work: impl FnOnce() -> R) -> R {
    // Restored, because a task may be polled from within another one's destructor.
    let before = CURRENT.replace(Some(life.name.clone()));
    let result = work();
    CURRENT.set(before);
    result
}
