#pragma once  // new_file.hpp: a file that gets its name when it is whole.

#include <string>

#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"

namespace gantry::image {

/// A file without a name, in the folder of the one that it will have. Where a file has that name
/// and is replaced, it is PATH.partial-PID for a moment; where the file system has no files without
/// one, from the beginning. Whoever is killed before keep() leaves nothing, or that, which the next
/// one of that path removes.
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

  /// PATH.partial-PID, or of a path with a long name a shorter one; with `number` behind it if that
  /// is not 0.
  [[nodiscard]] static std::string partial_path(const std::string& path, unsigned number = 0);

 private:
  NewFile() = default;
  /// Removes what killed processes have left in the folder under names of partial_path().
  void remove_left() const;
  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> give_name();
  [[nodiscard]] bool link(const std::string& name) const noexcept;  // else errno says why
  [[nodiscard]] Result<void> rename_partial();
  [[nodiscard]] Result<void> sync_folder() const;

  std::string path_;  // where it will be
  std::string folder_;
  std::string partial_;  // empty: it has no name yet
  Fd file_;
};

}  // namespace gantry::image
