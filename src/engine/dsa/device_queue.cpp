#include "engine/dsa/device_queue.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/fd.hpp"
#include "base/fork.hpp"
#include "base/result.hpp"
#include "engine/dsa/device_pages.hpp"

namespace gantry::dsa {
namespace {

constexpr std::size_t kPortalBytes = 4096;

// The portal repeats itself throughout its page. Writes to one address would queue behind each
// other, so they go round.
constexpr std::size_t kPlaces = kPortalBytes / sizeof(Descriptor);

std::string group_name(gid_t group) {
  const struct group* entry = ::getgrgid(group);
  return entry != nullptr ? entry->gr_name : std::to_string(group);
}

tl::unexpected<Error> no_permission(const QueueFacts& facts) {
  struct stat file{};
  std::string who = "its owner";
  if (::stat(facts.path.c_str(), &file) == 0)
    who = fmt::format("user {} and group {}, mode {:o}", file.st_uid, group_name(file.st_gid),
                      file.st_mode & 0777u);
  return fail(Code::permission_denied,
              fmt::format("{}: no permission to open it; it is for {}", facts.path, who),
              fmt::format("sudo chgrp YOUR_GROUP {0} && sudo chmod g+rw {0}", facts.path));
}

tl::unexpected<Error> cannot_open(const QueueFacts& facts, int error) {
  if (error == EACCES || error == EPERM) return no_permission(facts);
  if (error == EBUSY)
    return fail(Code::busy, facts.path + ": a dedicated queue, which another program has open",
                "end that program, or configure a shared queue (accel-config config-wq "
                "--mode=shared)");
  if (error == ENOENT || error == ENXIO || error == ENODEV)
    return fail(Code::not_found, facts.path + ": the queue is enabled but has no device file",
                "make /dev/dsa visible here (in a container: --device=" + facts.path + ")");
  return fail_errno("opening " + facts.path, error, "look into dmesg for idxd");
}

class DeviceQueue final : public WorkQueue {
 public:
  DeviceQueue(QueueFacts facts, std::shared_ptr<DeviceCalls> calls, Fd file,
              std::chrono::nanoseconds patience)
      : facts_(std::move(facts)),
        calls_(std::move(calls)),
        file_(std::move(file)),
        patience_(patience) {
    traits_.name = facts_.name;
    traits_.kind = facts_.kind;
    traits_.entries = facts_.entries;
    traits_.max_transfer_bytes = facts_.max_transfer_bytes;
    traits_.least_batch = facts_.version < 2 ? 2 : 1;
  }
  ~DeviceQueue() override { let_go(); }
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  const QueueTraits& traits() const noexcept override { return traits_; }
  Taken submit(std::span<const Descriptor> descriptors) noexcept override;
  // The kernel drains this process's descriptors from the queue when the file's last descriptor is
  // closed; a mapped portal would keep the file open.
  bool close() noexcept override {
    let_go();
    return true;
  }
  Result<std::unique_ptr<WorkQueue>> reopen() const override {
    return open_device_queue(facts_, calls_, patience_);
  }

  /// Finds the entrance. Errors: as open_device_queue().
  Result<void> choose();

 private:
  bool choose_portal();
  Result<void> prove();
  void use_write(std::string why);
  void let_go() noexcept {
    // A child does not inherit the mapping, and may have something else there.
    if (portal_ != nullptr && fork_guard_.is_this()) calls_->unmap(portal_);
    portal_ = nullptr;
    file_.reset();
  }
  [[nodiscard]] void* next_place() noexcept {
    return static_cast<std::byte*>(portal_) + (place_++ % kPlaces) * sizeof(Descriptor);
  }

