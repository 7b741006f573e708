//! [`PlanTree`]: the operators of a plan on a terminal, each on lines of its own, with its time, rows and bytes.
//!
//! - An operator's input is the operator below it. Of several inputs, each has a branch.
//! - Lines end before the terminal's last column, between words.
//! - The reason why scans are not on the GPU comes once, at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use console::{Style, measure_text_width};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, displayable};

use crate::cell_text::visible;
use crate::units;

/// What scans say of the GPU, at the end of their details.
const GPU_NOTE: &str = ", not on the GPU: ";
/// Columns that a line has at least for words, however deep its operator is.
const MIN_WORDS_COLUMNS: usize = 24;
/// Times of operators that may be left out of their plan's time.
const JOIN_TIMES: [&str; 2] = ["build_time", "join_time"];

/// The operators of a plan.
#[derive(Debug, Default)]
pub(crate) struct PlanTree {
    roots: Vec<Node>,
    /// Why scans are not on the GPU.
    gpu_notes: BTreeSet<String>,
    /// Whether operators were measured.
    is_measured: bool,
}

#[derive(Debug, Default)]
struct Node {
    name: String,
    details: String,
    figures: Figures,
    inputs: Vec<Node>,
}

/// What an operator did.
#[derive(Debug, Default)]
struct Figures {
    /// The time of its own work, over all partitions.
    time: Option<Duration>,
    rows: Option<u64>,
    /// Bytes, memory and skipped parts, in words.
    words: Vec<String>,
}

impl PlanTree {
    /// The operators of a plan in DataFusion's format `indent`; `None`: the text is of another format.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let mut tree = Self::default();
        let mut open: Vec<Node> = Vec::new();
        for line in text.trim_end().lines() {
            let words = line.trim_start_matches(' ');
            let indent = line.len() - words.len();
            if !words.starts_with(|first: char| first.is_ascii_alphabetic()) || indent % 2 == 1 {
                // The rest of a text with line ends, within an operator's details.
                let node = open.last_mut()?;
                node.details.push_str(&format!(" {words}"));
                continue;
            }
            let depth = indent / 2;
            if depth > open.len() {
                return None;
            }
            tree.close(&mut open, depth);
            let node = tree.node(words);
            open.push(node);
        }
        tree.close(&mut open, 0);
        (!tree.roots.is_empty()).then_some(tree)
    }

    /// The operators of a plan that was executed.
    pub(crate) fn of_executed(plan: &dyn ExecutionPlan) -> Self {
        let mut tree = Self {
            is_measured: true,
            ..Self::default()
        };
        let root = tree.measured(plan);
        tree.roots.push(root);
        tree
    }

    fn measured(&mut self, plan: &dyn ExecutionPlan) -> Node {
        let line = displayable(plan).one_line().to_string();
        let mut node = self.node(line.trim());
        node.figures = plan.metrics().map(|metrics| Figures::of(&metrics)).unwrap_or_default();
        node.inputs = plan
            .children()
            .into_iter()
            .map(|input| self.measured(input.as_ref()))
            .collect();
        node
    }

    /// Ends the operators from `depth` on: each is an input of the one before.
    fn close(&mut self, open: &mut Vec<Node>, depth: usize) {
        while open.len() > depth {
            let Some(node) = open.pop() else {
                return;
            };
            match open.last_mut() {
                Some(above) => above.inputs.push(node),
                None => self.roots.push(node),
            }
        }
    }

    /// The operator of a line `Name: details`.
    fn node(&mut self, line: &str) -> Node {
        let (line, note) = match line.split_once(GPU_NOTE) {
            Some((line, note)) => (line, Some(note)),
            None => (line, None),
        };
        self.gpu_notes.extend(note.map(str::to_owned));
        let (name, details) = line.split_once(':').unwrap_or((line, ""));
        Node {
            name: name.to_owned(),
            details: details.trim().to_owned(),
            ..Node::default()
        }
    }

    /// The tree as text, for a terminal of `width` columns. `time` is the time of the whole statement.
    pub(crate) fn render(&self, width: usize, time: Option<Duration>) -> String {
        let total: Duration = self.roots.iter().map(Node::total).sum();
        let mut lines = Lines {
            text: String::new(),
            width,
            total: self.is_measured.then_some(total),
        };
        if self.is_measured {
            let dim = Style::new().dim();
            let heading = format!("{:>8} {:>6} {:>13}  operator", "time", "share", "rows");
            lines.text.push_str(&format!("{}\n", dim.apply_to(heading)));
        }
        for root in &self.roots {
            lines.push(root, "");
        }
        if let (true, Some(time)) = (self.is_measured, time) {
            let words = format!(
                "total {}, in which operators worked {} on all threads together",
                units::duration(time),
                units::duration(total)
            );
            lines.wrapped(&words, "");
        }
        for note in &self.gpu_notes {
            lines.wrapped(&format!("not on the GPU: {note}"), "");
        }
        lines.text
    }
}

