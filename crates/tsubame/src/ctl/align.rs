//! Aligns two lists, so that as little as possible is on one side only.

/// The side or sides that have an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Both,
    Left,
    Right,
}

/// Above this number of items on both sides, they are not compared one by one.
const COMPARED_MAX: usize = 4000;

/// The items of both sides in order, with as few as possible on one side only (Hunt and Szymanski's longest common
/// subsequence, over the items between the common beginning and end).
pub(super) fn align<'a, T>(left: &'a [T], right: &'a [T], same: impl Fn(&T, &T) -> bool) -> Vec<(Side, &'a T)> {
    let alike = |(a, b): &(&T, &T)| same(a, b);
    let begin = left.iter().zip(right).take_while(alike).count();
    let (inner_left, inner_right) = (&left[begin..], &right[begin..]);
    let end = inner_left.iter().rev().zip(inner_right.iter().rev()).take_while(alike).count();
    let (end_left, end_right) = (inner_left.len() - end, inner_right.len() - end);
    let mut out: Vec<(Side, &T)> = left[..begin].iter().map(|item| (Side::Both, item)).collect();
    out.extend(middle(&inner_left[..end_left], &inner_right[..end_right], same));
    out.extend(inner_left[end_left..].iter().map(|item| (Side::Both, item)));
    out
}

fn middle<'a, T>(left: &'a [T], right: &'a [T], same: impl Fn(&T, &T) -> bool) -> Vec<(Side, &'a T)> {
    let only = |side, items: &'a [T]| items.iter().map(move |item| (side, item));
    if left.len().max(right.len()) > COMPARED_MAX {
        return only(Side::Left, left).chain(only(Side::Right, right)).collect();
    }
    // `longest[i][j]`: the length for `left[i..]` and `right[j..]`.
    let width = right.len() + 1;
    let mut longest = vec![0u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i * width + j] = match same(&left[i], &right[j]) {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < left.len() && j < right.len() {
        if same(&left[i], &right[j]) {
            out.push((Side::Both, &left[i]));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            out.push((Side::Left, &left[i]));
            i += 1;
        } else {
            out.push((Side::Right, &right[j]));
            j += 1;
        }
    }
    out.extend(only(Side::Left, &left[i..]));
    out.extend(only(Side::Right, &right[j..]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_are_on_one_side_only() {
        for (left, right, want) in [
            ("abc", "abc", "abc"),
            ("abc", "axc", "a-b+xc"),
            ("", "ab", "+a+b"),
            ("ab", "", "-a-b"),
            ("abcd", "bd", "-ab-cd"),
            ("bd", "abcd", "+ab+cd"),
        ] {
            let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
            let got: String = align(&left, &right, |a, b| a == b)
                .iter()
                .map(|(side, item)| match side {
                    Side::Both => item.to_string(),
                    Side::Left => format!("-{item}"),
                    Side::Right => format!("+{item}"),
                })
                .collect();
            assert_eq!(got, want);
        }
    }
}
