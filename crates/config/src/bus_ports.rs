//! The ports of a minion's local event bus with `ipc_mode: tcp`: one pair per master, as in Salt's tutorials.

use std::collections::BTreeMap;

use value::Value;

use crate::opts::FromOption;

/// A port option: one number, to which two are added for each additional master, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusPorts {
    /// The first port.
    From(u16),
    /// One port per master.
    Each(Vec<u16>),
}

impl BusPorts {
    /// Returns the port of the master at an index, or 0 if there is none.
    pub fn of(&self, place: u16) -> u16 {
        match self {
            // Two, because publish and pull ports are neighbours by default: 4510 and 4511, 4512 and 4513, and so on.
            BusPorts::From(first) => first.checked_add(place.saturating_mul(2)).unwrap_or(0),
            BusPorts::Each(list) => list.get(usize::from(place)).copied().unwrap_or(0),
        }
    }

    /// Returns the pairs of ports, for publishing and pulling, of the event bus of a minion with this number of masters.
    ///
    /// # Errors
    /// If a list has another length, a port would be too high, or two are the same.
    pub(crate) fn pairs(publish: &Self, pull: &Self, masters: usize) -> Result<Vec<(u16, u16)>, String> {
        let options = [("tcp_pub_port", publish), ("tcp_pull_port", pull)];
        if let Some(wrong) = options.iter().find_map(|(name, ports)| ports.wrong_length(name, masters)) {
            return Err(wrong);
        }
        // A minion without masters still has a bus for its own programs.
        let places = u16::try_from(masters.max(1)).map_err(|_| format!("{masters} masters are too many for ports"))?;
        let mut taken = BTreeMap::new();
        for place in 0..places {
            for (name, ports) in options {
                let port = ports.of(place);
                let what = format!("option '{name}' for master {}", place + 1);
                if port == 0 {
                    return Err(format!("{what} is a port above 65535"));
                }
                // Both options may name the same port. Found out here, the error can name the options; a failed bind
                // could not.
                if let Some(other) = taken.insert(port, what.clone()) {
                    return Err(format!("{what} and {other} are both port {port}; local event ports must not overlap"));
                }
            }
        }
        Ok((0..places).map(|place| (publish.of(place), pull.of(place))).collect())
    }

    fn wrong_length(&self, name: &str, masters: usize) -> Option<String> {
        let BusPorts::Each(list) = self else { return None };
        let wrong = list.len() != masters.max(1);
        wrong.then(|| format!("option '{name}' lists {} ports for {} masters", list.len(), masters.max(1)))
    }
}

impl FromOption for BusPorts {
    fn from_option(value: Option<&Value>) -> Result<Self, String> {
        let port = |value| u16::from_option(Some(value)).ok().filter(|port| *port > 0);
        let read = match value {
            Some(Value::List(items)) if !items.is_empty() => {
                items.iter().map(port).collect::<Option<Vec<u16>>>().map(BusPorts::Each)
            }
            Some(one) => port(one).map(BusPorts::From),
            None => None,
        };
        read.ok_or_else(|| "a port from 1 to 65535, or a list of one for each master".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::Minion;
    use value::{Value, list, map};

    fn pairs(publish: impl Into<Value>, pull: impl Into<Value>, masters: usize) -> Result<Vec<(u16, u16)>, String> {
        let options = map! { "id" => "m", "tcp_pub_port" => publish.into(), "tcp_pull_port" => pull.into() };
        let minion = Minion::from_options(options).map_err(|error| error.to_string())?;
        minion.network.bus_ports(masters)
    }

    #[test]
    fn each_further_master_has_the_next_pair_or_one_of_the_list() {
        assert_eq!(pairs(4510, 4511, 3), Ok(vec![(4510, 4511), (4512, 4513), (4514, 4515)]));
        assert_eq!(pairs(list![1000, 1010], list!["1001", 1011], 2), Ok(vec![(1000, 1001), (1010, 1011)]));
        assert_eq!(pairs(4510, 4511, 0), Ok(vec![(4510, 4511)]), "without masters there is a bus too");
    }

    #[test]
    fn invalid_ports_are_refused() {
        let told = |publish: Value, pull: Value, masters| pairs(publish, pull, masters).unwrap_err();
        assert_eq!(told(list![1, 3], 9.into(), 3), "option 'tcp_pub_port' lists 2 ports for 3 masters");
        let overlap = told(4510.into(), 4512.into(), 2);
        assert!(overlap.contains("are both port 4512"), "{overlap}");
        assert!(told(65534.into(), 100.into(), 2).contains("above 65535"));
        for wrong in [list![], list![0], Value::from("x"), Value::from(70000)] {
            let error = told(wrong, 4511.into(), 1);
            assert!(error.contains("tcp_pub_port"), "{error}");
        }
    }
}
