#pragma once  // image/new_file.hpp: a file that gets its name when it is whole.

#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace gantry::image {

/// A file without a name, in the folder of the one that it will have; if the file system has no
/// such files, one beside it, PATH.partial-PID. Whoever is killed before keep() leaves nothing, or
/// that.
class NewFile {
 public:
  /// Errors: the folder cannot be written; something that is no regular file has the name.
  [[nodiscard]] static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  /// Writes all of `bytes` there. Errors: the reason, with the offset.
  [[nodiscard]] Result<void> write(ConstByteSpan bytes, Bytes offset);
  /// Sets the size: what was not written is 0.
  [[nodiscard]] Result<void> set_size(Bytes bytes);
  /// Waits until everything is on the disk, and gives the file its name; a file that had it is
  /// replaced. Errors: the reason; then nothing stays.
  [[nodiscard]] Result<void> keep();

 private:
  NewFile() = default;
  [[nodiscard]] Result<void> open(const std::string& folder);
  [[nodiscard]] Result<void> give_name();
  [[nodiscard]] Result<void> sync_folder() const;

  std::string path_;  // where it will be
  std::string folder_;
  std::string partial_;  // empty: it has no name yet
  Fd file_;
};

}  // namespace gantry::image
