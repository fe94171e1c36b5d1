#pragma once  // calibration/calibration_store.hpp: where calibrations are kept, and by whom.

#include <gantry/engine/policy.hpp>

#include "base/fd.hpp"

namespace gantry {

/// The user's cache folder; a file for each machine. What is there is looked at before it is
/// believed: a folder or file that somebody else owns or could write, and a file that is a link,
/// too large or makes no sense, count as nothing, with a note.
class CalibrationStore {
 public:
  /// $XDG_CACHE_HOME/gantry if that is absolute, else $HOME/.cache/gantry; made when first written.
  explicit CalibrationStore(std::string machine);

  struct Found {
    std::optional<Calibration> calibration;
    std::string note;  ///< Why there is none, if something stood in the way; "what: why".
  };
  [[nodiscard]] Found load() const;

  /// Replaces what is there, whole or not at all. Errors: `permission_denied`, `system`, ...
  [[nodiscard]] Result<void> save(const Calibration& calibration) const;

  /// While it lives nobody else has one for this machine. Errors: `busy` and save()'s.
  [[nodiscard]] Result<Fd> lock() const;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }  ///< Empty: nowhere.

 private:
  [[nodiscard]] Result<Fd> open_folder(bool make) const;

  std::string machine_;
  std::string folder_;
  std::string name_;
  std::string path_;
};

}  // namespace gantry
