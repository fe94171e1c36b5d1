#pragma once  // fuzz/folder.hpp: a directory for channels, and what hostile peers hand over.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "core/base/event.hpp"
#include "core/base/wake.hpp"
#include "core/channel/wire/format.hpp"
#include "core/channel/wire/metrics_page.hpp"
#include "core/channel/wire/protocol.hpp"

namespace gantry::fuzz {

/// Removed when the process ends in good order.
class Folder {
 public:
  Folder() {
    path_ = (std::filesystem::temp_directory_path() / "gantry-fuzz-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

template <class Page>
[[nodiscard]] Page* make_page(Region& memory, std::uint64_t magic) {
  auto* const page = new (memory.data()) Page{};
  page->magic = magic;
  page->version = kFormatVersion;
  return page;
}

/// Descriptors that are none of what is asked for.
[[nodiscard]] inline std::vector<Fd> wrong_descriptors() {
  std::vector<Fd> made;
  made.emplace_back(::open("/dev/zero", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  made.emplace_back(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) == 0)
    for (const int end : pipe) made.emplace_back(end);
  made.push_back(*make_event());
  made.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return made;
}

}  // namespace gantry::fuzz
