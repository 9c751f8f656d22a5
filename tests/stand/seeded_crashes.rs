//! Power cuts within seeded histories, and within the recovery from them: what is there then is exactly one committed
//! prefix, not older than the last that was acknowledged, and the database goes on from there.

use std::thread;

use super::cuts::Moment;
use super::history::{Content, Ground, History, Model, Recorded, Repeat, Runner, ask_for_all};
use super::random::{Random, amount, seed_or};
use crate::error::Result;
use crate::store::{Image, Recording, Settings};

/// The power cuts of one history. Those within a recovery come on top.
const CUTS_OF_A_HISTORY: usize = 40;

/// How often the recovery from a cut may be cut itself, one within the other.
const MOST_NESTED: usize = 3;

/// The files that were examined.
#[derive(Clone, Copy, Debug, Default)]
struct Examined {
    images: usize,
    /// Those of them that a cut within a recovery has left.
    nested: usize,
}

/// Examines files that power cuts leave of the history of a seed.
fn cut_history(seed: u64) -> Result<Examined> {
    let recording = Recording::default();
    let mut runner = Runner::new(Recorded(recording.clone()), &Settings::for_tests())?;
    // A new file gets its name only when it is whole. So a power cut during its creation loses nothing.
    let created = recording.events().len();
    for operation in History::new(seed, 40, Ground::Memory).operations {
        runner.run(&operation)?;
        // Then the same seed makes the same writes. With odd seeds, merges go on meanwhile.
        if seed.is_multiple_of(2) {
            runner.database().settle()?;
        }
    }
    let models = runner.end();
    let events = recording.events();
    let mut random = Random::new(!seed);
    let mut moments = Vec::new();
    for _ in 0..CUTS_OF_A_HISTORY {
        moments.push(created + random.below((events.len() - created + 1) as u64) as usize);
    }
    moments.sort_unstable();
    let mut moment = Moment::new(Image::default(), &events);
    let mut examined = Examined::default();
    for at in moments {
        moment.go_to(at);
        let (image, what) = moment.cut(&mut random);
        let what = format!("seed {seed}, event {at}: {what}");
        let allowed = &models[moment.commits()];
        examined.images += 1;
        examined.nested += examine(image, allowed, &mut random, MOST_NESTED, &what)?;
    }
    examined.images += examined.nested;
    Ok(examined)
}

/// Opens a file as a power cut left it, looks at everything in it, goes on with it, and perhaps cuts that too.
/// Returns the number of such cuts.
pub(super) fn examine(
    image: Image,
    allowed: &[Model],
    random: &mut Random,
    nested: usize,
    what: &str,
) -> Result<usize> {
    let mut runner = Runner::recovered(image.clone(), allowed, what)?;
    let recording = runner.home.0.clone();
    if random.one_in(4) {
        let snapshot = runner.database().snapshot()?;
        ask_for_all(&snapshot, runner.model(), random)?;
    }
    runner.ensure_sound(what)?;
    for operation in History::new(random.next(), 2, Ground::Memory).operations {
        runner.run(&operation)?;
    }
    let content = Content::of(runner.database())?;
    assert!(runner.model().is(&content), "{what}: then {content:?}");
    if random.one_in(4) {
        runner.let_go()?;
        runner.ensure_sound(what)?;
    }
    let models = runner.end();
    if nested == 0 || !random.one_in(2) {
        return Ok(0);
    }
    let events = recording.events();
    let mut moment = Moment::new(image, &events);
    let at = random.below(events.len() as u64 + 1) as usize;
    moment.go_to(at);
    let (image, cut) = moment.cut(random);
    let what = format!("{what}; then event {at}: {cut}");
    let allowed = &models[moment.commits()];
    Ok(1 + examine(image, allowed, random, nested - 1, &what)?)
}

/// Examines power cuts of the histories of these seeds.
fn cut_histories(seeds: impl Iterator<Item = u64>, test: &'static str) -> Examined {
    let mut examined = Examined::default();
    for seed in seeds {
        let _repeat = Repeat { seed, test };
        let one = cut_history(seed).unwrap_or_else(|error| panic!("{error:?}"));
        examined.images += one.images;
        examined.nested += one.nested;
    }
    examined
}

/// Each write since the last sync is lost, whole, or torn, in any order, and lengths come on their own. A power cut
/// within the recovery may follow, and one within the recovery from that.
#[test]
fn a_power_cut_within_a_history_or_a_recovery_leaves_one_committed_prefix() {
    const TEST: &str = "a_power_cut_within_a_history_or_a_recovery_leaves_one_committed_prefix";
    const THREADS: u64 = 2;
    let wanted = amount("SIMDB_IMAGES", 2_000, 50_000);
    let first = seed_or(1);
    // A cut has most of one more within its recovery.
    let histories = wanted.div_ceil(CUTS_OF_A_HISTORY * 7 / 4) as u64;
    let examined = thread::scope(|scope| {
        let mut workers = Vec::new();
        for thread in 0..THREADS {
            let seeds = (first + thread..first + histories).step_by(THREADS as usize);
            workers.push(scope.spawn(|| cut_histories(seeds, TEST)));
        }
        let examined = workers.into_iter();
        let examined = examined.map(|worker| worker.join().expect("no power cut loses anything"));
        examined.collect::<Vec<_>>()
    });
    let images: usize = examined.iter().map(|examined| examined.images).sum();
    let nested: usize = examined.iter().map(|examined| examined.nested).sum();
    println!("{histories} histories, {images} images, {nested} of them of cuts within a recovery");
    assert!(
        images >= wanted / 4 * 3 && nested > images / 8,
        "{images} images, {nested} nested"
    );
}
