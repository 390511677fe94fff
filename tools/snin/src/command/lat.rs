//! `snin lat`: latency and bandwidth on real verbs, in perftest's columns.

mod chart;

use std::fmt::Write as _;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use serde::Serialize;
use snin_lat::bench::Bench;
use snin_lat::client::{Client, Measured};
use snin_lat::plan::{LONGEST, Pattern, Plan, VERSION};
use snin_lat::server::Server;

use crate::failure::Failure;
use crate::output::{Output, OutputFile, Progress, Target, note};
use crate::{Verdict, cli};

/// Waits, or measures.
pub(crate) fn run<W: Write>(args: &cli::Lat, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let bench = Bench::open(args.device.as_deref(), args.ib_port)?;
    match &args.peer {
        None => serve(args, bench),
        Some(peer) => measure(args, peer, bench, out),
    }
}

fn serve(args: &cli::Lat, bench: Bench) -> Result<Verdict, Failure> {
    let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, args.listen));
    let device = bench.device().to_owned();
    let server = Server::new(at, bench)?;
    note(format_args!("waiting at TCP port {} with {device}", args.listen));
    loop {
        match server.serve() {
            Ok(_) => {}
            Err(error) if args.keep => note(error),
            Err(error) => return Err(error.into()),
        }
        if !args.keep {
            return Ok(Verdict::Well);
        }
    }
}

fn measure<W: Write>(
    args: &cli::Lat,
    peer: &str,
    bench: Bench,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let peer = if peer.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        peer.to_owned()
    } else {
        format!("{peer}:{}", args.listen)
    };
    let json = Target::open(args.format.json.as_deref())?;
    let svg = Target::open(args.svg.as_deref())?;
    Target::one_on_stdout(&[("--json", &json), ("--svg", &svg)])?;
    let device = bench.device().to_owned();
    let progress = Progress::new();
    let plans: Vec<Plan> = sizes(args, &bench).into_iter().map(|size| plan(args, size)).collect();
    plans.iter().try_for_each(|plan| bench.check(plan))?;
    let mut client = Client::new(&peer, bench)?;
    let text = !matches!(json, Some(Target::Stdout)) && !matches!(svg, Some(Target::Stdout));
    let mut results = Vec::new();
    for plan in plans {
        let size = plan.size;
        progress.step(format!("{size} bytes"));
        let measured = client.measure(&plan)?;
        if text {
            if results.is_empty() {
                out.line(header(args.bandwidth))?;
            }
            out.line(row(&plan, &measured))?;
        }
        results.push((plan, measured));
    }
    if json.is_some() {
        let documents: Vec<Document<'_>> = results
            .iter()
            .map(|(plan, measured)| Document::new(&device, &peer, plan, measured))
            .collect();
        out.report(json, &documents, |_| Ok(()))?;
    }
    if let Some(path) = &args.hgrm {
        for (plan, measured) in &results {
            // A file is one histogram.
            let path = if results.len() == 1 { path.clone() } else { of_size(path, plan.size) };
            OutputFile::open(&path)?.write(hgrm(&measured.latency).as_bytes())?;
        }
    }
    if let Some(target) = svg {
        target.write(&chart::draw(&results), out)?;
    }
    let lost: u64 = results.iter().map(|(_, measured)| measured.lost).sum();
    if lost > 0 {
        note(format_args!("{lost} messages were lost"));
        return Ok(Verdict::Unwell);
    }
    Ok(Verdict::Well)
}

fn sizes(args: &cli::Lat, bench: &Bench) -> Vec<usize> {
    if !args.all {
        return args.size.clone();
    }
    let longest = bench.longest(args.transport).min(LONGEST);
    let first = if args.bandwidth { 1 << 10 } else { 2 };
    std::iter::successors(Some(first), |size| Some(size * 2))
        .take_while(|&size| size <= longest)
        .collect()
}

/// `out.hgrm` of 64 bytes is `out-64.hgrm`.
fn of_size(path: &Path, size: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy()));
    path.with_file_name(format!("{stem}-{size}{}", end.unwrap_or_default()))
}

fn plan(args: &cli::Lat, size: usize) -> Plan {
    let pattern = match args.rate {
        _ if args.bandwidth => Pattern::Bandwidth,
        Some(rate) => Pattern::Open { rate },
        None => Pattern::PingPong,
    };
    let offsets = args.offset.iter().copied().cycle().take(args.flows.max(args.offset.len()));
    Plan {
        version: VERSION,
        operation: args.operation,
        carrier: args.transport,
        pattern,
        size,
        iterations: args.iterations,
        warm_up: if args.bandwidth { 0 } else { args.warm_up },
        offsets: offsets.collect(),
        inline: args.inline,
        depth: args.depth,
        level: args.sl,
        congestor: args.congestor,
    }
}

