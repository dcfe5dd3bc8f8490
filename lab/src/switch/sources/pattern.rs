//! Texts that a regular expression matches, to ask for what the expression is about.
//!
//! What is not understood here (back references, look-behind, named classes of Unicode) makes no pattern: nothing is asked
//! then, rather than something that only looks right.

/// The most characters of an expression.
const EXPRESSION_MAX: usize = 1024;
/// The most groups within groups.
const DEPTH_MAX: usize = 12;
/// The most repetitions that an expression may ask for.
const REPETITIONS_MAX: u32 = 255;
/// The most characters of a text.
const TEXT_MAX: usize = 1024;
/// The most steps of one search.
const STEPS_MAX: u32 = 50_000;
/// How many texts are derived: more alternatives than these are rarely decided differently.
const TEXTS_MAX: usize = 4;

/// Characters that stand for a class, the most readable ones first.
const USUAL: &str = "xa1A-_ ./%";

/// A regular expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    alternatives: Vec<Vec<Node>>,
    ignores_case: bool,
}

#[derive(Clone, Debug)]
enum Node {
    /// One character.
    Class(Class),
    Start,
    End,
    Group(Vec<Vec<Node>>),
    /// Nothing that is one of these may follow, or something must.
    Ahead {
        alternatives: Vec<Vec<Node>>,
        is_wanted: bool,
    },
    Repeat {
        node: Box<Node>,
        min: u32,
        max: u32,
    },
    /// `\b`
    Boundary,
}

#[derive(Clone, Debug, Default)]
struct Class {
    ranges: Vec<(char, char)>,
    is_negated: bool,
}

impl Class {
    fn of(char: char) -> Self {
        Self { ranges: vec![(char, char)], is_negated: false }
    }

    fn not(mut self) -> Self {
        self.is_negated = !self.is_negated;
        self
    }

    fn has(&self, char: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&char)) != self.is_negated
    }

    /// A character of it.
    fn example(&self) -> Option<char> {
        let first = || self.ranges.first().map(|(first, _)| *first).filter(|char| self.has(*char));
        // A class of one character is that character.
        let single = matches!(self.ranges[..], [(first, last)] if first == last && !self.is_negated).then(first);
        single.flatten().or_else(|| USUAL.chars().find(|char| self.has(*char))).or_else(first)
    }

    /// The class of an escape such as `\d`.
    fn escaped(char: char) -> Option<Self> {
        let ranges = match char.to_ascii_lowercase() {
            'd' => vec![('0', '9')],
            'w' => vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')],
            's' => vec![(' ', ' '), ('\t', '\r')],
            _ => return None,
        };
        Some(Self { ranges, is_negated: char.is_ascii_uppercase() })
    }

    /// The class of a name such as `[:alpha:]`.
    fn named(name: &str) -> Option<Vec<(char, char)>> {
        Some(match name {
            "alpha" => vec![('a', 'z'), ('A', 'Z')],
            "digit" => vec![('0', '9')],
            "alnum" => vec![('a', 'z'), ('A', 'Z'), ('0', '9')],
            "lower" => vec![('a', 'z')],
            "upper" => vec![('A', 'Z')],
            "xdigit" => vec![('0', '9'), ('a', 'f'), ('A', 'F')],
            "space" => vec![(' ', ' '), ('\t', '\r')],
            _ => return None,
        })
    }
}

impl Pattern {
    /// Reads one; none if it has what is not understood here.
    pub(super) fn read(expression: &str) -> Option<Self> {
        let (expression, ignores_case) = match expression.strip_prefix("(?i)") {
            Some(rest) => (rest, true),
            None => (expression, false),
        };
        let chars: Vec<char> = expression.chars().take(EXPRESSION_MAX + 1).collect();
        if chars.len() > EXPRESSION_MAX {
            return None;
        }
        let mut reader = Reader { chars: &chars, at: 0 };
        let alternatives = reader.alternatives(0)?;
        (reader.at == chars.len()).then_some(Self { alternatives, ignores_case })
    }

    /// The same without regard to case.
    pub(super) fn ignoring_case(mut self) -> Self {
        self.ignores_case = true;
        self
    }