impl Node {
    fn total(&self) -> Duration {
        self.figures.time.unwrap_or_default() + self.inputs.iter().map(Self::total).sum()
    }
}

impl Figures {
    fn of(metrics: &MetricsSet) -> Self {
        let count = |name: &str| metrics.sum_by_name(name).map(|value| value.as_usize() as u64);
        let some = |name: &str| count(name).filter(|count| *count > 0);
        let joins: u64 = JOIN_TIMES.iter().filter_map(|name| count(name)).sum();
        let compute = metrics.elapsed_compute().map(|nanos| nanos as u64);
        let nanos = compute
            .filter(|nanos| *nanos > 0)
            .or((joins > 0).then_some(joins))
            .or(compute);
        let mut words = Vec::new();
        if let (Some(moved), Some(needed)) = (some("moved_bytes"), count("needed_bytes")) {
            words.push(format!(
                "moved {}, needed {}",
                units::bytes(moved),
                units::bytes(needed)
            ));
        }
        if let Some(bytes) = some("bytes_scanned") {
            words.push(format!("read {}", units::bytes(bytes)));
        }
        if let (Some(skipped), Some(all)) = (some("row_groups_skipped"), count("row_groups_total")) {
            words.push(format!(
                "skipped {} of {}",
                units::count(skipped),
                units::counted(all, "row group")
            ));
        }
        if let (Some(scanned), Some(passed)) = (some("rows_scanned"), count("rows_passed"))
            && scanned != passed
        {
            words.push(format!("filtered {}", units::counted(scanned, "row")));
        }
        let memory = ["peak_mem_used", "build_mem_used", "mem_used"];
        if let Some(bytes) = memory.iter().find_map(|name| some(name)) {
            words.push(format!("memory {}", units::bytes(bytes)));
        }
        if let Some(bytes) = metrics.spilled_bytes().filter(|bytes| *bytes > 0) {
            words.push(format!("spilled {} to disk", units::bytes(bytes as u64)));
        }
        if let Some(partitions) = some("hashed_partitions") {
            words.push(format!("{} hashed", units::counted(partitions, "partition")));
        }
        Self {
            time: nanos.map(Duration::from_nanos),
            rows: metrics.output_rows().map(|rows| rows as u64),
            words,
        }
    }
}

/// The text so far.
struct Lines {
    text: String,
    width: usize,
    /// The time of all operators; `None`: they were not measured.
    total: Option<Duration>,
}

impl Lines {
    /// Appends an operator and its inputs. `prefix` stands before each line, for the branches that go on below.
    fn push(&mut self, node: &Node, prefix: &str) {
        self.operator(node, prefix, prefix);
        self.inputs(node, prefix);
    }

    fn inputs(&mut self, node: &Node, prefix: &str) {
        match node.inputs.as_slice() {
            [] => {}
            [input] => self.push(input, prefix),
            [others @ .., last] => {
                for input in others {
                    self.branch(input, prefix, "├─ ", "│  ");
                }
                self.branch(last, prefix, "└─ ", "   ");
            }
        }
    }

