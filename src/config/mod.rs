//! The YAML file.