    /// Some texts that it matches as a whole: of each group another alternative, of what may be missing both forms.
    pub(super) fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for variant in 0..TEXTS_MAX {
            let mut text = String::new();
            let is_made = derive(&self.alternatives, variant, &mut text).is_some();
            if is_made && !texts.contains(&text) && self.is_found(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// Whether it matches somewhere in a text.
    pub(super) fn is_found(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().take(TEXT_MAX + 1).collect();
        if chars.len() > TEXT_MAX {
            return false;
        }
        let search = Search { chars: &chars, ignores_case: self.ignores_case, steps: STEPS_MAX.into() };
        (0..=chars.len()).any(|from| search.any(&self.alternatives, from, &|_| true))
    }

    /// A text that is nearly one that it matches.
    pub(super) fn near(&self, text: &str) -> Option<String> {
        let shorter = text.char_indices().next_back().map_or("", |(last, _)| &text[..last]);
        let (head, rest) = text.split_at(text.len().min(usize::from(text.starts_with('/'))));
        let all = [format!("{text}x"), shorter.to_owned(), format!("{head}x{rest}"), format!("{head}no-such-name")];
        all.into_iter().find(|near| !near.is_empty() && !self.is_found(near))
    }
}

/// Appends a text of one of the alternatives.
fn derive(alternatives: &[Vec<Node>], variant: usize, text: &mut String) -> Option<()> {
    for node in alternatives.get(variant % alternatives.len().max(1))? {
        derive_node(node, variant, text)?;
    }
    Some(())
}

fn derive_node(node: &Node, variant: usize, text: &mut String) -> Option<()> {
    if text.len() > TEXT_MAX {
        return None;
    }
    match node {
        Node::Class(class) => text.push(class.example()?),
        Node::Group(alternatives) => derive(alternatives, variant, text)?,
        Node::Repeat { node, min, max } => {
            let times = if variant.is_multiple_of(2) { (*min).max(1).min(*max) } else { *min };
            for _ in 0..times {
                derive_node(node, variant, text)?;
            }
        }
        // The text is searched for the whole expression afterwards.
        Node::Start | Node::End | Node::Boundary | Node::Ahead { .. } => {}
    }
    Some(())
}

/// Reads an expression.
struct Reader<'e> {
    chars: &'e [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    /// Passes over a text if it comes next.
    fn takes(&mut self, text: &str) -> bool {
        let comes = text.chars().enumerate().all(|(at, char)| self.chars.get(self.at + at) == Some(&char));
        self.at += if comes { text.chars().count() } else { 0 };
        comes
    }

    fn alternatives(&mut self, depth: usize) -> Option<Vec<Vec<Node>>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut all = vec![Vec::new()];
        while let Some(char) = self.peek().filter(|char| *char != ')') {
            self.at += 1;
            if char == '|' {
                all.push(Vec::new());
                continue;
            }
            let node = self.node(char, depth)?;
            let node = self.repeated(node)?;
            all.last_mut()?.push(node);
        }
        Some(all)
    }

    fn node(&mut self, char: char, depth: usize) -> Option<Node> {
        Some(match char {
            '^' => Node::Start,
            '$' => Node::End,
            '.' => Node::Class(Class { ranges: vec![('\n', '\n')], is_negated: true }),
            '[' => Node::Class(self.class()?),
            '(' => self.group(depth)?,
            '\\' => self.escape()?,
            '*' | '+' | '?' => return None,
            char => Node::Class(Class::of(char)),
        })
    }

    fn group(&mut self, depth: usize) -> Option<Node> {
        let ahead = if self.takes("?!") {
            Some(false)
        } else if self.takes("?=") {
            Some(true)
        } else {
            if self.peek() == Some('?') && !self.takes("?:") {
                return None;
            }
            None
        };
        let alternatives = self.alternatives(depth + 1)?;
        (self.next()? == ')').then_some(())?;
        Some(match ahead {
            Some(is_wanted) => Node::Ahead { alternatives, is_wanted },
            None => Node::Group(alternatives),
        })
    }

    fn escape(&mut self) -> Option<Node> {
        let char = self.next()?;
        Some(match char {
            'b' => Node::Boundary,
            'A' => Node::Start,
            'z' | 'Z' => Node::End,
            char => Node::Class(self.escaped(char)?),
        })
    }

