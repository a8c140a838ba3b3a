use super::*;

const A: &str = "a:4506";
const B: &str = "b:4506";
const C: &str = "c:4506";
const SECOND: Duration = Duration::from_secs(1);

fn rules() -> Rules {
    Rules { keep: 3600 * SECOND, keep_size: 1000, peer_after: 10 * SECOND }
}

fn about(jid: &str, publisher: &str) -> Waiting {
    Waiting { jid: jid.to_owned(), publisher: publisher.to_owned(), has_peers: true, size: 100 }
}

fn seen(reach: Reach, takes_copies: bool) -> Seen {
    Seen { reach, takes_copies, boot: None }
}

fn view(masters: &[(&str, Reach, bool)]) -> View {
    masters.iter().map(|(address, reach, copies)| (address.to_string(), seen(*reach, *copies))).collect()
}

struct Fixture {
    plan: Plan,
    start: Instant,
}

impl Fixture {
    fn new() -> Self {
        Fixture { plan: Plan::new(rules(), 0), start: Instant::now() }
    }

    fn at(&self, seconds: u32) -> Instant {
        self.start + seconds * SECOND
    }

    fn act(&mut self, seconds: u32, view: &View) -> Vec<Action> {
        self.plan.act(self.at(seconds), view, Duration::ZERO)
    }

    fn add(&mut self, jid: &str, publisher: &str, seconds: u32) -> Seq {
        let now = self.at(seconds);
        self.plan.add(about(jid, publisher), now)
    }
}

#[test]
fn a_return_goes_to_its_publisher_at_once_and_again_after_a_pause() {
    let mut f = Fixture::new();
    let live = view(&[(A, Reach::Live, true), (B, Reach::Live, true)]);
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &live), [Action::Deliver(seq)]);
    assert_eq!(f.act(0, &live), []);
    f.plan.failed(seq, f.at(5));
    assert_eq!(f.act(4, &live), []);
    assert_eq!(f.plan.due(&live), Some(f.at(5)));
    assert_eq!(f.act(5, &live), [Action::Deliver(seq)]);
    f.plan.done(seq);
    assert_eq!(f.plan.counts().map(|(_, count)| count).sum::<usize>(), 0);
    assert_eq!(f.act(6, &live), []);
    assert_eq!(f.plan.due(&live), None);
}

#[test]
fn nothing_is_tried_while_the_publisher_is_away_and_all_is_due_when_it_is_back() {
    let mut f = Fixture::new();
    let (away, live) = (view(&[(A, Reach::Away, true)]), view(&[(A, Reach::Live, true)]));
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &away), [Action::Hold(seq)]);
    assert_eq!(f.plan.due(&away), Some(f.at(3600)), "an event wakes it");
    let jitter = Duration::from_millis(300);
    assert_eq!(f.plan.act(f.at(50), &live, jitter), []);
    assert_eq!(f.plan.due(&live), Some(f.at(50) + jitter));
    assert_eq!(f.plan.act(f.at(50) + jitter, &live, Duration::ZERO), [Action::Deliver(seq)]);
}

#[test]
fn a_failed_try_is_repeated_as_soon_as_the_master_comes_back() {
    let mut f = Fixture::new();
    let (away, live) = (view(&[(A, Reach::Away, true)]), view(&[(A, Reach::Live, true)]));
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &live), [Action::Deliver(seq)]);
    f.plan.failed(seq, f.at(100));
    assert_eq!(f.act(1, &away), []);
    assert_eq!(f.act(2, &live), [Action::Deliver(seq)]);
}

