//! A table whose entries are found by numbers that are never reused.

/// The number of an entry: its place, and below that how often the place was used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

impl Number {
    fn new(place: usize, generation: u32) -> Number {
        Number((place as u64) << 32 | u64::from(generation))
    }

    fn place(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number(number)
    }
}

impl From<Number> for u64 {
    fn from(number: Number) -> u64 {
        number.0
    }
}

/// The table. A free place is reused at once.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds the entry that `entry` makes from its number.
    pub(super) fn insert_with<U>(&mut self, entry: impl FnOnce(Number) -> (T, U)) -> U {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() - 1
        });
        let (generation, taken) = &mut self.places[place];
        let (entry, result) = entry(Number::new(place, *generation));
        *taken = Some(entry);
        result
    }

    /// The entry with a number, as long as it is there.
    pub(super) fn get(&self, number: Number) -> Option<&T> {
        let (generation, entry) = self.places.get(number.place())?;
        entry.as_ref().filter(|_| *generation == number.generation())
    }

    /// Removes it.
    pub(super) fn remove(&mut self, number: Number) -> Option<T> {
        self.get(number)?;
        let (generation, entry) = &mut self.places[number.place()];
        *generation = generation.wrapping_add(1);
        self.free.push(number.place());
        entry.take()
    }

    /// Removes all.
    pub(super) fn take(&mut self) -> Vec<T> {
        let mut taken = Vec::new();
        for (place, (generation, entry)) in self.places.iter_mut().enumerate() {
            if let Some(entry) = entry.take() {
                *generation = generation.wrapping_add(1);
                self.free.push(place);
                taken.push(entry);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_never_that_of_another_entry() {
        let mut slab = Slab::default();
        let add = |slab: &mut Slab<char>, entry| slab.insert_with(|number| (entry, number));
        let (a, b) = (add(&mut slab, 'a'), add(&mut slab, 'b'));
        assert_eq!(slab.get(a), Some(&'a'));
        assert_eq!([slab.remove(a), slab.remove(a)], [Some('a'), None]);
        let c = add(&mut slab, 'c');
        assert_eq!(c.place(), a.place());
        assert_eq!(
            [a, b, c, Number::from(u64::MAX)].map(|number| slab.get(number)),
            [None, Some(&'b'), Some(&'c'), None]
        );
        assert_eq!([slab.take(), slab.take()], [vec!['c', 'b'], vec![]]);
        let d = add(&mut slab, 'd');
        assert_eq!([b, c, d].map(|number| slab.get(number)), [None, None, Some(&'d')]);
    }
}