    /// The class of what follows a backslash.
    fn escaped(&mut self, char: char) -> Option<Class> {
        match char {
            't' => Some(Class::of('\t')),
            'n' => Some(Class::of('\n')),
            'r' => Some(Class::of('\r')),
            'x' => {
                let digits = self.chars.get(self.at..self.at + 2)?.iter().collect::<String>();
                self.at += 2;
                Some(Class::of(char::from(u8::from_str_radix(&digits, 16).ok()?)))
            }
            char if char.is_ascii_alphanumeric() => Class::escaped(char),
            char => Some(Class::of(char)),
        }
    }

    fn class(&mut self) -> Option<Class> {
        let mut class = Class::default();
        let is_negated = self.takes("^");
        let mut is_first = true;
        loop {
            let char = self.next()?;
            match char {
                ']' if !is_first => break,
                '[' if self.takes(":") => {
                    let end = self.chars[self.at..].iter().position(|char| *char == ':')?;
                    let name: String = self.chars[self.at..self.at + end].iter().collect();
                    self.at += end;
                    self.takes(":]").then_some(())?;
                    class.ranges.extend(Class::named(&name)?);
                }
                char => self.range(char, &mut class)?,
            }
            is_first = false;
        }
        Some(if is_negated { class.not() } else { class })
    }

    /// A character of a class, or a range that begins with this character.
    fn range(&mut self, char: char, class: &mut Class) -> Option<()> {
        let one = |reader: &mut Self, char: char| match char {
            '\\' => {
                let next = reader.next()?;
                let inner = reader.escaped(next)?;
                // What is everything but some characters is no list of ranges.
                (!inner.is_negated).then_some(inner.ranges)
            }
            char => Some(vec![(char, char)]),
        };
        let mut ranges = one(self, char)?;
        let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|next| *next != ']');
        if let ([(first, _)], true) = (&ranges[..], is_range) {
            let first = *first;
            self.at += 1;
            let last = self.next()?;
            let last = one(self, last)?.first()?.1;
            ranges = vec![(first, last)];
        }
        class.ranges.extend(ranges);
        Some(())
    }

    /// The node with the repetition that follows.
    fn repeated(&mut self, node: Node) -> Option<Node> {
        let (min, max) = match self.peek() {
            Some('*') => (0, u32::MAX),
            Some('+') => (1, u32::MAX),
            Some('?') => (0, 1),
            Some('{') => match self.bounds() {
                Some(bounds) => bounds,
                None => return Some(node),
            },
            _ => return Some(node),
        };
        self.at += 1;
        // Lazy or possessive: the same texts match, nearly always.
        let _ = self.takes("?") || self.takes("+");
        (min <= REPETITIONS_MAX).then(|| Node::Repeat { node: Box::new(node), min, max })
    }

    /// The numbers of `{2,5}`, up to the brace; none if this is only a brace.
    fn bounds(&mut self) -> Option<(u32, u32)> {
        let length = self.chars[self.at..].iter().position(|char| *char == '}')?;
        let text: String = self.chars[self.at + 1..self.at + length].iter().collect();
        let (min, max) = text.split_once(',').unwrap_or((&text, &text));
        let min = min.parse().ok()?;
        let max = if max.is_empty() { u32::MAX } else { max.parse().ok()? };
        self.at += length;
        Some((min, max))
    }
}

/// A search for an expression in a text.
struct Search<'t> {
    chars: &'t [char],
    ignores_case: bool,
    /// Steps that are left.
    steps: std::cell::Cell<u32>,
}

