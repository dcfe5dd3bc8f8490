//! Successive halving: all are measured for a short time, the better half for twice as long, and so on.

use std::cmp::Ordering;

/// The quality of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Score {
    /// Everything was answered, with this figure; more is better.
    Good(f64),
    /// Something failed.
    Flawed(f64),
    /// Could not be measured.
    None,
}

impl Score {
    /// The better one first.
    pub(super) fn order(self, other: Self) -> Ordering {
        let rank = |worth: Self| match worth {
            Self::Good(figure) => (0, figure),
            Self::Flawed(figure) => (1, figure),
            Self::None => (2, 0.0),
        };
        let ((class, figure), (other_class, other_figure)) = (rank(self), rank(other));
        class.cmp(&other_class).then(other_figure.total_cmp(&figure))
    }
}

/// How many are left when halving stops.
const FINALISTS: usize = 3;

/// The rungs for so many: how many candidates are measured, and how many times as long as on the first rung.
pub(super) fn rungs(count: usize) -> Vec<(usize, u32)> {
    let mut rungs = Vec::new();
    let (mut left, mut times) = (count, 1);
    while left > FINALISTS || rungs.is_empty() {
        rungs.push((left, times));
        left = left.div_ceil(2);
        times *= 2;
    }
    rungs
}

/// Lets `measure` examine each of `count` candidates, for a multiple of the time on the first rung, until few are left;
/// the order reverses from rung to rung, so that changes of the machine favour no candidate. Returns their numbers, the
/// best of the last rung first; dropped ones follow, in the order in which they were dropped. If `measure` returns
/// `None` the search ends, and the results so far count.
pub(super) fn halve(count: usize, mut measure: impl FnMut(usize, u32) -> Option<Score>) -> Vec<usize> {
    let mut ranking: Vec<usize> = (0..count).collect();
    let mut known = vec![Score::None; count];
    for (round, (left, times)) in rungs(count).into_iter().enumerate() {
        let mut order = ranking[..left].to_vec();
        order.sort_unstable();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut is_over = false;
        for at in order {
            match measure(at, times) {
                Some(worth) => known[at] = worth,
                None => {
                    is_over = true;
                    break;
                }
            }
        }
        ranking[..left].sort_by(|one, other| known[*one].order(known[*other]));
        if is_over {
            break;
        }
    }
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_halve_what_is_left_and_double_the_time() {
        assert_eq!(rungs(32), [(32, 1), (16, 2), (8, 4), (4, 8)]);
        assert_eq!(rungs(5), [(5, 1)]);
        assert_eq!(rungs(1), [(1, 1)]);
    }

    #[test]
    fn the_best_is_found_although_it_looks_middling_at_first() {
        // In a short measurement all look nearly the same.
        let figure =
            |at: usize, times: u32| 100.0 + f64::from(times) * [1.0, 4.0, 2.0, 9.0, 8.0, 3.0, 5.0, 7.0, 6.0, 0.0][at];
        let mut order = Vec::new();
        let ranking = halve(10, |at, times| {
            order.push((times, at));
            Some(Score::Good(figure(at, times)))
        });
        assert_eq!(ranking[..3], [3, 4, 7]);
        assert_eq!(ranking.len(), 10);
        assert_eq!(order[..10].iter().map(|(_, at)| *at).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!(order[10..], [(2, 8), (2, 7), (2, 6), (2, 4), (2, 3)]);
    }

    #[test]
    fn failures_lose_against_everything_that_is_answered() {
        let worths = [Score::None, Score::Flawed(900.0), Score::Good(1.0), Score::Flawed(1000.0), Score::Good(2.0)];
        assert_eq!(halve(5, |at, _| Some(worths[at])), [4, 2, 3, 1, 0]);
    }

    #[test]
    fn the_last_ranking_counts_when_time_is_up() {
        let mut left = 12;
        let ranking = halve(8, |at, _| {
            left -= 1;
            (left > 0).then_some(Score::Good(at as f64))
        });
        assert_eq!(ranking, [7, 6, 5, 4, 3, 2, 1, 0]);
    }
}
