//! The numbers of a map, and whether a point is inside a shape.

/// The most corners of a shape, as in Apache.
const CORNERS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The point in a query (`120,35`). `None`: there is no valid one.
pub(super) fn clicked(args: Option<&str>) -> Option<Point> {
    let args = args?;
    let start = args.find(|c: char| c.is_ascii_digit() || c == ',').unwrap_or(args.len());
    let (x, _) = number(&args[start..])?;
    let (_, after) = args.split_once(',')?;
    let start = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
    let (y, _) = number(&after[start..])?;
    // Some browsers without images send zeros.
    (x != -1.0 && y != -1.0 && (x, y) != (0.0, 0.0)).then_some(Point { x, y })
}

/// The points at the beginning of a text, and the rest. As in Apache a fraction is parsed, and then in the way.
pub(super) fn numbers(text: &str) -> (Vec<Point>, &str) {
    let (mut points, mut rest) = (Vec::new(), text);
    while points.len() < CORNERS_MAX {
        let Some(point) = pair(rest) else { break };
        points.push(point);
        let digits = |text: &'_ str| text.bytes().take_while(u8::is_ascii_digit).count();
        rest = rest.trim_ascii_start();
        rest = &rest[digits(rest)..];
        let mut after = rest.chars();
        after.next();
        rest = after.as_str().trim_ascii_start();
        rest = &rest[digits(rest)..];
    }
    (points, rest)
}

/// Two numbers separated by commas or blanks.
fn pair(text: &str) -> Option<Point> {
    let (x, rest) = number(text)?;
    let after = rest.trim_start_matches([',', ' ']);
    if after.len() == rest.len() {
        return None;
    }
    let (y, _) = number(after)?;
    Some(Point { x, y })
}

/// The number at the beginning of a text, parsed like C's `strtod`, and the rest.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_ascii_start();
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(end);
    end += whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        end += if whole + fraction > 0 { 1 + fraction } else { 0 };
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = if end + 1 + sign < bytes.len() { digits(end + 1 + sign) } else { 0 };
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

pub(super) fn is_in_rectangle(point: Point, one: Point, other: Point) -> bool {
    let within = |value: f64, a: f64, b: f64| value >= a.min(b) && value <= a.max(b);
    within(point.x, one.x, other.x) && within(point.y, one.y, other.y)
}

/// A circle is given by its centre and a point on it.
pub(super) fn is_in_circle(point: Point, middle: Point, edge: Point) -> bool {
    let square = |to: Point| (middle.x - to.x).powi(2) + (middle.y - to.y).powi(2);
    square(point) <= square(edge)
}

/// Counts the edges on one side: an odd number means inside. A point on an edge is inside, too.
pub(super) fn is_in_polygon(point: Point, corners: &[Point]) -> bool {
    let corners = &corners[..corners.iter().position(|corner| corner.x == -1.0).unwrap_or(corners.len())];
    let Point { x, y } = point;
    let mut inside = false;
    for (at, a) in corners.iter().enumerate() {
        let b = corners[(at + 1) % corners.len()];
        let side = (y - a.y) * (b.x - a.x) - (x - a.x) * (b.y - a.y);
        if (a.y >= y) != (b.y >= y) && if b.y >= a.y { side >= 0.0 } else { side <= 0.0 } {
            inside = !inside;
        }
        if side == 0.0 && is_in_rectangle(point, *a, b) {
            return true;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clicks() {
        for (args, want) in [
            ("1,2", Some((1.0, 2.0))),
            ("x=10,y=20.5", Some((10.0, 20.5))),
            ("0,0", None),
            ("7", None),
            (",7", None),
            ("", None),
        ] {
            assert_eq!(clicked(Some(args)), want.map(|(x, y)| Point { x, y }), "{args}");
        }
    }

    #[test]
    fn shapes() {
        let (corners, rest) = numbers("0,0 10,0  10,10 0,10 \"text\"");
        assert_eq!((corners.len(), rest), (4, " \"text\""));
        for (x, y, inside) in [(5.0, 5.0, true), (0.0, 0.0, true), (10.0, 5.0, true), (11.0, 5.0, false)] {
            let point = Point { x, y };
            assert_eq!(is_in_polygon(point, &corners), inside, "{point:?}");
            assert_eq!(is_in_rectangle(point, corners[0], corners[2]), inside, "{point:?}");
        }
        assert_eq!(numbers("1.5,2 3,4").0.len(), 1, "a fraction is in the way of what follows");
        assert_eq!(numbers("a").0.len(), 0);
    }
}