impl Search<'_> {
    fn any(&self, alternatives: &[Vec<Node>], at: usize, then: &dyn Fn(usize) -> bool) -> bool {
        alternatives.iter().any(|nodes| self.sequence(nodes, at, then))
    }

    fn sequence(&self, nodes: &[Node], at: usize, then: &dyn Fn(usize) -> bool) -> bool {
        let Some(left) = self.steps.get().checked_sub(1) else { return false };
        self.steps.set(left);
        let Some((first, rest)) = nodes.split_first() else { return then(at) };
        let go_on = |at: usize| self.sequence(rest, at, then);
        match first {
            Node::Class(class) => self.chars.get(at).is_some_and(|char| self.fits(class, *char)) && go_on(at + 1),
            Node::Start => at == 0 && go_on(at),
            Node::End => at == self.chars.len() && go_on(at),
            Node::Boundary => {
                let is_word = |at: Option<usize>| {
                    at.and_then(|at| self.chars.get(at))
                        .is_some_and(|char| char.is_ascii_alphanumeric() || *char == '_')
                };
                is_word(at.checked_sub(1)) != is_word(Some(at)) && go_on(at)
            }
            Node::Group(alternatives) => self.any(alternatives, at, &go_on),
            Node::Ahead { alternatives, is_wanted } => self.any(alternatives, at, &|_| true) == *is_wanted && go_on(at),
            Node::Repeat { node, min, max } => self.repeated(node, (*min, *max), at, &go_on),
        }
    }

    fn repeated(&self, node: &Node, (min, max): (u32, u32), at: usize, then: &dyn Fn(usize) -> bool) -> bool {
        let fewer = (min.saturating_sub(1), max.saturating_sub(1));
        let again = |next: usize| (next > at || min > 0) && self.repeated(node, fewer, next, then);
        max > 0 && self.sequence(std::slice::from_ref(node), at, &again) || min == 0 && then(at)
    }

    fn fits(&self, class: &Class, char: char) -> bool {
        class.has(char)
            || self.ignores_case && (class.has(char.to_ascii_lowercase()) || class.has(char.to_ascii_uppercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_derived() {
        for (expression, expected) in [
            ("^/old/(.*)$", &["/old/x", "/old/"][..]),
            (r"\.(gif|jpe?g)$", &[".gif", ".jpg"]),
            (r"^/a\d{2}-[[:alpha:]]+", &["/a11-x"]),
            ("^/[^/]+/b", &["/x/b"]),
            ("^(?!/x)/(a|b)$", &["/a", "/b"]),
            ("(?i)^/A$", &["/A"]),
            (r"^/\w+\.php(/.*)?$", &["/x.php/x", "/x.php"]),
            ("^$", &[""]),
            ("!^/", &[]),
        ] {
            let pattern = Pattern::read(expression);
            let texts = pattern.as_ref().map(Pattern::texts).unwrap_or_default();
            assert_eq!(texts, expected, "{expression}");
        }
    }

    #[test]
    fn what_is_not_understood_makes_no_pattern() {
        for expression in [r"(a)\1", "(?<=a)b", "(a", "a)", "[a", "*a", r"\p{L}", "a{999}", r"[\D]", r"\x4"] {
            assert!(Pattern::read(expression).is_none(), "{expression}");
        }
        assert!(Pattern::read(&"(".repeat(500)).is_none());
        assert!(Pattern::read(&"a".repeat(EXPRESSION_MAX + 1)).is_none());
    }

    #[test]
    fn texts_are_searched() {
        for (expression, text, expected) in [
            (r"\.php$", "/a.php", true),
            (r"\.php$", "/a.php5", false),
            ("^/a+b", "/aaab", true),
            ("^/a{2}$", "/aaa", false),
            (r"\bcat\b", "a cat.", true),
            (r"\bcat\b", "concat", false),
            ("(?i)FIREFOX", "Mozilla Firefox", true),
            ("^(?!.*admin)", "/admin", false),
            ("[^a-c]", "abc", false),
            ("[]a]", "]", true),
            ("a{b", "a{b", true),
            // Far too many ways to divide the text: the search ends without a result.
            ("^(a*)*$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", false),
        ] {
            assert_eq!(Pattern::read(expression).unwrap().is_found(text), expected, "{expression} in {text}");
        }
    }

    #[test]
    fn near_texts_do_not_match() {
        for (expression, text, expected) in [
            ("^/a$", "/a", Some("/ax")),
            ("^/a", "/a", Some("/")),
            (r"\.gif", "/x.gif", Some("/x.gi")),
            ("^/", "/", Some("")),
            (".", "x", None),
        ] {
            let near = Pattern::read(expression).unwrap().near(text);
            assert_eq!(near.as_deref(), expected.filter(|text| !text.is_empty()), "{expression}");
        }
    }
}
