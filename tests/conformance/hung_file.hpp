#pragma once  // hung_file.hpp: a regular file whose reads and writes do not return until told.

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/os/fd.hpp"

namespace gantry {

/// What a network or a broken disk does: a file system of ours (FUSE, without its library) that
/// answers everything about its one file at once, but reads and writes of it only after release().
/// Needs the right to mount; the mount is in a namespace of this thread and those it starts, so
/// that nothing is left wherever the program ends.
class HungFile {
 public:
  explicit HungFile(std::uint64_t size) : size_(size) {
    folder_ = (std::filesystem::temp_directory_path() / "gantry-hung-XXXXXX").string();
    if (::mkdtemp(folder_.data()) == nullptr) return;
    requests_ = Fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!requests_ || !make_namespace()) return;
    const std::string options = "fd=" + std::to_string(requests_.get()) +
                                ",rootmode=40000,user_id=" + std::to_string(::getuid()) +
                                ",group_id=" + std::to_string(::getgid());
    if (::mount("gantry-hung", folder_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
      return;
    is_mounted_ = true;
    server_ = std::thread([this] { serve(); });
  }
  ~HungFile() {
    release();
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    // The last who has the file open ends the file system, and with it the thread.
    if (server_.joinable()) server_.join();
    ::rmdir(folder_.c_str());
  }
  HungFile(const HungFile&) = delete;
  HungFile& operator=(const HungFile&) = delete;

  /// Else there is no such thing here.
  [[nodiscard]] bool is_there() const noexcept { return is_mounted_; }
  [[nodiscard]] std::string path() const { return folder_ + "/x"; }
  /// Waits until so many reads and writes have come.
  void wait_for(std::size_t requests) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return count_ >= requests; });
  }
  /// Answers those that came, and those that will.
  void release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    for (const Held& one : held_) answer_io(one);
    held_.clear();
  }

 private:
  struct Held {
    std::uint64_t unique = 0;
    std::uint32_t opcode = 0;
    std::uint32_t size = 0;
  };

  static bool make_namespace() {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  }

  void serve() {
    std::vector<char> request(std::size_t{2} << 20);
    for (;;) {
      const ssize_t got = ::read(requests_.get(), request.data(), request.size());
      if (got < 0 && (errno == EINTR || errno == ENOENT)) continue;
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;  // ENODEV: unmounted
      fuse_in_header header{};
      std::memcpy(&header, request.data(), sizeof header);
      handle(header, request.data() + sizeof header);
    }
  }

  void handle(const fuse_in_header& header, const char* body) {
    switch (header.opcode) {
      case FUSE_INIT:
        return answer(header.unique, init());
      case FUSE_LOOKUP:
        if (std::strcmp(body, "x") != 0) return refuse(header.unique, -ENOENT);
        return answer(header.unique, entry());
      case FUSE_GETATTR:
      case FUSE_SETATTR:
        return answer(header.unique, attributes(header.nodeid));
      case FUSE_OPEN: {
        fuse_open_out open{};
        open.open_flags = FOPEN_DIRECT_IO;  // each read is asked for here
        return answer(header.unique, open);
      }
      case FUSE_READ:
      case FUSE_WRITE:
        return hold(header, body);
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:  // it does not care
        return;
      case FUSE_FLUSH:
      case FUSE_RELEASE:
        return refuse(header.unique, 0);
      default:
        return refuse(header.unique, -ENOSYS);
    }
  }

  void hold(const fuse_in_header& header, const char* body) {
    fuse_read_in in{};  // a write's begins with the same
    std::memcpy(&in, body, sizeof in);
    const Held one{header.unique, header.opcode, in.size};
    const std::lock_guard lock(mutex_);
    ++count_;
    came_.notify_all();
    if (is_released_)
      answer_io(one);
    else
      held_.push_back(one);
  }

  void answer_io(const Held& one) const {
    if (one.opcode == FUSE_READ) return answer_bytes(one.unique, 0, std::string(one.size, 'r'));
    fuse_write_out out{};
    out.size = one.size;
    answer(one.unique, out);
  }

  template <class Out>
  void answer(std::uint64_t unique, const Out& out) const {
    answer_bytes(unique, 0, std::string(reinterpret_cast<const char*>(&out), sizeof out));
  }
  void refuse(std::uint64_t unique, int error) const { answer_bytes(unique, error, {}); }
  void answer_bytes(std::uint64_t unique, int error, const std::string& bytes) const {
    const auto size = static_cast<std::uint32_t>(sizeof(fuse_out_header) + bytes.size());
    const fuse_out_header header{size, error, unique};
    std::string all(reinterpret_cast<const char*>(&header), sizeof header);
    all += bytes;
    static_cast<void>(!::write(requests_.get(), all.data(), all.size()));
  }

  static fuse_init_out init() {
    fuse_init_out out{};
    out.major = FUSE_KERNEL_VERSION;
    out.minor = FUSE_KERNEL_MINOR_VERSION;
    out.max_readahead = 4096;
    out.max_write = 1 << 20;
    out.max_background = 64;
    out.congestion_threshold = 48;
    return out;
  }
  [[nodiscard]] fuse_attr facts(std::uint64_t node) const {
    fuse_attr facts{};
    facts.ino = node;
    facts.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0600;
    facts.nlink = 1;
    facts.size = node == FUSE_ROOT_ID ? 0 : size_;
    facts.uid = ::getuid();
    facts.gid = ::getgid();
    return facts;
  }
  [[nodiscard]] fuse_attr_out attributes(std::uint64_t node) const {
    fuse_attr_out out{};
    out.attr = facts(node);
    return out;
  }
  [[nodiscard]] fuse_entry_out entry() const {
    fuse_entry_out out{};
    out.nodeid = kNode;
    out.attr = facts(kNode);
    return out;
  }

  static constexpr std::uint64_t kNode = 2;
  const std::uint64_t size_;
  std::string folder_;
  Fd requests_;
  bool is_mounted_ = false;
  std::thread server_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Held> held_;
  std::size_t count_ = 0;
  bool is_released_ = false;
};

}  // namespace gantry
