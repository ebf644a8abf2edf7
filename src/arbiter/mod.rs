//! Who may act: the rules joined with a store.
