//! Circles in a directed graph: its strongly connected components (Tarjan, 1972).

/// The circles of more than one node, each in ascending order; nodes are numbers below `nodes`.
pub(super) fn circles(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut search = Search { next: vec![Vec::new(); nodes], ..Search::default() };
    for (from, to) in edges {
        search.next[from].push(to);
    }
    search.index = vec![None; nodes];
    search.low = vec![0; nodes];
    search.on_stack = vec![false; nodes];
    for node in 0..nodes {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.found.retain(|circle| circle.len() > 1);
    search.found.iter_mut().for_each(|circle| circle.sort_unstable());
    search.found.sort();
    search.found
}

#[derive(Default)]
struct Search {
    next: Vec<Vec<usize>>,
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn visit(&mut self, node: usize) {
        self.index[node] = Some(self.count);
        self.low[node] = self.count;
        self.count += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
        for to in self.next[node].clone() {
            match self.index[to] {
                None => {
                    self.visit(to);
                    self.low[node] = self.low[node].min(self.low[to]);
                }
                Some(index) if self.on_stack[to] => self.low[node] = self.low[node].min(index),
                Some(_) => {}
            }
        }
        if self.index[node] != Some(self.low[node]) {
            return;
        }
        let mut circle = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack[member] = false;
            circle.push(member);
            if member == node {
                break;
            }
        }
        self.found.push(circle);
    }
}

#[cfg(test)]
mod tests {
    use super::circles;

    #[test]
    fn components() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 5), (5, 0)];
        assert_eq!(circles(6, edges.into_iter()), [vec![0, 1, 2], vec![3, 4]]);
    }
}
