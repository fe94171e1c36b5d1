#pragma once  // tools/command_line/output_file.hpp: a file that an option names, which has its name
              // when it is whole.

#include <gantry/types.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::cli {

/// What is written beside a file, FILE.partial-PID, and then renamed to it: an earlier file stays
/// until then. A character device, or a stream of this process, is written directly.
class OutputFile {
 public:
  /// For who asks before the work begins; nothing is changed. Errors: the file cannot be written
  /// or made; it is a FIFO, a socket or the like, at which one would wait for others.
  [[nodiscard]] static Result<OutputFile> at(const std::string& path);

  [[nodiscard]] const std::string& target() const { return target_; }

  /// Opens what will be it, empty, to be written; -1 and errno: why not. No link is followed that
  /// somebody has put there meanwhile. Close it before keep().
  [[nodiscard]] int open() const noexcept;
  /// All of `text`, and keeps it. Errors: the reason; then nothing of `text` stays.
  [[nodiscard]] Result<void> write(std::string_view text) const;
  /// Gives it its name. Errors: the reason; then nothing of it stays.
  [[nodiscard]] Result<void> keep() const;
  void drop() const noexcept;  ///< Removes what was written, unless it was written directly.

 private:
  std::string target_;
  std::string written_;
};

/// A file as the command line names it.
struct NamedFile {
  std::string what;  ///< "--trace"; "FILE"
  std::string path;  ///< Empty: not given.
};

/// Errors: `invalid_argument`: one of `outputs` is `input`, or another of them, by its place or its
/// inode. Devices may be named twice.
[[nodiscard]] Result<void> check_different(const NamedFile& input,
                                           const std::vector<NamedFile>& outputs);

}  // namespace gantry::cli
