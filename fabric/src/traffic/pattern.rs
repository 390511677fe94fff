//! Patterns by name: the ones that networks are usually measured with, and one that hurts.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Demand, adversarial};

/// The most demands that [`Pattern::generate`] makes: all-to-all between 4,096 hosts.
pub const MAX_DEMANDS: usize = 1 << 24;

/// A pattern by name. No host ever sends to itself: where the rule says so, the host is silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// A permutation without fixed points, each equally likely.
    Permutation,
    /// Host h sends to host h + k (mod hosts).
    Shift(u64),
    /// The hosts of the largest square, as a matrix: row r, column c sends to row c, column r.
    Transpose,
    /// The hosts of the largest power of two: h sends to the host whose number has h's bits reversed.
    BitReverse,
    /// Two random halves, paired at random; both of a pair send to each other, so that every host sends
    /// and receives once. Where the number is odd, one host is silent.
    Bisection,
    /// Host h sends to host h + 1 (mod hosts).
    Ring,
    /// A torus of two dimensions as near to a square as the number of hosts allows; every host sends to
    /// its four neighbours (fewer where two of them are one).
    Stencil2d,
    /// A torus of three dimensions as near to a cube as the number of hosts allows; every host sends to
    /// its six neighbours (fewer where two of them are one).
    Stencil3d,
    /// Everyone sends to host 0.
    Incast,
    /// Everyone sends to everyone.
    AllToAll,
    /// A permutation that sends what leaves a switch to hosts with one remainder modulo its uplinks, so
    /// that D-mod-K routing puts all of it on one uplink.
    Adversarial,
}

/// What a person is told of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// As it is written; K is a number.
    pub name: &'static str,
    /// The most that a host sends to or receives from, where no two neighbours are one: the pattern is
    /// served in so many windows.
    pub degree: &'static str,
    /// In one line.
    pub meaning: &'static str,
}

const fn listed(name: &'static str, degree: &'static str, meaning: &'static str) -> Listed {
    Listed { name, degree, meaning }
}

/// What a pattern needs to know of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape<'a> {
    /// For every host the number of its leaf: any numbers that tell leaves apart.
    pub leaf_of: &'a [u32],
    /// Uplinks of a leaf: the K of D-mod-K.
    pub uplinks: u32,
}

/// A text that names no pattern, or a pattern too large.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// None of [`Pattern::LIST`].
    #[error("`{:.40}` is no pattern (expected {})", .0, names())]
    Unknown(String),
    /// `shift` without a number.
    #[error("`{0:.40}` is no shift (expected shift:K, K a whole number, such as shift:3)")]
    Shift(String),
    /// More than [`MAX_DEMANDS`].
    #[error("`{pattern}` of {hosts} hosts has {demands} demands ({MAX_DEMANDS} are possible)")]
    TooMany {
        /// The pattern.
        pattern: Pattern,
        /// Number of hosts.
        hosts: usize,
        /// How many demands it would have.
        demands: usize,
    },
}

fn names() -> String {
    let names: Vec<&str> = Pattern::LIST.iter().map(|listed| listed.name).collect();
    names.join(", ")
}

impl Pattern {
    /// Every pattern, for people.
    pub const LIST: &'static [Listed] = &[
        listed(
            "permutation",
            "1",
            "random: every host sends to one other and receives from one other",
        ),
        listed("shift:K", "1", "host h sends to host h + K: what static routing carries well"),
        listed("transpose", "1", "hosts as the largest square matrix, rows send to columns"),
        listed("bitreverse", "1", "host h sends to h's bits reversed, on a power of two of hosts"),
        listed("bisection", "1", "random halves, paired at random, both directions at once"),
        listed("ring", "1", "host h sends to host h + 1: what static routing carries well"),
        listed("stencil2d", "4", "four neighbours on a torus as near to a square as can be"),
        listed("stencil3d", "6", "six neighbours on a torus as near to a cube as can be"),
        listed("incast", "hosts - 1", "everyone sends to host 0"),
        listed("alltoall", "hosts - 1", "everyone sends to everyone"),
        listed("adversarial", "1", "what D-mod-K routing sends through one uplink of each leaf"),
    ];

    /// The demands, by source (those of one source in the order the pattern names them), without rates.
    /// Same shape and seed, same demands; only [`Permutation`](Self::Permutation) and
    /// [`Bisection`](Self::Bisection) depend on the seed.
    ///
    /// # Errors
    /// When there would be more than [`MAX_DEMANDS`].
    pub fn generate(self, shape: Shape<'_>, seed: u64) -> Result<Vec<Demand>, PatternError> {
        let hosts = shape.leaf_of.len();
        let demands = hosts.saturating_mul(self.most_per_host(hosts));
        if demands > MAX_DEMANDS {
            return Err(PatternError::TooMany { pattern: self, hosts, demands });
        }
        let n = hosts as u32;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Ok(match self {
            Self::Permutation => one_each(0..n, by_table(&derangement(n, &mut random))),
            // With h and k below n, h + k is below 2^33.
            Self::Shift(k) => {
                one_each(0..n, |h| ((u64::from(h) + k % u64::from(n)) % u64::from(n)) as u32)
            }
            Self::Transpose => {
                let side = n.isqrt();
                one_each(0..side * side, |h| h % side * side + h / side)
            }
            Self::BitReverse => {
                let bits = n.checked_ilog2().unwrap_or(0);
                one_each(0..n.min(1 << bits), |h| {
                    h.reverse_bits().checked_shr(u32::BITS - bits).unwrap_or(0)
                })
            }
            Self::Bisection => one_each(0..n, by_table(&bisection(n, &mut random))),
            Self::Ring => one_each(0..n, |h| (h + 1) % n),
            Self::Stencil2d => stencil(&factors::<2>(n)),
            Self::Stencil3d => stencil(&factors::<3>(n)),
            Self::Incast => one_each(0..n, |_| 0),
            Self::AllToAll => many_each(0..n, |_| 0..n),
            Self::Adversarial => one_each(0..n, by_table(&adversarial::permutation(shape))),
        })
    }

    fn most_per_host(self, hosts: usize) -> usize {
        match self {
            Self::AllToAll => hosts.saturating_sub(1),
            Self::Stencil2d => 4,
            Self::Stencil3d => 6,
            _ => 1,
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Ok(match text {
            "permutation" => Self::Permutation,
            "transpose" => Self::Transpose,
            "bitreverse" => Self::BitReverse,
            "bisection" => Self::Bisection,
            "ring" => Self::Ring,
            "stencil2d" => Self::Stencil2d,
            "stencil3d" => Self::Stencil3d,
            "incast" => Self::Incast,
            "alltoall" => Self::AllToAll,
            "adversarial" => Self::Adversarial,
            _ => match text.strip_prefix("shift") {
                Some(k) => {
                    let number = k.strip_prefix(':').and_then(|k| k.parse().ok());
                    Self::Shift(number.ok_or_else(|| PatternError::Shift(text.to_owned()))?)
                }
                None => return Err(PatternError::Unknown(text.to_owned())),
            },
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permutation => "permutation",
            Self::Shift(k) => return write!(f, "shift:{k}"),
            Self::Transpose => "transpose",
            Self::BitReverse => "bitreverse",
            Self::Bisection => "bisection",
            Self::Ring => "ring",
            Self::Stencil2d => "stencil2d",
            Self::Stencil3d => "stencil3d",
            Self::Incast => "incast",
            Self::AllToAll => "alltoall",
            Self::Adversarial => "adversarial",
        })
    }
}