    fn branch(&mut self, node: &Node, prefix: &str, first: &str, below: &str) {
        let (first, below) = (format!("{prefix}{first}"), format!("{prefix}{below}"));
        self.operator(node, &first, &below);
        self.inputs(node, &below);
    }

    /// Appends an operator: its name behind `first`, and what is to say of it behind `below`.
    fn operator(&mut self, node: &Node, first: &str, below: &str) {
        let figures = self
            .total
            .map(|total| figures(&node.figures, total))
            .unwrap_or_default();
        let blank = " ".repeat(figures.chars().count());
        let name = Style::new().bold().apply_to(&node.name);
        self.text.push_str(&format!("{figures}{first}{name}\n"));
        let below = format!("{blank}{below}  ");
        if !node.details.is_empty() {
            self.wrapped(&node.details, &below);
        }
        if !node.figures.words.is_empty() {
            self.wrapped(&node.figures.words.join("; "), &below);
        }
    }

    /// Appends words behind `prefix`, on as many lines as they take.
    fn wrapped(&mut self, words: &str, prefix: &str) {
        let room = self
            .width
            .saturating_sub(measure_text_width(prefix))
            .max(MIN_WORDS_COLUMNS);
        for line in wrap(&visible(words), room) {
            self.text.push_str(prefix);
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }
}

/// Time, share and rows of an operator, before its name.
fn figures(figures: &Figures, total: Duration) -> String {
    let time = figures.time.map(units::duration).unwrap_or_default();
    let share = figures.time.map_or_else(String::new, |time| {
        let share = 100.0 * time.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
        format!("{share:.1} %")
    });
    let rows = figures.rows.map(units::count).unwrap_or_default();
    format!("{time:>8} {share:>6} {rows:>13}  ")
}

/// Lines of at most `room` columns, which end between words. A word that is longer ends after a mark, if it has one.
fn wrap(words: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    // Spaces within a text stay.
    for word in words.split(' ') {
        for (place, part) in parts(word, room).into_iter().enumerate() {
            let gap = usize::from(place == 0 && !line.is_empty());
            let columns = measure_text_width(part);
            if used + gap + columns > room && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                used = 0;
            } else if gap == 1 {
                line.push(' ');
                used += 1;
            }
            line.push_str(part);
            used += columns;
        }
    }
    if !line.trim().is_empty() {
        lines.push(line);
    }
    lines
}

/// The parts of a word that may stand on different lines: the whole, or what ends with a mark if it does not fit.
fn parts(word: &str, room: usize) -> Vec<&str> {
    if measure_text_width(word) <= room {
        return vec![word];
    }
    word.split_inclusive([',', '(', '[', '=', '/', '|', '+']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_below_and_branches_are_drawn() {
        let text = "Join: a = b\n  Filter: a > 1\n    Scan: t, not on the GPU: no driver\n  Union\n    \
                    Scan: u, not on the GPU: no driver\n    Scan: v\n";
        let tree = PlanTree::of_text(text).unwrap();
        let expected = "Join\n  a = b\n├─ Filter\n│    a > 1\n│  Scan\n│    t\n└─ Union\n   ├─ Scan\n   │    u\n   \
                        └─ Scan\n        v\nnot on the GPU: no driver\n";
        assert_eq!(console::strip_ansi_codes(&tree.render(80, None)), expected);
    }

    #[test]
    fn other_formats_are_no_tree() {
        for text in [
            "┌───┐\n│ a │",
            "[{\"Plan\": 1}]",
            "",
            "// Begin DataFusion GraphViz Plan",
        ] {
            assert!(PlanTree::of_text(text).is_none(), "{text}");
        }
    }

    #[test]
    fn lines_end_between_words_or_after_marks() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a = 'x  y'", 80), ["a = 'x  y'"]);
        assert_eq!(
            wrap("expr=[alpha@0,beta@1,gamma@2] x", 12),
            ["expr=[", "alpha@0,", "beta@1,", "gamma@2] x"]
        );
        assert_eq!(wrap("unbreakable_word", 4), ["unbreakable_word"]);
        assert_eq!(wrap("", 4), [""; 0]);
    }
}
