//! `${NAME}` and `${NAME:-default}` inside one scalar. Knows nothing of YAML.

/// Where variables come from.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The text with its variables put in. As in a shell, an empty variable counts as unset where there is a default.
///
/// What a variable brings in is taken as it is: a `${` inside of it means nothing.
pub(super) fn interpolate(text: &str, env: &Environment<'_>) -> Result<String, String> {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after
            .split_once('}')
            .ok_or_else(|| "`${` is not closed: write `${NAME}` or `${NAME:-default}`".to_owned())?;
        done.push_str(before);
        done.push_str(&variable(inside, env)?);
        rest = behind;
    }
    done.push_str(rest);
    Ok(done)
}

fn variable(inside: &str, env: &Environment<'_>) -> Result<String, String> {
    let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
    if !is_name(name) {
        return Err(format!("`${{{inside}}}` names no variable: write `${{NAME}}` or `${{NAME:-default}}`"));
    }
    match (env(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(format!(
            "the environment variable `{name}` is not set: set it, or give a default as in `${{{name}:-default}}`"
        )),
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, String> {
        interpolate(text, &|name| match name {
            "HOST" => Some("db".to_owned()),
            "BLANK" => Some(String::new()),
            "ODD" => Some("${HOST}".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn puts_variables_in() {
        for (text, expected) in [
            ("plain", "plain"),
            ("$HOST costs $5", "$HOST costs $5"),
            ("redis://${HOST}:${PORT:-6379}/0", "redis://db:6379/0"),
            ("${NONE:-}", ""),
            ("${BLANK:-x}${BLANK}", "x"),
            ("${HOST:-x}", "db"),
            ("${NONE:-a:-b}", "a:-b"),
        ] {
            assert_eq!(with(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn takes_a_value_as_it_is() {
        assert_eq!(with("${ODD}").as_deref(), Ok("${HOST}"));
    }

    #[test]
    fn refuses_what_is_left_over() {
        for text in ["${", "a ${HOST", "${}", "${1ST}", "${a b}", "${:-x}", "${NONE}", "${HOST:?gone}"] {
            assert!(with(text).is_err(), "{text}");
        }
        assert!(with("${NONE}").unwrap_err().contains("`NONE` is not set"));
    }
}
