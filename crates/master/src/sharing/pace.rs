//! When returns become records: alone at once, and many of them together. Each step waits for the disk and sends a message.

/// More than this many returns at once are a load.
const FEW: usize = 16;

/// How long returns are gathered under load, in milliseconds.
const GATHER: u64 = 20;

/// Until when returns are gathered.
#[derive(Default)]
pub struct Pace {
    until: u64,
}

impl Pace {
    /// Notes how many changes became records in one step.
    pub fn took(&mut self, changes: usize, now: u64) {
        if changes > FEW {
            self.until = now + GATHER;
        }
    }

    /// Returns when the next step is due, if it has to wait.
    pub fn due(&self, now: u64) -> Option<u64> {
        Some(self.until).filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_wait_for_others_only_after_many() {
        let mut pace = Pace::default();
        pace.took(1, 100);
        pace.took(FEW, 100);
        assert_eq!(pace.due(100), None);
        pace.took(FEW + 1, 200);
        assert_eq!((pace.due(219), pace.due(220)), (Some(220), None));
        pace.took(0, 210);
        assert_eq!(pace.due(219), Some(220), "what came in between shortens nothing");
    }
}
