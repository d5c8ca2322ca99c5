#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|output: &[u8]| harvest_agents::fuzzing::codex(output));
