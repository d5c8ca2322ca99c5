//! The pool under a seeded simulation: several processes on one data directory share books that lose requests and answers,
//! processes are killed at whatever they wait for, sleep past their leases, and their clocks jump. Time is virtual, so minutes
//! take microseconds, and the same seed is the same story to the last step.
//!
//! `HARVEST_SIMULATION_SEED=N` tells one story again, `HARVEST_SIMULATION_SEEDS=N` tells more of them.

mod books;
mod process;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use books::{Books, World};
use process::Shop;

const SEEDS: u64 = 2000;
/// How long things go wrong, and how long everything may take once they do not any more.
const STORM: Duration = Duration::from_secs(60);
const CALM: Duration = Duration::from_secs(3600);

/// A process that may be killed, and begun again.
struct Machine {
    shop: Shop,
    running: JoinHandle<()>,
}

impl Machine {
    fn start(world: &Arc<World>, number: usize) -> Self {
        let shop = Shop::open(world, number);
        let running = tokio::spawn(shop.clone().run());
        Self { shop, running }
    }

    /// kill -9: whatever it waited for never comes, and the kernel lets go of its lock.
    async fn kill(&mut self) {
        self.running.abort();
        let _ = (&mut self.running).await;
        self.shop.is_dead();
    }
}

/// Tells the story of a seed; the error is what went wrong in it.
async fn story(seed: u64) -> Result<(), String> {
    let world = World::new(seed);
    let machines = 1 + world.below(3) as usize;
    let mut all: Vec<Machine> = (0..machines).map(|number| Machine::start(&world, number)).collect();
    let begun = Instant::now();
    while begun.elapsed() < STORM {
        sleep(Duration::from_millis(100 + world.below(8000))).await;
        let number = world.below(machines as u64) as usize;
        let Some(machine) = all.get_mut(number) else { continue };
        match world.below(10) {
            0..4 => {
                machine.kill().await;
                sleep(Duration::from_millis(world.below(15_000))).await;
                *machine = Machine::start(&world, number);
            }
            4 => {
                machine.shop.frozen.store(true, Ordering::Relaxed);
                sleep(Duration::from_millis(world.below(30_000))).await;
                machine.shop.thaw();
            }
            5 => {
                let jump = world.below(1_200_000) as i64 - 600_000;
                machine.shop.skew_ms.store(jump, Ordering::Relaxed);
            }
            6 => {
                world.is_away.store(true, Ordering::Relaxed);
                sleep(Duration::from_millis(world.below(20_000))).await;
                world.is_away.store(false, Ordering::Relaxed);
            }
            7 => world.lose_a_sandbox(),
            _ => {
                machine.shop.skew_ms.store(0, Ordering::Relaxed);
            }
        }
    }
    world.is_calm.store(true, Ordering::Relaxed);
    for (number, machine) in all.iter_mut().enumerate() {
        machine.shop.skew_ms.store(0, Ordering::Relaxed);
        // One that came to its end early has seen an empty queue, which may have been the truth only then.
        if machine.running.is_finished() {
            machine.kill().await;
            *machine = Machine::start(&world, number);
        }
    }
    for machine in &mut all {
        if timeout(CALM, &mut machine.running).await.is_err() {
            return Err(format!("it does not come to an end: {:#?}", world.books()));
        }
        machine.shop.is_dead();
    }
    // As the next command would.
    let last = Shop::open(&world, machines);
    last.recover().await.map_err(|error| error.to_string())?;
    last.is_dead();
    world.books().check()
}

fn tell(seed: u64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|error| error.to_string())?.block_on(story(seed))
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests chooses the seeds")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn whatever_happens_every_turn_ends_once() {
    let seeds = match number("HARVEST_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("HARVEST_SIMULATION_SEEDS").unwrap_or(SEEDS) + 1,
    };
    let told = seeds.end - seeds.start;
    let next = AtomicU64::new(seeds.start);
    // A story has one thread; that others are told beside it changes nothing in it.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if let Err(wrong) = tell(seed) {
                        panic!("seed {seed}: {wrong}\nHARVEST_SIMULATION_SEED={seed} tells it again");
                    }
                }
            });
        }
    });
    println!("{told} stories told");
}

#[test]
fn the_same_seed_is_the_same_story() {
    let journal = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new(seed);
            let machine = Machine::start(&world, 0);
            let _ = timeout(STORM, machine.running).await;
            let books: Books = world.books().clone();
            books
        })
    };
    for seed in 1..20 {
        assert_eq!(format!("{:?}", journal(seed)), format!("{:?}", journal(seed)), "seed {seed}");
    }
}