#[test]
fn a_backlog_is_sent_few_at_a_time_and_new_returns_overtake_it() {
    let mut f = Fixture::new();
    let (away, live) = (view(&[(A, Reach::Away, false)]), view(&[(A, Reach::Live, false)]));
    // A hundred returns are more than the bytes of the other tests.
    f.plan.rules.keep_size = u64::MAX;
    for jid in 0..100 {
        f.add(&jid.to_string(), A, 0);
    }
    f.act(0, &away);
    let sent = f.act(1, &live);
    assert_eq!(sent, (0..MANY as Seq).map(Action::Deliver).collect::<Vec<_>>(), "the oldest first");
    assert_eq!(f.plan.due(&live), Some(f.at(3600)), "the next goes when one has come back");
    let new = f.add("new", A, 1);
    assert_eq!(f.act(1, &live), [Action::Deliver(new)]);
    f.plan.done(0);
    assert_eq!(f.act(1, &live), [Action::Deliver(MANY as Seq)]);
}

#[test]
fn a_peer_gets_a_copy_after_a_while_and_the_publisher_still_gets_the_return() {
    let mut f = Fixture::new();
    let masters = |a| view(&[(A, a, true), (B, Reach::Live, false), (C, Reach::Live, true)]);
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &masters(Reach::Away)), [Action::Hold(seq)]);
    assert_eq!(f.plan.due(&masters(Reach::Away)), Some(f.at(10)));
    assert_eq!(f.act(10, &masters(Reach::Away)), [Action::Copy(seq, C.to_owned())], "a stock master never");
    f.plan.copied(seq, A, C);
    assert_eq!(f.act(60, &masters(Reach::Away)), []);
    assert_eq!(f.act(61, &masters(Reach::Live)), [Action::Deliver(seq)]);
    f.plan.done(seq);
    assert_eq!(f.act(62, &masters(Reach::Live)), []);
}

#[test]
fn a_master_that_is_there_but_does_not_take_it_does_not_keep_peers_from_a_copy() {
    let mut f = Fixture::new();
    let live = view(&[(A, Reach::Live, true), (B, Reach::Live, true)]);
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &live), [Action::Deliver(seq)]);
    assert_eq!(f.act(10, &live), [Action::Copy(seq, B.to_owned())]);
    f.plan.done(seq);
    f.plan.copied(seq, A, B);
    assert_eq!(f.act(11, &live), []);
    assert_eq!(f.plan.counts().count(), 0);
}

#[test]
fn returns_of_stock_masters_go_to_nobody_else() {
    let mut f = Fixture::new();
    let away = view(&[(A, Reach::Away, false), (B, Reach::Live, true)]);
    let now = f.at(0);
    let seq = f.plan.add(Waiting { has_peers: false, ..about("1", A) }, now);
    assert_eq!(f.act(0, &away), [Action::Hold(seq)]);
    assert_eq!(f.act(3000, &away), []);
    assert_eq!(f.act(3600, &away), [Action::Drop(seq, Waiting { has_peers: false, ..about("1", A) }, Why::Age(None))]);
}

#[test]
fn the_same_process_under_another_address_is_no_peer() {
    let mut f = Fixture::new();
    let mut masters = view(&[(A, Reach::Away, true), (B, Reach::Live, true)]);
    masters.values_mut().for_each(|seen| seen.boot = Some("77".to_owned()));
    f.add("1", A, 0);
    f.act(0, &masters);
    assert_eq!(f.act(20, &masters), []);
}

#[test]
fn a_peer_that_refuses_is_not_asked_again_before_the_others() {
    let mut f = Fixture::new();
    let masters = view(&[(A, Reach::Away, true), (B, Reach::Live, true), (C, Reach::Live, true)]);
    let seq = f.add("1", A, 0);
    f.act(0, &masters);
    let Some(Action::Copy(_, first)) = f.act(10, &masters).pop() else { panic!("no copy") };
    f.plan.copy_failed(seq, A, Some(&first), f.at(10));
    let Some(Action::Copy(_, second)) = f.act(10, &masters).pop() else { panic!("no copy") };
    assert_ne!(first, second);
    f.plan.copy_failed(seq, A, Some(&second), f.at(10));
    assert_eq!(f.act(10, &masters), []);
    assert_eq!(f.plan.due(&masters), Some(f.at(10) + REFUSED));
    assert!(matches!(f.act(70, &masters)[..], [Action::Copy(..)]));
}

