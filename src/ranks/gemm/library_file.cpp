#include "ranks/gemm/library_file.hpp"

#include <dlfcn.h>

#include "core/base/result.hpp"

namespace gantry {

Result<LibraryFile> LibraryFile::open(const char* file, std::string_view name,
                                      std::string_view install) {
  void* const before = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (before != nullptr) return LibraryFile(before, std::string(name), false);
  void* const handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return LibraryFile(handle, std::string(name), true);
  return fail(Code::unsupported, fmt::format("gemm: {}: {} cannot be opened", name, file),
              std::string(install));
}

void* LibraryFile::address_of(const char* function) const noexcept {
  return ::dlsym(handle_, function);
}

void* LibraryFile::needed_address_of(const char* function) const noexcept {
  void* const global = ::dlsym(RTLD_DEFAULT, function);
  return global != nullptr ? global : address_of(function);
}

Result<void> LibraryFile::lacks(const char* function) const {
  return fail(Code::unsupported, fmt::format("gemm: {}: its library has no {}", name_, function),
              "install another version of it");
}

Result<OpenMp> OpenMp::of(const LibraryFile& library) {
  const OpenMp found{library.find_needed<void(int)>("omp_set_num_threads"),
                     library.find_needed<int()>("omp_get_max_threads")};
  if (found.set_threads != nullptr && found.get_threads != nullptr) return found;
  return fail(Code::unsupported, "gemm: a library computes by OpenMP, whose library is not found",
              "install libgomp1");
}

}  // namespace gantry
