#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| roo_lsp_fuzz::ipc_frames::run(data));
