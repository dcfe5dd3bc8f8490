//! The text of the Ruby runtime: all files of `ruby/`, one after the other.
//!
//! The server hands this text to the system's ruby on a descriptor, so nothing has to be installed.

/// Every file of `ruby/`, each after those that it needs.
const FILES: [&str; 3] = [
    include_str!("../../../../ruby/frames.rb"),
    include_str!("../../../../ruby/rack.rb"),
    include_str!("../../../../ruby/serve.rb"),
];

/// One program made of all files.
pub fn bundle() -> String {
    FILES.concat()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_is_part_of_the_program() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ruby");
        let program = super::bundle();
        for entry in std::fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            assert!(program.contains(&std::fs::read_to_string(&path).unwrap()), "{}", path.display());
        }
    }
}
