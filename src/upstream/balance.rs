//! Which server a request tries next. Pure: it is told how the servers stand, and remembers nothing.

use super::health::Standing;

/// How requests are shared out among servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// The servers take turns.
    RoundRobin,
    /// To the server with the fewest requests under way, over all workers.
    LeastRequests,
}

/// A server that a request has not tried yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Its place in the list.
    pub place: usize,
    pub standing: Standing,
    /// Requests under way there.
    pub running: usize,
}

/// The server to try: none when all are unhealthy. One that is ejected comes last, as a last resort. Equals take turns.
pub(super) fn best(balance: Balance, turn: usize, candidates: &[Candidate]) -> Option<Candidate> {
    let rank = |candidate: &Candidate| {
        let load = if balance == Balance::LeastRequests { candidate.running } else { 0 };
        (candidate.standing, load)
    };
    let usable = || candidates.iter().filter(|candidate| candidate.standing != Standing::Unhealthy);
    let first = usable().map(rank).min()?;
    let equals = usable().filter(|candidate| rank(candidate) == first);
    let count = equals.clone().count();
    equals.copied().nth(turn % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Balance::{LeastRequests, RoundRobin};
    use Standing::{Ejected, Ready, Unhealthy};

    /// The places that ten turns lead to.
    fn places(balance: Balance, servers: &[(Standing, usize)]) -> Vec<usize> {
        let candidate = |(place, &(standing, running))| Candidate { place, standing, running };
        let candidates: Vec<_> = servers.iter().enumerate().map(candidate).collect();
        (0..10).filter_map(|turn| best(balance, turn, &candidates)).map(|candidate| candidate.place).collect()
    }

    #[test]
    fn servers_take_turns_whatever_they_carry() {
        assert_eq!(places(RoundRobin, &[(Ready, 9), (Ready, 0), (Ready, 3)]), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn the_share_of_one_that_is_left_out_is_shared_out_evenly() {
        assert_eq!(places(RoundRobin, &[(Ready, 0), (Ejected, 0), (Ready, 0)]), [0, 2, 0, 2, 0, 2, 0, 2, 0, 2]);
        assert_eq!(places(RoundRobin, &[(Unhealthy, 0), (Ready, 0), (Ready, 0)]), [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn the_least_loaded_goes_first_and_equals_take_turns() {
        assert_eq!(places(LeastRequests, &[(Ready, 2), (Ready, 1), (Ready, 1)]), [1, 2, 1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(places(LeastRequests, &[(Ready, 2), (Ejected, 0), (Ready, 5)]), [0; 10]);
    }

    #[test]
    fn when_all_are_ejected_all_are_tried() {
        assert_eq!(places(RoundRobin, &[(Ejected, 0), (Ejected, 0)]), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn an_unhealthy_server_is_never_tried() {
        assert_eq!(places(RoundRobin, &[(Unhealthy, 0), (Ejected, 0)]), [1; 10]);
        assert!(places(RoundRobin, &[(Unhealthy, 0), (Unhealthy, 0)]).is_empty());
        assert!(places(LeastRequests, &[]).is_empty());
    }
}