/// perftest's columns, then those that it has not.
const fn header(bandwidth: bool) -> &'static str {
    if bandwidth {
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
    } else {
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
         99% percentile[usec]   99.9% percentile[usec]   99.99% percentile[usec]"
    }
}

/// Of what perftest calls MB.
const MEGABYTE: f64 = 1_048_576.0;

fn row(plan: &Plan, measured: &Measured) -> String {
    let Plan { size, .. } = plan;
    if plan.pattern == Pattern::Bandwidth {
        let Measured { messages, peak, elapsed, .. } = measured;
        return format!(
            " {size:<10} {messages:<14} {:<18.2} {:<20.2} {:.6}",
            peak / MEGABYTE,
            average(measured) / MEGABYTE,
            *messages as f64 / elapsed.as_secs_f64() / 1e6
        );
    }
    let latency = &measured.latency;
    let at = |quantile| micros(latency.value_at_quantile(quantile));
    format!(
        " {size:<7} {:<14} {:<14.2} {:<12.2} {:<16.2} {:<14.2} {:<15.2} {:<22.2} {:<24.2} {:.2}",
        latency.len(),
        micros(latency.min()),
        micros(latency.max()),
        at(0.5),
        latency.mean() / 1e3,
        latency.stdev() / 1e3,
        at(0.99),
        at(0.999),
        at(0.9999)
    )
}

/// Bytes a second.
fn average(measured: &Measured) -> f64 {
    measured.bytes as f64 / measured.elapsed.as_secs_f64()
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    peer: &'a str,
    plan: &'a Plan,
    messages: u64,
    lost: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ns: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Bandwidth>,
}

#[derive(Serialize)]
struct Latency {
    min: u64,
    median: u64,
    mean: f64,
    stdev: f64,
    p90: u64,
    p99: u64,
    p999: u64,
    p9999: u64,
    max: u64,
}

#[derive(Serialize)]
struct Bandwidth {
    bytes: u64,
    bytes_per_second: f64,
    peak_bytes_per_second: f64,
    messages_per_second: f64,
}

impl<'a> Document<'a> {
    fn new(device: &'a str, peer: &'a str, plan: &'a Plan, measured: &Measured) -> Self {
        let Measured { latency, elapsed, messages, bytes, peak, lost } = measured;
        let seconds = elapsed.as_secs_f64();
        let at = |quantile| latency.value_at_quantile(quantile);
        let streams = plan.pattern == Pattern::Bandwidth;
        Self {
            device,
            peer,
            plan,
            messages: *messages,
            lost: *lost,
            seconds,
            latency_ns: (!streams).then(|| Latency {
                min: latency.min(),
                median: at(0.5),
                mean: latency.mean(),
                stdev: latency.stdev(),
                p90: at(0.9),
                p99: at(0.99),
                p999: at(0.999),
                p9999: at(0.9999),
                max: latency.max(),
            }),
            bandwidth: streams.then(|| Bandwidth {
                bytes: *bytes,
                bytes_per_second: average(measured),
                peak_bytes_per_second: *peak,
                messages_per_second: *messages as f64 / seconds,
            }),
        }
    }
}

/// HdrHistogram's own text, which its plotters read: value, quantile, count, 1 / (1 - quantile).
fn hgrm(latency: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    for step in latency.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (value, quantile) = (micros(step.value_iterated_to()), step.quantile_iterated_to());
        let _ = if quantile < 1.0 {
            writeln!(
                text,
                "{value:12.3} {quantile:2.12} {count:10} {:14.2}",
                1.0 / (1.0 - quantile)
            )
        } else {
            writeln!(text, "{value:12.3} {quantile:2.12} {count:10}")
        };
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        latency.mean() / 1e3,
        latency.stdev() / 1e3
    );
    let _ = writeln!(
        text,
        "#[Max     = {:12.3}, Total count    = {:12}]",
        micros(latency.max()),
        latency.len()
    );
    let _ = writeln!(
        text,
        "#[Buckets = {:12}, SubBuckets     = {:12}]",
        latency.buckets(),
        (2 * 10_u64.pow(latency.sigfig().into())).next_power_of_two()
    );
    text
}
