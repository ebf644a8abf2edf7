//! Builds everything and runs it.
