//! Rows that come and go while somebody walks through them. Pure. What is selected is known by its name and not by its place, so
//! that nothing which comes or goes elsewhere changes it; and as long as there is room it keeps its place on the screen too.

use std::cell::Cell;

/// What a list is of.
pub trait Row {
    /// What tells it from the others, for good.
    fn key(&self) -> &str;

    /// Lower-case text that a search looks in.
    fn text(&self) -> &str;

    /// The same thing as it is now.
    fn renew(&mut self, new: Self)
    where
        Self: Sized,
    {
        *self = new;
    }
}

/// In the order of arrival.
#[derive(Clone, Debug)]
pub struct List<R> {
    rows: Vec<R>,
    /// Lower case.
    search: String,
    selected: Option<String>,
    /// The first row of the screen, among those that are found.
    top: Cell<usize>,
}

impl<R> Default for List<R> {
    fn default() -> List<R> {
        List { rows: Vec::new(), search: String::new(), selected: None, top: Cell::new(0) }
    }
}

impl<R: Row> List<R> {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn rows(&self) -> &[R] {
        &self.rows
    }

    /// Those that the search finds.
    pub fn found(&self) -> impl DoubleEndedIterator<Item = &R> {
        self.rows.iter().filter(|row| self.finds(*row))
    }

    pub fn search(&self) -> &str {
        &self.search
    }

