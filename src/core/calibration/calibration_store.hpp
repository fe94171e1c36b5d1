#pragma once  // calibration/calibration_store.hpp: keeps calibrations in files.

#include <gantry/engine.hpp>

#include "core/base/os/fd.hpp"

namespace gantry {

/// Keeps a file for each machine in the user's cache folder. It checks a file before it trusts it:
/// a folder or file that somebody else owns or could write, and a file that is a link, too large or
/// makes no sense, count as nothing, with a note.
class CalibrationStore {
 public:
  /// The folder is $XDG_CACHE_HOME/gantry if that is absolute, else $HOME/.cache/gantry; it is made
  /// when first written.
  explicit CalibrationStore(std::string machine);

  struct Found {
    std::optional<Calibration> calibration;
    std::string note;  ///< Why there is none, if there is an obstacle; "what: why".
  };
  [[nodiscard]] Found load() const;

  /// Replaces the file, whole or not at all. Errors: `permission_denied`, `system`, ...
  [[nodiscard]] Result<void> save(const Calibration& calibration) const;

  /// While the lock lives nobody else has one for this machine. Errors: `busy` and save()'s.
  [[nodiscard]] Result<Fd> lock() const;

  [[nodiscard]] const std::string& path() const noexcept {
    return path_;
  }  ///< Empty: there is no
     ///< place.

 private:
  [[nodiscard]] Result<Fd> open_folder(bool make) const;

  std::string machine_;
  std::string folder_;
  std::string name_;
  std::string path_;
};

}  // namespace gantry
