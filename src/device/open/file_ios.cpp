#include "device/open/file_ios.hpp"

#include "core/base/result.hpp"
#include "device/file/uring/file_io.hpp"

namespace gantry {
namespace {

struct FileIoMaker {
  std::string_view name;
  Result<std::shared_ptr<FileIo>> (*make)();
};

// The best first; the last one is there everywhere and says why it is not a better one.
constexpr FileIoMaker kFileIoMakers[] = {
    {"io_uring", make_uring_file_io},
    {"pread", [] { return make_plain_file_io(); }},
};

}  // namespace

Result<std::shared_ptr<FileIo>> make_file_io(std::string_view name) {
  std::string names;
  for (const FileIoMaker& maker : kFileIoMakers) {
    if (maker.name == name) return maker.make();
    names += (names.empty() ? "" : ", ") + std::string(maker.name);
  }
  return fail(Code::not_found, fmt::format("file I/O '{}': there is no such way", name),
              "the ways are " + names);
}

std::vector<EngineStatus> file_ios() {
  std::vector<EngineStatus> all;
  for (const FileIoMaker& maker : kFileIoMakers) {
    const auto made = maker.make();
    if (made)
      all.push_back({std::string(maker.name), true, (*made)->about(), {}});
    else
      all.push_back({std::string(maker.name), false, made.error().message, made.error().hint});
  }
  return all;
}

Result<std::shared_ptr<FileIo>> best_file_io() {
  std::string why;
  for (const FileIoMaker& maker : std::span(kFileIoMakers).first(std::size(kFileIoMakers) - 1)) {
    auto made = maker.make();
    if (made) return made;
    why += (why.empty() ? "" : "; ") + made.error().message;
  }
  return make_plain_file_io(std::move(why));
}

}  // namespace gantry
