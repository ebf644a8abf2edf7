//! Records in a file.
