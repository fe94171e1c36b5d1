#pragma once  // fault/broken_property.hpp: what ends a role that saw something wrong.

#include <exception>
#include <string>

namespace gantry::fault {

/// A property did not hold. Ends the role that saw it.
class Trouble : public std::exception {
 public:
  explicit Trouble(std::string what) : what_(std::move(what)) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

}  // namespace gantry::fault
