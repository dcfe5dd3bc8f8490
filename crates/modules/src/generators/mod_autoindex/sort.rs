//! The order of a listing.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::pin::Pin;
use std::vec::IntoIter;

use runtime::CoopBudget;

/// Compares texts so that `file2` comes before `file10` (APR's `apr_strnatcmp`): runs of digits by their value, those
/// that begin with 0 like fractions; blanks do not count.
pub(super) fn natural(a: &[u8], b: &[u8], ignore_case: bool) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        (a, b) = (a.trim_ascii_start(), b.trim_ascii_start());
        if let ([x, ..], [y, ..]) = (a, b)
            && x.is_ascii_digit()
            && y.is_ascii_digit()
        {
            let order = if *x == b'0' || *y == b'0' { fractions(a, b) } else { numbers(a, b) };
            if order.is_ne() {
                return order;
            }
        }
        // The end of a text counts as the byte 0, and bytes beyond ASCII come before it, as C's signed characters do.
        let byte =
            |text: &[u8]| text.first().map_or(0, |byte| if ignore_case { byte.to_ascii_uppercase() } else { *byte });
        let (x, y) = (byte(a), byte(b));
        if a.is_empty() && b.is_empty() {
            return Ordering::Equal;
        }
        match (x as i8).cmp(&(y as i8)) {
            Ordering::Equal => (a, b) = (a.get(1..).unwrap_or_default(), b.get(1..).unwrap_or_default()),
            order => return order,
        }
    }
}

fn digits(text: &[u8]) -> &[u8] {
    &text[..text.iter().take_while(|b| b.is_ascii_digit()).count()]
}

/// The longer run is the larger number; of equal length, the first difference decides.
fn numbers(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (digits(a), digits(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn fractions(a: &[u8], b: &[u8]) -> Ordering {
    digits(a).cmp(digits(b))
}

/// The number of items sorted or merged at once.
const AT_ONCE: usize = 256;

/// The order of two items. Threads share the function.
pub(super) type Compare<'a, T> = &'a (dyn Fn(&T, &T) -> Ordering + Sync);

/// Sorts by merging, in budget. The order by [`natural`] is not always consistent, and must do no harm then; the
/// standard library does not promise that.
pub(super) fn sort_by<'a, T>(
    items: Vec<T>,
    compare: Compare<'a, T>,
    budget: &'a mut CoopBudget,
) -> Pin<Box<dyn Future<Output = Vec<T>> + Send + 'a>>
where
    T: Send + 'a,
{
    Box::pin(async move {
        budget.step().await;
        if items.len() <= AT_ONCE {
            return sort_now(items, compare);
        }
        let mut left = items;
        let right = left.split_off(left.len() / 2);
        let left = sort_by(left, compare, budget).await;
        let right = sort_by(right, compare, budget).await;
        let mut merge = Merge::new(left, right);
        while !merge.some(AT_ONCE, compare) {
            budget.step().await;
        }
        merge.merged
    })
}

fn sort_now<T>(items: Vec<T>, compare: Compare<'_, T>) -> Vec<T> {
    if items.len() < 2 {
        return items;
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let mut merge = Merge::new(sort_now(left, compare), sort_now(right, compare));
    merge.some(usize::MAX, compare);
    merge.merged
}

/// Two sorted lists that are being merged.
struct Merge<T> {
    left: Peekable<IntoIter<T>>,
    right: Peekable<IntoIter<T>>,
    merged: Vec<T>,
}

impl<T> Merge<T> {
    fn new(left: Vec<T>, right: Vec<T>) -> Merge<T> {
        let merged = Vec::with_capacity(left.len() + right.len());
        Merge { left: left.into_iter().peekable(), right: right.into_iter().peekable(), merged }
    }

    /// Merges this many items; `true`: all are merged.
    fn some(&mut self, count: usize, compare: Compare<'_, T>) -> bool {
        for _ in 0..count {
            let next = match (self.left.peek(), self.right.peek()) {
                (Some(a), Some(b)) if compare(a, b).is_gt() => self.right.next(),
                (Some(_), _) => self.left.next(),
                (None, _) => self.right.next(),
            };
            match next {
                Some(item) => self.merged.push(item),
                None => return true,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let names = ["foo-1.7", "foo-1.7.2", "foo-1.7.12", "foo-1.8.2", "foo-1.8.2a", "foo-1.12"];
        for pair in names.windows(2) {
            assert_eq!(natural(pair[0].as_bytes(), pair[1].as_bytes(), false), Ordering::Less, "{pair:?}");
        }
        let table: [(&[u8], &[u8], Ordering); 7] = [
            (b"foo-1.001", b"foo-1.002", Ordering::Less),
            (b"foo-1.030", b"foo-1.04", Ordering::Less),
            (b"a1", b"a01", Ordering::Greater),
            (b"a b", b"ab", Ordering::Equal),
            (b"a", b"\xff", Ordering::Greater),
            (b"a", b"ab", Ordering::Less),
            (b"", b"", Ordering::Equal),
        ];
        for (a, b, want) in table {
            assert_eq!(natural(a, b, false), want, "{a:?} {b:?}");
        }
        assert_eq!(natural(b"ABC2", b"abc10", true), Ordering::Less);
    }

    fn sorted<T: Send>(items: Vec<T>, compare: Compare<'_, T>) -> Vec<T> {
        sys::block_on::block_on(sort_by(items, compare, &mut CoopBudget::new()), || ()).expect("a result")
    }

    #[test]
    fn sorting_keeps_equal_ones_in_order() {
        let items = vec![(3, 'a'), (1, 'b'), (3, 'c'), (2, 'd'), (1, 'e')];
        let by_number = |a: &(i32, char), b: &(i32, char)| a.0.cmp(&b.0);
        assert_eq!(sorted(items, &by_number), [(1, 'b'), (1, 'e'), (2, 'd'), (3, 'a'), (3, 'c')]);
        let many: Vec<(i32, char)> = (0..10_000).map(|i| (i * 7919 % 1000, 'x')).collect();
        let mut want = many.clone();
        want.sort();
        assert_eq!(sorted(many, &by_number), want);
        assert_eq!(sorted((0..1000).collect(), &|_: &i32, _| Ordering::Greater).len(), 1000);
    }
}
