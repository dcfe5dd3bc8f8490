//! The rules of a server or a section, and how inner ones combine with outer ones.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use conf::pattern::PatternSet;
use conf::{Merge, Origin, Setting};

use super::flags::Flags;
use super::maps::Map;
use super::rule::{Condition, Rule};

/// The default of `RewriteEngine`.
pub(super) const ENGINE: bool = false;

/// `RewriteOptions`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choices(u32);

impl Choices {
    pub(super) const INHERIT: Choices = Choices(1);
    pub(super) const INHERIT_BEFORE: Choices = Choices(1 << 1);
    pub(super) const INHERIT_DOWN: Choices = Choices(1 << 2);
    pub(super) const INHERIT_DOWN_BEFORE: Choices = Choices(1 << 3);
    pub(super) const IGNORE_INHERIT: Choices = Choices(1 << 4);
    pub(super) const ALLOW_NO_SLASH: Choices = Choices(1 << 5);
    pub(super) const ALLOW_ANY_URI: Choices = Choices(1 << 6);
    pub(super) const MERGE_BASE: Choices = Choices(1 << 7);
    pub(super) const IGNORE_CONTEXT_INFO: Choices = Choices(1 << 8);
    pub(super) const LEGACY_PREFIX_DOCROOT: Choices = Choices(1 << 9);
    pub(super) const UNSAFE_PREFIX_STAT: Choices = Choices(1 << 10);

    pub(super) const NAMES: [(&str, Choices); 11] = [
        ("Inherit", Choices::INHERIT),
        ("InheritBefore", Choices::INHERIT_BEFORE),
        ("InheritDown", Choices::INHERIT_DOWN),
        ("InheritDownBefore", Choices::INHERIT_DOWN_BEFORE),
        ("IgnoreInherit", Choices::IGNORE_INHERIT),
        ("AllowNoSlash", Choices::ALLOW_NO_SLASH),
        ("AllowAnyURI", Choices::ALLOW_ANY_URI),
        ("MergeBase", Choices::MERGE_BASE),
        ("IgnoreContextInfo", Choices::IGNORE_CONTEXT_INFO),
        ("LegacyPrefixDocRoot", Choices::LEGACY_PREFIX_DOCROOT),
        ("UnsafePrefixStat", Choices::UNSAFE_PREFIX_STAT),
    ];

    /// The options of both sets.
    pub(super) const fn or(self, others: Choices) -> Choices {
        Choices(self.0 | others.0)
    }

    pub(super) const fn has(self, one: Choices) -> bool {
        self.0 & one.0 != 0
    }
}

/// The settings of one level, or of several merged ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// `RewriteEngine`
    pub(super) engine: Setting<bool>,
    options: Option<(Choices, Vec<Origin>)>,
    /// `RewriteBase`
    pub(super) base: Setting<Arc<str>>,
    /// The section's directory, with a slash at its end.
    pub(super) directory: Option<Arc<str>>,
    pub(super) list: List,
    /// Conditions for the next rule.
    pub(super) pending: Vec<Arc<Condition>>,
    /// `RewriteMap`
    pub(super) maps: BTreeMap<String, (Arc<Map>, Origin)>,
    /// The rules belong to a virtual host.
    pub(super) of_host: bool,
}

/// Rules in order, each with its line.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    rules: Vec<(Arc<Rule>, Origin)>,
    /// The combined matcher of all patterns; made when first wanted, and dropped when a rule is added.
    many: OnceLock<Option<Arc<PatternSet>>>,
}

impl List {
    /// Shorter lists are evaluated rule by rule: that is faster than the combined matcher.
    const SHORT: usize = 16;

    pub(super) fn push(&mut self, rule: (Arc<Rule>, Origin)) {
        self.rules.push(rule);
        self.many = OnceLock::new();
    }

