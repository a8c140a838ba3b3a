//! Master and minion settings: layered, checked, with Salt's option names and defaults.
