//! Which phases and options make sense together. What does not is refused before any work.

use super::arguments::{Arguments, Phase};
use Phase::{
    Any, Batch, Beside, Build, Cold, Commit, Delete, Expire, Insert, Link, List, Query, Replace,
    Window, Writer,
};

/// Says what makes no sense, if something does not.
pub(super) fn ensure_sense(arguments: &Arguments) -> Result<(), String> {
    ensure_order(&arguments.phases)?;
    let has = |wanted: &[Phase]| arguments.phases.iter().any(|phase| wanted.contains(phase));
    let asking = [Query, List, Any, Batch, Beside, Cold, Window];
    for (is_given, option, wanted) in [
        (arguments.more.is_some(), "more", &[Link, Writer][..]),
        (arguments.together.is_some(), "together", &[Link]),
        (arguments.rate.is_some(), "rate", &[Writer]),
        (arguments.turnovers.is_some(), "turnovers", &[Window]),
        (
            !arguments.query_distance.is_empty(),
            "query-distance",
            &asking[..6],
        ),
        (arguments.query_scopes.is_some(), "query-scopes", &asking),
    ] {
        if is_given && !has(wanted) {
            let names: Vec<String> = wanted.iter().map(|it| it.name()).collect();
            return Err(format!(
                "--{option} is for the phases {}, and none of them is asked for",
                names.join(", ")
            ));
        }
    }
    if arguments.query_scopes > arguments.scopes {
        return Err("--query-scopes cannot be more than --scopes".to_owned());
    }
    if arguments.min_similarity.is_some() && !arguments.has_sketches() {
        return Err("--min-similarity needs sketches: --sketch 16 or --sketch 32".to_owned());
    }
    if let Some(many) = arguments.threads.iter().find(|&&it| it > MOST_THREADS) {
        return Err(format!(
            "{many} threads are too many; the most are {MOST_THREADS}"
        ));
    }
    Ok(())
}

const MOST_THREADS: u64 = 1024;

/// Each phase finds what the earlier ones have left.
fn ensure_order(phases: &[Phase]) -> Result<(), String> {
    for (index, phase) in phases.iter().enumerate() {
        let before = &phases[..index];
        let was = |wanted: &[Phase]| before.iter().any(|phase| wanted.contains(phase));
        let name = phase.name();
        let refused = match phase {
            Build if index > 0 => "builds a file, so it is the first phase",
            Window if phases.len() > 1 => "fills a file of its own, so it is the only phase",
            Delete if was(&[Delete]) => "deletes the same documents each time, so it comes once",
            Delete | Replace if was(&[Expire]) => {
                "needs all documents, so it comes before `expire`"
            }
            Expire if was(&[Delete]) => "counts what it removes, so it cannot come after `delete`",
            Query | List | Any | Batch | Beside | Cold | Delete | Replace | Expire
                if !was(&[Build, Insert, Link, Writer, Commit]) =>
            {
                "needs documents, so it comes after `insert`, `link`, `writer` or `build`"
            }
            _ => continue,
        };
        return Err(format!("the phase `{name}` {refused}"));
    }
    Ok(())
}
