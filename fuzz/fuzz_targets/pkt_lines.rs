#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| harvest_gateway::git_fuzzing::pkt_lines(input));