    /// The combined matcher that tells which rules can be skipped. A negated rule matches if its pattern does not, and
    /// the rules chained to a rule depend on it whether it matches or not.
    pub(super) fn many(&self) -> Option<&PatternSet> {
        if self.rules.len() < Self::SHORT {
            return None;
        }
        let asked = |rule: &Rule| rule.given.flags.any(Flags::NEGATED.or(Flags::CHAIN));
        let patterns = || self.rules.iter().map(|(rule, _)| (!asked(rule)).then_some(&rule.regex));
        self.many.get_or_init(|| PatternSet::new(patterns()).map(Arc::new)).as_deref()
    }

    /// The index of the first rule from `at` on that is not chained to this one, the rule before `at`.
    pub(super) fn after_chain(&self, rule: &Rule, mut at: usize) -> usize {
        let mut last = rule;
        while let (true, Some((next, _))) = (last.given.flags.any(Flags::CHAIN), self.rules.get(at)) {
            last = next;
            at += 1;
        }
        at
    }
}

impl Deref for List {
    type Target = [(Arc<Rule>, Origin)];

    fn deref(&self) -> &Self::Target {
        &self.rules
    }
}

impl FromIterator<(Arc<Rule>, Origin)> for List {
    fn from_iter<I: IntoIterator<Item = (Arc<Rule>, Origin)>>(rules: I) -> Self {
        Self { rules: rules.into_iter().collect(), many: OnceLock::new() }
    }
}

impl Rules {
    /// Adds the options of a `RewriteOptions` line.
    pub(super) fn choose(&mut self, choices: Choices, origin: &Origin) {
        let (known, lines) = self.options.get_or_insert_default();
        *known = known.or(choices);
        lines.push(origin.clone());
    }

    pub(super) fn options(&self) -> Choices {
        self.options.as_ref().map(|(choices, _)| *choices).unwrap_or_default()
    }

    pub(super) fn is_on(&self) -> bool {
        self.engine.value_or(ENGINE)
    }
}

/// Which of the outer rules also apply inside.
enum Order {
    InnerFirst,
    OuterFirst,
    InnerOnly,
}

fn order(outer: Choices, own: Choices) -> Order {
    let down = |option| outer.has(option) && !own.has(Choices::IGNORE_INHERIT);
    if own.has(Choices::INHERIT) || down(Choices::INHERIT_DOWN) {
        Order::InnerFirst
    } else if own.has(Choices::INHERIT_BEFORE) || down(Choices::INHERIT_DOWN_BEFORE) {
        Order::OuterFirst
    } else {
        Order::InnerOnly
    }
}

impl Merge for Rules {
    fn merge(base: &Self, add: &Self) -> Self {
        let options = add.options.clone().or_else(|| base.options.clone());
        let own = options.as_ref().map(|(choices, _)| *choices).unwrap_or_default();
        let joined = |first: &Rules, second: &Rules| first.list.iter().chain(&*second.list).cloned().collect();
        let pending = |first: &Rules, second: &Rules| first.pending.iter().chain(&second.pending).cloned().collect();
        let maps = |under: &Rules, over: &Rules| {
            let mut maps = under.maps.clone();
            maps.extend(over.maps.clone());
            maps
        };
        let (list, pending, maps) = match order(base.options(), own) {
            Order::InnerFirst => (joined(add, base), pending(add, base), maps(base, add)),
            Order::OuterFirst => (joined(base, add), pending(base, add), maps(add, base)),
            Order::InnerOnly => (add.list.clone(), add.pending.clone(), add.maps.clone()),
        };
        Rules {
            engine: Setting::merge(&base.engine, &add.engine),
            base: if own.has(Choices::MERGE_BASE) { Setting::merge(&base.base, &add.base) } else { add.base.clone() },
            directory: add.directory.clone(),
            options,
            list,
            pending,
            maps,
            of_host: add.of_host,
        }
    }

    fn origins(&self, see: &mut dyn FnMut(&Origin)) {
        self.engine.origins(see);
        self.base.origins(see);
        self.options.iter().flat_map(|(_, lines)| lines).for_each(&mut *see);
        self.maps.values().for_each(|(_, origin)| see(origin));
        for (rule, origin) in &*self.list {
            rule.conditions.iter().for_each(|condition| see(&condition.origin));
            see(origin);
        }
    }
}