#[test]
fn a_master_that_is_not_followed_is_visited_with_pauses_and_left() {
    let mut f = Fixture::new();
    let idle = view(&[(A, Reach::Idle, true), (B, Reach::Live, false)]);
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &idle), [Action::Visit(A.to_owned()), Action::Hold(seq)]);
    assert_eq!(f.act(1, &idle), []);
    f.plan.visit_failed(A, f.at(8));
    assert_eq!(f.plan.due(&idle), Some(f.at(8)));
    assert_eq!(f.act(8, &idle), [Action::Visit(A.to_owned())]);
    f.plan.visiting(A);
    assert_eq!(f.act(9, &idle), [Action::Deliver(seq)]);
    f.plan.done(seq);
    assert_eq!(f.act(9, &idle), [Action::Leave(A.to_owned())]);
    assert_eq!(f.plan.counts().count(), 0);
}

#[test]
fn a_visit_ends_when_the_master_is_followed_again() {
    let mut f = Fixture::new();
    let seq = f.add("1", A, 0);
    f.act(0, &view(&[(A, Reach::Idle, true)]));
    f.plan.visiting(A);
    let actions = f.act(1, &view(&[(A, Reach::Live, true)]));
    assert_eq!(actions, [Action::Leave(A.to_owned()), Action::Deliver(seq)]);
}

#[test]
fn returns_for_masters_that_are_not_configured_wait_and_are_copied() {
    let mut f = Fixture::new();
    let masters = view(&[(B, Reach::Live, true)]);
    let seq = f.add("1", A, 0);
    assert_eq!(f.act(0, &masters), [Action::Hold(seq)]);
    assert_eq!(f.act(10, &masters), [Action::Copy(seq, B.to_owned())]);
    f.plan.copied(seq, A, B);
    assert_eq!(f.act(3600, &masters), [Action::Drop(seq, about("1", A), Why::Age(Some(B.to_owned())))]);
}

#[test]
fn without_room_copied_returns_go_first_then_the_oldest_and_never_the_newest() {
    let mut f = Fixture::new();
    let masters = view(&[(A, Reach::Away, true), (B, Reach::Live, true)]);
    let seqs: Vec<Seq> = (0..10).map(|jid| f.add(&jid.to_string(), A, 0)).collect();
    f.act(0, &masters);
    f.plan.copied(seqs[3], A, B);
    f.add("10", A, 1);
    f.add("11", A, 1);
    let dropped: Vec<_> = f.act(1, &masters).into_iter().filter(|action| matches!(action, Action::Drop(..))).collect();
    let holder = Some(B.to_owned());
    assert_eq!(
        dropped,
        [Action::Drop(3, about("3", A), Why::Room(holder)), Action::Drop(0, about("0", A), Why::Room(None))]
    );
    let now = f.at(2);
    let huge = f.plan.add(Waiting { size: 5000, ..about("huge", A) }, now);
    f.act(2, &masters);
    assert_eq!(f.plan.counts().next(), Some((A, 1)));
    assert!(f.plan.get(huge).is_some());
}

#[test]
fn an_old_return_found_at_the_start_has_a_last_chance() {
    let mut f = Fixture::new();
    let live = view(&[(A, Reach::Live, true)]);
    let now = f.at(0);
    let seq = f.plan.add_old(about("1", A), 9999 * SECOND, now);
    assert_eq!(f.act(0, &live), [Action::Deliver(seq)]);
    assert_eq!(f.act(61, &live), [], "it is on its way");
    f.plan.failed(seq, f.at(70));
    assert_eq!(f.act(200, &live), [Action::Drop(seq, about("1", A), Why::Age(None))]);
}
