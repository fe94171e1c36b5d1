#pragma once  // tools/command_line/output_file.hpp: a file that an option names, which has its name
              // when it is whole.

#include <gantry/types.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::cli {

/// Where a file is to be. A character device, or a stream of this process, is written directly; so
/// is a file in a folder that takes no new one.
class OutputFile {
 public:
  /// For who asks before the work begins; nothing is changed. Errors: the file cannot be written
  /// or made; it is a FIFO, a socket or the like, at which one would wait for others.
  [[nodiscard]] static Result<OutputFile> at(const std::string& path);

  [[nodiscard]] const std::string& target() const { return target_; }
  /// Whether it is written where it will be.
  [[nodiscard]] bool is_direct() const { return is_direct_; }

  /// All of `text`, and keeps it. Errors: the reason; then nothing of `text` stays.
  [[nodiscard]] Result<void> write(std::string_view text) const;

 private:
  std::string target_;
  bool is_direct_ = false;
};

/// One that is written, from front to back; an earlier file stays until it is kept. It has no name
/// until then, so whoever is killed leaves nothing; where the file system has no such files, and
/// for a moment where an earlier one is replaced, it is FILE.partial-PID. If it is not kept,
/// nothing of it stays, unless it was written directly.
class OutputWriter {
 public:
  /// Empty, to be written. No link is followed that somebody has put there meanwhile.
  [[nodiscard]] static Result<OutputWriter> open(const OutputFile& file);
  OutputWriter(OutputWriter&& other) noexcept;
  OutputWriter& operator=(OutputWriter&&) = delete;
  ~OutputWriter();

  /// All of it. Errors: the reason. What would be beyond the limit of files' sizes is an error,
  /// too, not the signal SIGXFSZ.
  [[nodiscard]] Result<void> write(ConstByteSpan bytes);
  [[nodiscard]] Result<void> write(std::string_view text) {
    return write(std::as_bytes(std::span(text)));
  }
  /// Gives it its name; afterwards nothing can be written. Errors: the reason; then nothing of it
  /// stays.
  [[nodiscard]] Result<void> keep();

 private:
  explicit OutputWriter(OutputFile file) : file_(std::move(file)) {}
  [[nodiscard]] int open_partial();  // -1 and errno: why not
  [[nodiscard]] bool give_name();    // else errno says why
  [[nodiscard]] bool link(const std::string& name) const;
  [[nodiscard]] bool close() noexcept;

  OutputFile file_;
  std::string partial_;  // empty: it has no name yet, or that of the file
  int descriptor_ = -1;
  Bytes written_ = 0;
  bool is_limited_ = false;  // by RLIMIT_FSIZE
};

/// PATH.partial-PID, or of a path with a long name a shorter one; with `number` behind it if that
/// is not 0: what is not finished, beside where it will be.
[[nodiscard]] std::string partial_path(const std::string& path, unsigned number = 0);
/// Whether a file of that name was not finished, by this or another process.
[[nodiscard]] bool is_partial(std::string_view name);

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