  const QueueFacts facts_;
  const std::shared_ptr<DeviceCalls> calls_;
  const ForkGuard fork_guard_;
  Fd file_;
  const std::chrono::nanoseconds patience_;
  QueueTraits traits_;
  void* portal_ = nullptr;
  std::size_t place_ = 0;
};

Taken DeviceQueue::submit(std::span<const Descriptor> descriptors) noexcept {
  if (!fork_guard_.is_this()) return {0, EPERM};
  if (!file_) return {0, EBADF};
  if (portal_ == nullptr) {
    const ssize_t bytes = calls_->write(file_.get(), std::as_bytes(descriptors));
    if (bytes < 0) return {0, errno == EINTR ? EAGAIN : errno};
    return {static_cast<std::size_t>(bytes) / sizeof(Descriptor), 0};
  }
  publish_descriptors();
  Taken taken;
  for (const Descriptor& descriptor : descriptors) {
    if (traits_.entrance == Entrance::movdir64b)
      calls_->movdir64b(next_place(), descriptor);
    else if (calls_->enqcmd(next_place(), descriptor))
      return {taken.count, EAGAIN};
    ++taken.count;
  }
  return taken;
}

void DeviceQueue::use_write(std::string why) {
  traits_.entrance = Entrance::write;
  traits_.max_batch = 0;  // the first version's driver takes none by write()
  traits_.why = std::move(why);
}

bool DeviceQueue::choose_portal() {
  const bool shared = facts_.kind == QueueKind::shared;
  const PortalFeatures has = calls_->features();
  if (!(shared ? has.enqcmd : has.movdir64b)) {
    use_write(fmt::format("this CPU has no {}, using write()", shared ? "ENQCMD" : "MOVDIR64B"));
    return false;
  }
  void* portal = calls_->map(file_.get());
  if (portal == MAP_FAILED) {
    const int error = errno;
    use_write(error == EPERM ? "portal needs CAP_SYS_RAWIO, using write()"
                             : fmt::format("portal cannot be mapped ({}), using write()",
                                           std::generic_category().message(error)));
    return false;
  }
  portal_ = portal;
  traits_.entrance = shared ? Entrance::enqcmd : Entrance::movdir64b;
  traits_.max_batch = facts_.max_batch;
  return true;
}

Result<void> DeviceQueue::choose() {
  choose_portal();
  return prove();
}

// A descriptor that does nothing must be accepted and answered. If it is not answered its record is
// leaked: the device may come to it later.
Result<void> DeviceQueue::prove() {
  DevicePages<CompletionRecord> record;
  Descriptor noop;
  noop.set(Opcode::noop, Flags::completion_valid | Flags::request_completion);
  noop.completion = reinterpret_cast<std::uint64_t>(&*record);
  const Deadline deadline = Deadline::after(patience_);
  Taken taken;
  while ((taken = submit({&noop, 1})).count == 0) {
    if (taken.error != 0 && taken.error != EAGAIN)
      return fail(Code::unsupported,
                  fmt::format("{}: {}; the kernel refuses descriptors by write(): {}", facts_.path,
                              traits_.why, std::generic_category().message(taken.error)),
                  "run with CAP_SYS_RAWIO, or with Linux 6.9.1 or newer");
    if (deadline.passed())
      return fail(Code::timed_out, facts_.path + ": the queue is full and stays full",
                  "see which programs use it (accel-config list), or give it more entries");
    std::this_thread::yield();
  }
  while (load_status(*record) == 0) {
    if (deadline.passed()) {
      record.leave();
      return fail(Code::timed_out,
                  fmt::format("{}: a descriptor by {} was not answered", facts_.path,
                              to_string(traits_.entrance)),
                  fmt::format("sudo accel-config disable-device {0}; enable it again; see dmesg",
                              facts_.device));
    }
    std::this_thread::yield();
  }
  const Status status = status_in(load_status(*record));
  if (status == Status::success) return {};
  return fail(Code::unsupported, fmt::format("{}: a descriptor that does nothing failed: {}",
                                             facts_.path, to_string(status)));
}

}  // namespace

int DeviceCalls::open(const char* path) noexcept {
  return ::open(path, O_RDWR | O_CLOEXEC);
}

void* DeviceCalls::map(int file) noexcept {
  return ::mmap(nullptr, kPortalBytes, PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
}

void DeviceCalls::unmap(void* portal) noexcept {
  ::munmap(portal, kPortalBytes);
}

ssize_t DeviceCalls::write(int file, ConstByteSpan descriptors) noexcept {
  return ::write(file, descriptors.data(), descriptors.size());
}

Result<std::unique_ptr<WorkQueue>> open_device_queue(const QueueFacts& facts,
                                                     const std::shared_ptr<DeviceCalls>& calls,
                                                     std::chrono::nanoseconds patience) {
  return guarded([&]() -> Result<std::unique_ptr<WorkQueue>> {
    Fd file(calls->open(facts.path.c_str()));
    if (!file) return cannot_open(facts, errno);
    auto queue = std::make_unique<DeviceQueue>(facts, calls, std::move(file), patience);
    GANTRY_TRY(queue->choose());
    return queue;
  });
}

}  // namespace gantry::dsa
