//! The rules against a small model of their own, and the cases that matter most by name. Not the simulation.

#[path = "support/alike.rs"]
mod alike;
#[path = "machine/cases.rs"]
mod cases;
#[path = "machine/compared.rs"]
mod compared;
#[path = "machine/model.rs"]
mod model;
#[path = "machine/pair.rs"]
mod pair;
#[path = "machine/pair_model.rs"]
mod pair_model;
#[path = "machine/pair_system.rs"]
mod pair_system;
#[path = "machine/probe.rs"]
mod probe;
#[path = "machine/random.rs"]
mod random;
#[path = "machine/system.rs"]
mod system;
#[path = "machine/timely.rs"]
mod timely;
#[path = "machine/window.rs"]
mod window;