    pub fn get(&self, key: &str) -> Option<&R> {
        self.rows.iter().find(|row| row.key() == key)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut R> {
        self.rows.iter_mut().find(|row| row.key() == key)
    }

    /// Only ever one that is found.
    pub fn selected(&self) -> Option<&R> {
        self.get(self.selected.as_deref()?)
    }

    fn finds(&self, row: &R) -> bool {
        self.search.is_empty() || row.text().contains(&self.search)
    }

    /// The place of the selected row among those that are found.
    fn place(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        self.found().position(|row| row.key() == selected)
    }

    /// Adds it at the end, or renews it where it is.
    pub fn put(&mut self, row: R) {
        match self.get_mut(row.key()) {
            Some(known) => known.renew(row),
            None => self.rows.push(row),
        }
        if self.selected.is_none() {
            self.select_at(0);
        }
    }

    /// Makes these all there are; known ones keep their places.
    pub fn replace(&mut self, rows: Vec<R>) {
        let names: std::collections::BTreeSet<String> = rows.iter().map(|row| row.key().to_owned()).collect();
        self.keep(|row| names.contains(row.key()));
        let known: std::collections::BTreeMap<String, usize> =
            self.rows.iter().enumerate().map(|(at, row)| (row.key().to_owned(), at)).collect();
        for row in rows {
            match known.get(row.key()).and_then(|at| self.rows.get_mut(*at)) {
                Some(place) => place.renew(row),
                None => self.rows.push(row),
            }
        }
        if self.selected.is_none() {
            self.select_at(0);
        }
    }

    pub fn remove(&mut self, key: &str) {
        self.keep(|row| row.key() != key);
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.selected = None;
        self.top.set(0);
    }

    /// Drops the oldest beyond so many.
    pub fn trim(&mut self, most: usize) {
        let excess = self.rows.len().saturating_sub(most);
        if excess > 0 {
            let gone: std::collections::BTreeSet<String> =
                self.rows.iter().take(excess).map(|row| row.key().to_owned()).collect();
            self.keep(|row| !gone.contains(row.key()));
        }
    }

    fn keep(&mut self, stays: impl Fn(&R) -> bool) {
        let place = self.place();
        let above = self.found().take(place.unwrap_or(0)).filter(|row| !stays(row)).count();
        let goes = self.selected().is_some_and(|row| !stays(row));
        self.rows.retain(|row| stays(row));
        // What is selected stays where it is on the screen.
        self.top.set(self.top.get().saturating_sub(above));
        if goes {
            self.selected = None;
            self.select_at(place.unwrap_or(0).saturating_sub(above));
        }
    }

    /// The row at this place among those that are found, or the last one.
    pub fn select_at(&mut self, place: usize) {
        let last = self.found().count().saturating_sub(1);
        let key = self.found().nth(place.min(last)).map(|row| row.key().to_owned());
        self.selected = key;
    }

    /// Whether there is such a row.
    pub fn select(&mut self, key: &str) -> bool {
        let is_found = self.found().any(|row| row.key() == key);
        if is_found {
            self.selected = Some(key.to_owned());
        }
        is_found
    }

    /// By so many rows, not beyond the ends.
    pub fn step(&mut self, by: isize) {
        let place = self.place().unwrap_or(0).saturating_add_signed(by);
        self.select_at(place);
    }

    /// The next row behind the selected one for which this holds, or else the one before it.
    pub fn select_near(&mut self, wanted: impl Fn(&R) -> bool) {
        let place = self.place().unwrap_or(0);
        let behind = self.found().skip(place.saturating_add(1)).find(|row| wanted(row));
        let key = behind.or_else(|| self.found().take(place).filter(|row| wanted(row)).last());
        if let Some(key) = key.map(|row| row.key().to_owned()) {
            self.selected = Some(key);
        }
    }

    pub fn look_for(&mut self, search: &str) {
        self.search = search.to_lowercase();
        self.top.set(0);
        if self.place().is_none() {
            self.select_at(0);
        }
    }

    /// The rows that have room in so many lines, the selected one among them, and whether each is that one.
    pub fn window(&self, lines: usize) -> Vec<(bool, &R)> {
        let count = self.found().count();
        let place = self.place().unwrap_or(0);
        let highest = place.saturating_add(1).saturating_sub(lines);
        let top = self.top.get().clamp(highest.min(place), place).min(count.saturating_sub(lines));
        self.top.set(top);
        let shown = self.found().enumerate().skip(top).take(lines);
        shown.map(|(at, row)| (at == place, row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Word(String);

    impl Row for Word {
        fn key(&self) -> &str {
            &self.0
        }

        fn text(&self) -> &str {
            &self.0
        }
    }

    fn list(words: &str) -> List<Word> {
        let mut list = List::default();
        words.split(' ').for_each(|word| list.put(Word(word.to_owned())));
        list
    }

    fn shown(list: &List<Word>, lines: usize) -> String {
        let words =
            list.window(lines).into_iter().map(|(is, word)| if is { format!("[{}]", word.0) } else { word.0.clone() });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_selected_keeps_its_place_when_others_come_and_go() {
        let mut list = list("a b c d e f g h");
        assert_eq!(shown(&list, 3), "[a] b c");
        list.step(4);
        assert_eq!(shown(&list, 3), "c d [e]");
        list.remove("a");
        list.remove("c");
        assert_eq!(shown(&list, 3), "b d [e]");
        list.put(Word("i".into()));
        assert_eq!(shown(&list, 3), "b d [e]");
        list.remove("e");
        assert_eq!(shown(&list, 3), "b d [f]");
        list.step(100);
        list.remove("i");
        assert_eq!(shown(&list, 3), "f g [h]");
        list.replace(vec![Word("x".into()), Word("g".into())]);
        assert_eq!(shown(&list, 3), "[g] x");
        list.replace(vec![]);
        assert_eq!((shown(&list, 3), list.selected()), (String::new(), None));
    }

    #[test]
    fn a_search_shows_what_it_finds() {
        let mut list = list("apple banana cherry apricot");
        list.step(1);
        list.look_for("AP");
        assert_eq!(shown(&list, 9), "[apple] apricot");
        list.step(1);
        list.look_for("");
        assert_eq!(shown(&list, 9), "apple banana cherry [apricot]");
        list.look_for("zzz");
        assert_eq!(shown(&list, 9), "");
        list.put(Word("zzzz".into()));
        assert_eq!(shown(&list, 9), "[zzzz]");
    }

    #[test]
    fn the_oldest_go_first() {
        let mut list = list("a b c d");
        list.trim(2);
        assert_eq!(shown(&list, 9), "[c] d");
    }
}
