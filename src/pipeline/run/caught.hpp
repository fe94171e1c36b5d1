#pragma once  // pipeline/run/caught.hpp: turns exceptions of the caller's functions into errors.

#include <exception>

#include "base/result.hpp"

namespace gantry {

template <class Work>
[[nodiscard]] auto caught(Work work) noexcept -> decltype(work()) {
  return guarded([&]() -> decltype(work()) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& thrown) {
      return fail(Code::system, fmt::format("a function of the job's threw: {}", thrown.what()));
    } catch (...) {
      return fail(Code::system, "a function of the job's threw what is no std::exception");
    }
  });
}

}  // namespace gantry
