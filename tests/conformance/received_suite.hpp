#pragma once  // received_suite.hpp: a channel, a file and bytes for what is received.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <gantry/gantry.hpp>
#include <optional>
#include <vector>

#include "core/base/test_bytes.hpp"

namespace gantry::received {

using Memory = std::vector<std::byte>;

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

inline Memory noise(Bytes size, unsigned seed) {
  return test::random_bytes(size, seed);
}

inline std::shared_ptr<const OpenFile> new_file() {
  const std::string folder = std::filesystem::temp_directory_path().string();
  return std::make_shared<OpenFile>(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600),
                                    "file 'x'");
}

/// All that is in it.
inline Memory contents_of(const OpenFile& file) {
  Memory bytes(static_cast<Bytes>(::lseek(file.descriptor(), 0, SEEK_END)));
  EXPECT_EQ(::pread(file.descriptor(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  return bytes;
}

/// A channel whose consumer wants to have what it receives registered.
class Channel {
 public:
  explicit Channel(std::vector<std::shared_ptr<Registrar>> registrars = {}) {
    folder_ = (std::filesystem::temp_directory_path() / "gantry-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    runtime_.emplace(*Runtime::create({.directory = folder_, .engine = "inline"}));
    out_.emplace(*runtime_->producer("frames", {{}, {.pool = {.slab_bytes = Bytes{1} << 20}}}));
    ConsumerOptions options;
    options.registrars = std::move(registrars);
    in_.emplace(*runtime_->consumer("frames", options, soon()));
  }
  ~Channel() { std::filesystem::remove_all(folder_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Message exchange(const Memory& payload) {
    EXPECT_TRUE(out_->send(payload, soon()));
    auto message = in_->receive(soon());
    EXPECT_TRUE(message);
    return message ? std::move(*message) : Message();
  }
  [[nodiscard]] std::string explain() const { return in_->explain().text(); }

 private:
  std::string folder_;
  std::optional<Runtime> runtime_;
  std::optional<Producer> out_;
  std::optional<Consumer> in_;
};

}  // namespace gantry::received
