//! Clients of every habit: they retry, click twice, look at each other's orders, change their requests, and leave.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::dice::Dice;
use crate::history::{Name, News};
use crate::world::World;

/// How many callers there are; their keys are told apart by nothing else.
const SCOPES: u64 = 3;

/// Somebody with several orders open at once.
pub(crate) struct Client<'a> {
    world: &'a World,
    dice: Dice,
    number: u64,
    doors: Vec<SocketAddr>,
    begun: u64,
    /// Orders without an answer that is final for this client.
    open: Vec<Name>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(world: &'a World, seed: u64, number: u64, doors: Vec<SocketAddr>) -> Self {
        let dice = Dice::new(seed.wrapping_add(number + 1));
        Self { world, dice, number, doors, begun: 0, open: Vec::new() }
    }

    pub(crate) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::SeqCst) {
            self.step();
        }
    }

    /// A new order, another try for an open one, or a look at anybody's: a double click, or a very late retry.
    fn step(&mut self) {
        let retry = self.open.len() >= 12 || self.dice.chance(35);
        if let Some(place) = self.dice.place(self.open.len()).filter(|_| retry) {
            let name = self.open.swap_remove(place);
            return self.ask(name);
        }
        if self.dice.chance(25)
            && let Some(name) = self.anybodys()
        {
            let variant = u8::from(self.dice.chance(15));
            self.world.ask(self.door(), &name, variant);
            return;
        }
        let name = self.fresh();
        if self.dice.chance(6) {
            let after = Duration::from_millis(self.dice.between(0, 30));
            self.world.ask_and_leave(self.door(), &name, after);
            self.open.push(name);
            return;
        }
        self.ask(name);
    }

    /// A new order; now and then under a key that another caller uses too.
    fn fresh(&mut self) -> Name {
        if self.dice.chance(15)
            && let Some(Name { scope, key }) = self.anybodys()
        {
            let scope = (u64::from(scope) + self.dice.between(1, SCOPES - 1)) % SCOPES;
            return Name { scope: u8::try_from(scope).unwrap(), key };
        }
        self.begun += 1;
        let scope = u8::try_from(self.dice.between(0, SCOPES - 1)).unwrap();
        Name { scope, key: (self.number << 32) + self.begun }
    }

    fn anybodys(&mut self) -> Option<Name> {
        let (dice, recent) = (&mut self.dice, self.number.is_multiple_of(2));
        self.world.name_at(|count| {
            let first = if recent { count.saturating_sub(40) } else { 0 };
            dice.place(count - first).map(|place| first + place)
        })
    }

    fn door(&mut self) -> SocketAddr {
        self.doors[self.dice.place(self.doors.len()).unwrap()]
    }

    fn ask(&mut self, name: Name) {
        let door = self.door();
        let news = self.world.ask(door, &name, 0);
        if !news.is_kept() && !matches!(news, News::InDoubt | News::Changed) {
            self.open.push(name);
        }
        if matches!(news, News::Unreached | News::InFlight | News::Refused { .. } | News::Broken) {
            // A client that is refused takes a breath.
            std::thread::sleep(Duration::from_millis(self.dice.between(1, 20)));
        }
    }
}
