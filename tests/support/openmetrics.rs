//! A strict reader of OpenMetrics text 1.0, as far as gated uses it: what it does not expect is a panic. What it takes, the
//! reader of the older Prometheus format takes as well.

use std::collections::BTreeMap;

pub type Labels = BTreeMap<String, String>;

/// Samples by name and labels.
#[derive(Debug, Default)]
pub struct Metrics(BTreeMap<(String, Labels), f64>);

impl Metrics {
    #[track_caller]
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let found = self.0.get(&(name.to_owned(), labels.clone()));
        *found.unwrap_or_else(|| panic!("{name} {labels:?} in {:?}", self.0.keys()))
    }

    pub fn sum(&self, name: &str) -> f64 {
        self.0.iter().filter(|((own, _), _)| own == name).map(|(_, value)| value).sum()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn is_name(text: &str) -> bool {
    text.bytes()
        .enumerate()
        .all(|(at, byte)| byte.is_ascii_lowercase() || byte == b'_' || at > 0 && byte.is_ascii_digit())
        && !text.is_empty()
}

#[track_caller]
pub fn parse(text: &str) -> Metrics {
    let body = text.strip_suffix("# EOF\n").expect("it ends with EOF");
    assert!(!body.contains("# EOF") && body.ends_with('\n') && !body.contains("\n\n") && !body.contains('\r'));
    let (mut metrics, mut kinds) = (Metrics::default(), BTreeMap::<String, String>::new());
    let mut family: Option<(String, String, bool)> = None;
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            assert!(is_name(name), "{line}");
            match what {
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                    assert!(!name.ends_with("_total"), "{line}");
                    assert!(kinds.insert(name.to_owned(), rest.to_owned()).is_none(), "a family twice: {line}");
                    family = Some((name.to_owned(), rest.to_owned(), false));
                }
                "HELP" => {
                    let family = family.as_mut().expect("a type first");
                    assert!(family.0 == name && !family.2 && rest.ends_with('.'), "{line}");
                    family.2 = true;
                }
                _ => panic!("{line}"),
            }
            continue;
        }
        let (head, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match head.split_once('{') {
            None => (head, Labels::new()),
            Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("labels end"))),
        };
        let (family, kind, has_help) = family.as_ref().expect("of a family");
        assert!(*has_help && is_name(name), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let suffix = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("of another family: {line}"));
        match (kind.as_str(), suffix) {
            ("counter", "_total") | ("gauge", "") | ("histogram", "_sum" | "_count") => {
                assert!(!labels.contains_key("le"), "{line}");
            }
            ("histogram", "_bucket") => assert!(labels.contains_key("le"), "{line}"),
            _ => panic!("{line}"),
        }
        assert!(metrics.0.insert((name.to_owned(), labels), value).is_none(), "twice: {line}");
    }
    for (name, kind) in &kinds {
        if kind == "histogram" {
            check(&metrics, name);
        } else {
            let has_any = metrics.0.keys().any(|(own, _)| own.trim_end_matches("_total") == name);
            assert!(has_any, "{name} without a sample");
        }
    }
    metrics
}

fn labels(text: &str) -> Labels {
    let mut found = Labels::new();
    for pair in text.split(',') {
        let (name, value) = pair.split_once('=').expect("a label");
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("quotes");
        // Nothing of ours needs an escape, and nothing of anybody else's is in there.
        assert!(
            is_name(name) && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte)),
            "{pair}"
        );
        assert!(found.insert(name.to_owned(), value.to_owned()).is_none(), "{pair}");
    }
    found
}

/// Classes rise to `+Inf`, which is the count.
fn check(metrics: &Metrics, name: &str) {
    let of = format!("{name}_bucket");
    let mut classes: Vec<(f64, f64)> = metrics
        .0
        .iter()
        .filter(|((own, _), _)| *own == of)
        .map(|((_, labels), value)| (labels["le"].replace("+Inf", "inf").parse().unwrap(), *value))
        .collect();
    classes.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(classes.len() > 1 && classes.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{classes:?}");
    let last = classes.last().unwrap();
    assert!(last.0.is_infinite() && last.1 == metrics.get(&format!("{name}_count"), &[]), "{classes:?}");
}
