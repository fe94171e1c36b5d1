#pragma once  // bindings/c/test_ends.hpp: ends, bytes and processes for the tests of this folder.

#include <gantry/gantry.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gantry::c::test {

/// Only a hang takes this long.
inline constexpr std::int64_t kPatienceNs = 60'000'000'000;
inline constexpr std::int64_t kForEver = -1;

struct Freed {
  void operator()(void* handle) const { gantry_free(handle); }
};
template <class Struct>
using Owned = std::unique_ptr<Struct, Freed>;

/// A handle that a function returns through a pointer: `Out(producer)` as its last argument.
template <class Struct>
class Out {
 public:
  explicit Out(Owned<Struct>& into) : into_(into) {}
  ~Out() { into_.reset(given_); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  operator Struct**() { return &given_; }  // NOLINT: stands for the pointer

 private:
  Owned<Struct>& into_;
  Struct* given_ = nullptr;
};

/// A function's code as text, with the error that goes along, for messages of tests.
inline std::string told(gantry_code code) {
  if (code == GANTRY_OK) return "ok";
  const gantry_error* const error = gantry_last_error();
  return std::string(gantry_code_name(code)) + ": " + error->message + "; " + error->hint;
}
#define EXPECT_OK(call) EXPECT_EQ(gantry::c::test::told(call), "ok")
#define ASSERT_OK(call) ASSERT_EQ(gantry::c::test::told(call), "ok")
/// The call fails with that code, and message and hint have those words.
#define EXPECT_REFUSED(call, expected, words, hint_words)                  \
  do {                                                                     \
    const gantry_code code_ = (call);                                      \
    EXPECT_STREQ(gantry_code_name(code_), gantry_code_name(expected));     \
    if (code_ == GANTRY_OK) break;                                         \
    EXPECT_EQ(gantry_last_error()->code, code_);                           \
    EXPECT_NE(std::strstr(gantry_last_error()->message, words), nullptr)   \
        << gantry_last_error()->message;                                   \
    EXPECT_NE(std::strstr(gantry_last_error()->hint, hint_words), nullptr) \
        << gantry_last_error()->hint;                                      \
  } while (false)

/// The bytes of message `number`: they differ between neighbours and between messages.
inline unsigned char byte_at(std::size_t number, std::size_t offset) {
  return static_cast<unsigned char>((number * 131 + offset * 7 + offset / 251) & 0xff);
}
inline void fill(void* data, std::size_t bytes, std::size_t number) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(data)[i] = byte_at(number, i);
}
inline std::vector<unsigned char> bytes_of(std::size_t number, std::size_t bytes) {
  std::vector<unsigned char> made(bytes);
  fill(made.data(), bytes, number);
  return made;
}
inline bool are_of(const void* data, std::size_t bytes, std::size_t number) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (static_cast<const unsigned char*>(data)[i] != byte_at(number, i)) return false;
  return true;
}

inline gantry_part part_of(const std::vector<unsigned char>& bytes) {
  gantry_part part{};
  part.size = sizeof part;
  part.data = bytes.data();
  part.bytes = bytes.size();
  return part;
}
inline gantry_part part_of(gantry_block* block) {
  gantry_part part{};
  part.size = sizeof part;
  part.block = block;
  return part;
}
inline gantry_part part_of(gantry_message* message) {
  gantry_part part{};
  part.size = sizeof part;
  part.message = message;
  return part;
}

inline gantry_message_info info_of(const gantry_message* message) {
  gantry_message_info info{};
  info.size = sizeof info;
  EXPECT_OK(gantry_message_get_info(message, &info));
  return info;
}
inline gantry_segment segment_of(const gantry_message* message, std::size_t index = 0) {
  gantry_segment segment{};
  segment.size = sizeof segment;
  EXPECT_OK(gantry_message_segment(message, index, &segment));
  return segment;
}
/// The message is one segment with the bytes of message `number`.
inline void expect_bytes(const gantry_message* message, std::size_t bytes, std::size_t number) {
  ASSERT_NE(message, nullptr);
  const gantry_segment segment = segment_of(message);
  ASSERT_EQ(segment.bytes, bytes);
  EXPECT_TRUE(are_of(segment.data, segment.bytes, number)) << "message " << number;
}

/// A forked process that tells when it is ready. Fork before there are threads: see the tests.
class Process {
 public:
  explicit Process(const std::function<void(const Process&)>& body) {
    EXPECT_EQ(::pipe(pipe_), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    body(*this);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ~Process() {
    if (pid_ > 0) static_cast<void>(end(SIGKILL));
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void report() const { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }  // in the child
  void await_report() {                                             // in the parent
    ::close(std::exchange(pipe_[1], -1));
    char byte = 0;
    EXPECT_EQ(::read(pipe_[0], &byte, 1), 1) << "it ended before";
  }
  [[noreturn]] static void hold() {  // in the child, until it is killed
    for (;;) ::pause();
  }
  int end(int signal) {
    ::kill(pid_, signal);
    return wait();
  }
  int wait() {
    int status = -1;
    EXPECT_GT(::waitpid(std::exchange(pid_, -1), &status, 0), 0);
    return status;
  }

 private:
  int pipe_[2] = {-1, -1};
  pid_t pid_ = -1;
};

/// A folder for channels, and a runtime in it once it is asked for.
class Ends : public testing::Test {
 protected:
  Ends() {
    std::string name = testing::TempDir() + "gantry-c-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Ends() override {
    runtime_.reset();
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] gantry_runtime* runtime(int interrupt = -1) {
    if (runtime_) return runtime_.get();
    gantry_runtime_options options{};
    options.size = sizeof options;
    options.directory = folder_.c_str();
    options.interrupt_descriptor = interrupt;
    EXPECT_OK(gantry_runtime_create(&options, Out(runtime_)));
    return runtime_.get();
  }
  [[nodiscard]] Owned<gantry_producer> producer(const gantry_producer_options* options = nullptr) {
    Owned<gantry_producer> made;
    EXPECT_OK(gantry_producer_open(runtime(), "c", options, Out(made)));
    return made;
  }
  [[nodiscard]] Owned<gantry_consumer> consumer(const gantry_consumer_options* options = nullptr) {
    Owned<gantry_consumer> made;
    EXPECT_OK(gantry_consumer_open(runtime(), "c", options, kPatienceNs, Out(made)));
    return made;
  }
  static Owned<gantry_message> receive(const Owned<gantry_consumer>& from) {
    Owned<gantry_message> message;
    EXPECT_OK(gantry_receive(from.get(), kPatienceNs, Out(message)));
    return message;
  }
  static void send(const Owned<gantry_producer>& to, const std::vector<unsigned char>& bytes) {
    const gantry_part part = part_of(bytes);
    EXPECT_OK(gantry_send(to.get(), &part, 1, kPatienceNs, nullptr));
  }

  std::string folder_;
  Owned<gantry_runtime> runtime_;
};

}  // namespace gantry::c::test
