#pragma once  // gemm/library_file.hpp: shared libraries opened at run time, and their OpenMP.

#include <gantry/types.hpp>

namespace gantry {

/// An opened shared library. It stays loaded: its threads and its code for this CPU would not
/// survive being unloaded.
class LibraryFile {
 public:
  /// Errors: `unsupported`, with `install` as the hint.
  [[nodiscard]] static Result<LibraryFile> open(const char* file, std::string_view name,
                                                std::string_view install);

  /// Null: there is no such function.
  template <class Function>
  [[nodiscard]] Function* find(const char* function) const noexcept {
    return reinterpret_cast<Function*>(address_of(function));
  }
  /// Errors: `unsupported`.
  template <class Function>
  [[nodiscard]] Result<void> find(const char* function, Function*& found) const {
    found = find<Function>(function);
    return found == nullptr ? lacks(function) : Result<void>();
  }
  /// A function of a library that this one needs, as the dynamic linker finds it for this one: the
  /// program's comes first.
  template <class Function>
  [[nodiscard]] Function* find_needed(const char* function) const noexcept {
    return reinterpret_cast<Function*>(needed_address_of(function));
  }

  /// False: the process had it loaded before.
  [[nodiscard]] bool is_ours() const noexcept { return is_ours_; }

 private:
  LibraryFile(void* handle, std::string name, bool is_ours) noexcept
      : handle_(handle), name_(std::move(name)), is_ours_(is_ours) {}
  [[nodiscard]] void* address_of(const char* function) const noexcept;
  [[nodiscard]] void* needed_address_of(const char* function) const noexcept;
  [[nodiscard]] Result<void> lacks(const char* function) const;

  void* handle_;
  std::string name_;
  bool is_ours_;
};

/// The threads that a library's OpenMP regions use. OpenMP keeps that number for each thread of the
/// program by itself.
struct OpenMp {
  void (*set_threads)(int count) = nullptr;
  int (*get_threads)() = nullptr;

  [[nodiscard]] static Result<OpenMp> of(const LibraryFile& library);
};

/// Holds the calling thread's regions to `threads`; then it has its own number again.
class OpenMpLimit {
 public:
  OpenMpLimit(const OpenMp& open_mp, unsigned threads) noexcept
      : open_mp_(open_mp), before_(open_mp.get_threads()) {
    open_mp_.set_threads(static_cast<int>(threads));
  }
  OpenMpLimit(const OpenMpLimit&) = delete;
  OpenMpLimit& operator=(const OpenMpLimit&) = delete;
  ~OpenMpLimit() { open_mp_.set_threads(before_); }

 private:
  const OpenMp& open_mp_;
  int before_;
};

}  // namespace gantry
