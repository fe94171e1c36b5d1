#pragma once  // file_ios.hpp: the ways to read and write files that must pass the suite.

#include <gtest/gtest.h>

#include <gantry/gantry.hpp>
#include <ostream>

#include "device/file/uring/file_io.hpp"

namespace gantry {

struct FileIoCase {
  const char* name;
  Result<std::shared_ptr<FileIo>> (*make)();
};

inline void PrintTo(const FileIoCase& way, std::ostream* out) {
  *out << way.name;
}

inline const FileIoCase kFileIos[] = {
    {"pread", [] { return make_plain_file_io(); }},
    {"io_uring", [] { return make_uring_file_io(); }},
};

}  // namespace gantry