fn one_each(hosts: Range<u32>, to: impl Fn(u32) -> u32) -> Vec<Demand> {
    many_each(hosts, |host| std::iter::once(to(host)))
}

/// Every pair but those of a host with itself.
fn many_each<I: Iterator<Item = u32>>(hosts: Range<u32>, to: impl Fn(u32) -> I) -> Vec<Demand> {
    let from = |host| to(host).filter(move |&d| d != host).map(move |d| Demand::new(host, d));
    hosts.flat_map(from).collect()
}

fn by_table(table: &[u32]) -> impl Fn(u32) -> u32 + '_ {
    |host| table[host as usize]
}

/// A permutation without fixed points, each equally likely: one in e of all permutations is such, so
/// drawing until it is takes less than three draws on average. A single host is its own fixed point.
fn derangement(hosts: u32, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut to: Vec<u32> = (0..hosts).collect();
    while hosts > 1 && to.iter().zip(0..).any(|(&to, host)| to == host) {
        to.shuffle(random);
    }
    to
}

fn bisection(hosts: u32, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..hosts).collect();
    order.shuffle(random);
    let mut to: Vec<u32> = (0..hosts).collect();
    for pair in order.chunks_exact(2) {
        (to[pair[0] as usize], to[pair[1] as usize]) = (pair[1], pair[0]);
    }
    to
}

/// `N` numbers whose product is `hosts`, as near to each other as can be: the one with the least sum,
/// largest first.
fn factors<const N: usize>(hosts: u32) -> [u32; N] {
    fn search(rest: u32, least: u32, chosen: &mut Vec<u32>, dims: usize, best: &mut Vec<u32>) {
        if chosen.len() + 1 == dims {
            chosen.push(rest);
            if best.is_empty() || chosen.iter().sum::<u32>() < best.iter().sum() {
                best.clone_from(chosen);
            }
            chosen.pop();
            return;
        }
        let left = (dims - chosen.len()) as u32;
        let fits = |&f: &u32| f.checked_pow(left).is_some_and(|product| product <= rest);
        for factor in (least..=rest).take_while(fits).filter(|f| rest.is_multiple_of(*f)) {
            chosen.push(factor);
            search(rest / factor, factor, chosen, dims, best);
            chosen.pop();
        }
    }
    let mut best = Vec::new();
    search(hosts, 1, &mut Vec::new(), N, &mut best);
    best.reverse();
    best.try_into().unwrap_or([0; N])
}

/// Both neighbours in every dimension of a torus; the last dimension is contiguous.
fn stencil(dims: &[u32]) -> Vec<Demand> {
    let neighbours = |host: u32| {
        let mut to = Vec::with_capacity(2 * dims.len());
        let mut stride = 1;
        for &dim in dims.iter().rev() {
            let here = host / stride % dim;
            for there in [(here + dim - 1) % dim, (here + 1) % dim] {
                let neighbour = host - here * stride + there * stride;
                if !to.contains(&neighbour) {
                    to.push(neighbour);
                }
            }
            stride *= dim;
        }
        to.into_iter()
    };
    many_each(0..dims.iter().product(), neighbours)
}

#[cfg(test)]
mod tests;
