//! Lists of hosts as Slurm writes them: `n[1-4,7],login`, `rack[1-2]n[01-16]`.

/// The most names that a list may stand for.
pub const MAX_NAMES: usize = 65_536;
/// The most digits of a number in brackets.
const MAX_DIGITS: usize = 9;

/// A list that stands for no names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A bracket without its other half.
    #[error("`{0:.80}`: a bracket has no other half (a list is such as n[1-4,7],login)")]
    Bracket(String),
    /// A name of no letters.
    #[error("`{0:.80}`: a name is empty (a list is such as n[1-4,7],login)")]
    Empty(String),
    /// No numbers between brackets.
    #[error("`{0:.40}` is no range of numbers (expected such as 1-4 or 007)")]
    Range(String),
    /// More than there can be hosts.
    #[error("`{0:.80}` stands for more than {MAX_NAMES} names")]
    TooMany(String),
}

/// The names that a list stands for, in its order. Numbers keep the zeros that the first one of a range has.
///
/// # Errors
/// What is wrong with it.
pub fn expand(list: &str) -> Result<Vec<String>, ListError> {
    let mut names = Vec::new();
    for item in items(list)? {
        let item = item.trim();
        if item.is_empty() {
            return Err(ListError::Empty(list.to_owned()));
        }
        names.extend(product(item, MAX_NAMES - names.len())?);
    }
    Ok(names)
}

/// What is between commas outside of brackets.
fn items(list: &str) -> Result<Vec<&str>, ListError> {
    let mut items = Vec::new();
    let (mut from, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            ('[' | ']', _) => return Err(ListError::Bracket(list.to_owned())),
            (',', false) => {
                items.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(ListError::Bracket(list.to_owned()));
    }
    items.push(&list[from..]);
    Ok(items)
}

/// Every choice of a number from each pair of brackets.
fn product(item: &str, room: usize) -> Result<Vec<String>, ListError> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((before, inner)) = rest.split_once('[') {
        // `items` has seen to it that every bracket has its other half.
        let (inside, after) = inner.split_once(']').unwrap_or((inner, ""));
        let mut numbers = Vec::new();
        for range in inside.split(',') {
            numbers.extend(numbers_of(range.trim(), item)?);
        }
        if numbers.len().saturating_mul(names.len()) > room {
            return Err(ListError::TooMany(item.to_owned()));
        }
        let with = |name: &String| {
            numbers.iter().map(|number| format!("{name}{before}{number}")).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
        rest = after;
    }
    if names.len() > room {
        return Err(ListError::TooMany(item.to_owned()));
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

fn numbers_of(range: &str, item: &str) -> Result<Vec<String>, ListError> {
    let wrong = || ListError::Range(range.to_owned());
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= MAX_DIGITS;
        text.parse::<usize>().ok().filter(|_| digits).ok_or_else(wrong)
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (least, most) = (number(first)?, number(last)?);
    if least > most {
        return Err(wrong());
    }
    if most - least >= MAX_NAMES {
        return Err(ListError::TooMany(item.to_owned()));
    }
    let width = first.len();
    Ok((least..=most).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stand_for_what_slurm_takes_them_for() {
        let names = |list: &str| expand(list).unwrap().join(" ");
        assert_eq!(names("login"), "login");
        assert_eq!(names("n[1-4,7],login"), "n1 n2 n3 n4 n7 login");
        assert_eq!(names("a[08-11]"), "a08 a09 a10 a11");
        assert_eq!(names("r[1-2]n[1,3]-ib"), "r1n1-ib r1n3-ib r2n1-ib r2n3-ib");
        assert_eq!(names("n1, n2/mlx5_0"), "n1 n2/mlx5_0");
    }

    #[test]
    fn what_is_no_list_is_said() {
        let told = |list: &str| expand(list).unwrap_err().to_string();
        assert!(told("n[1-4").starts_with("`n[1-4`: a bracket has no other half"));
        assert!(told("n[[1]]").starts_with("`n[[1]]`: a bracket has no other half"));
        assert!(told("n1,,n2").starts_with("`n1,,n2`: a name is empty"));
        assert_eq!(told("n[4-1]"), "`4-1` is no range of numbers (expected such as 1-4 or 007)");
        assert_eq!(told("n[a]"), "`a` is no range of numbers (expected such as 1-4 or 007)");
        assert!(told("n[1-999999999]").ends_with("stands for more than 65536 names"));
        assert!(told("n[1-9999]m[1-9999]").ends_with("stands for more than 65536 names"));
        assert!(expand("n[1-60000],m[1-60000]").is_err());
    }
}
