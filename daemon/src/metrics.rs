//! The text of `/metrics`: families of samples, taken at each request, in OpenMetrics' format.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub use prometheus_client::metrics::histogram::Histogram;

/// What HTTP calls the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names and values that tell the samples of a family apart.
pub type Labels = Vec<(&'static str, String)>;

/// Everything that is exported at one moment.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    samples: Samples,
}

#[derive(Debug)]
enum Samples {
    Counters(Vec<(Labels, u64)>),
    Gauges(Vec<(Labels, f64)>),
    Histogram(Histogram),
}

impl Page {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Numbers that only grow. `name` without `_total`, which the text adds.
    pub fn counters(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        self.add(name, help, Samples::Counters(samples.into_iter().collect()));
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, [(Labels::new(), value)]);
    }

    /// Numbers that come and go.
    pub fn gauges(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.add(name, help, Samples::Gauges(samples.into_iter().collect()));
    }

    /// A number that comes and goes.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, [(Labels::new(), value)]);
    }

    /// How often something was how large.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.add(name, help, Samples::Histogram(histogram.clone()));
    }

    fn add(&mut self, name: &str, help: &str, samples: Samples) {
        // The text adds a full stop to every help.
        let help = help.trim_end_matches('.').to_owned();
        self.families.push(Family { name: name.to_owned(), help, samples });
    }

    /// What is on the page: every name as the text has it, its labels and its kind, and what it means.
    pub fn names(&self) -> Vec<(String, String)> {
        let named = |family: &Family| {
            let first = |samples: Option<&Labels>| {
                let labels = samples.into_iter().flatten().map(|(label, _)| *label);
                labels.collect::<Vec<_>>().join(",")
            };
            let (labels, kind, suffix) = match &family.samples {
                Samples::Counters(all) => {
                    (first(all.first().map(|one| &one.0)), "counter", "_total")
                }
                Samples::Gauges(all) => (first(all.first().map(|one| &one.0)), "gauge", ""),
                Samples::Histogram(_) => (String::new(), "histogram", ""),
            };
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let help = family.help.clone();
            (format!("{}{suffix}{labels} ({kind})", family.name), format!("{help}."))
        };
        self.families.iter().map(named).collect()
    }

    /// The text.
    pub fn encode(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // A string takes everything, and the families are of the types that they say.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, samples } in &self.families {
            let kind = match samples {
                Samples::Counters(_) => MetricType::Counter,
                Samples::Gauges(_) => MetricType::Gauge,
                Samples::Histogram(_) => MetricType::Histogram,
            };
            let family = encoder.encode_descriptor(name, &format!("{help}."), None, kind)?;
            let encoded = match samples {
                Samples::Counters(samples) => {
                    each(family, samples, |&value, to| ConstCounter::new(value).encode(to))
                }
                Samples::Gauges(samples) => {
                    each(family, samples, |&value, to| ConstGauge::new(value).encode(to))
                }
                Samples::Histogram(histogram) => histogram.encode(family),
            };
            encoded?;
        }
        Ok(())
    }
}

/// Every sample of a family; one without labels is written without their braces.
fn each<V>(
    mut family: MetricEncoder<'_>,
    samples: &[(Labels, V)],
    encode: impl Fn(&V, MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    if let [(labels, value)] = samples
        && labels.is_empty()
    {
        return encode(value, family);
    }
    samples.iter().try_for_each(|(labels, value)| encode(value, family.encode_family(labels)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_read_as_openmetrics_has_them() {
        let mut page = Page::new();
        let label = |text: &str| vec![("kind", text.to_owned())];
        page.counters("x_sweeps", "Sweeps.", [(label("light"), 3), (label("a\"b\\"), u64::MAX)]);
        page.gauge("x_in_flight", "SMPs in flight", 2.0);
        let histogram = Histogram::new([0.5, 1.0]);
        histogram.observe(0.7);
        page.histogram("x_seconds", "Time", &histogram);
        let names: Vec<String> = page.names().into_iter().map(|(name, _)| name).collect();
        let named =
            ["x_sweeps_total{kind} (counter)", "x_in_flight (gauge)", "x_seconds (histogram)"];
        assert_eq!(names, named);
        assert_eq!(
            page.encode(),
            "# HELP x_sweeps Sweeps.\n# TYPE x_sweeps counter\n\
             x_sweeps_total{kind=\"light\"} 3\n\
             x_sweeps_total{kind=\"a\\\"b\\\\\"} 18446744073709551615\n\
             # HELP x_in_flight SMPs in flight.\n# TYPE x_in_flight gauge\nx_in_flight 2.0\n\
             # HELP x_seconds Time.\n# TYPE x_seconds histogram\nx_seconds_sum 0.7\nx_seconds_count 1\n\
             x_seconds_bucket{le=\"0.5\"} 0\nx_seconds_bucket{le=\"1.0\"} 1\nx_seconds_bucket{le=\"+Inf\"} 1\n\
             # EOF\n"
        );
    }
}
